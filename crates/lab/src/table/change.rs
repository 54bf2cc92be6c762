//! Two runs side by side.

use comfy_table::CellAlignment;

use super::{
    Look,
    fit::{Column, draw},
};
use crate::{
    compare::{CellChange, Change, Trend},
    stats::shift::{CONFIDENCE, LEAST_CONFIDENCE},
    words::{Scale, between, times},
};

/// What changed between two runs, as text with a newline at its end.
pub fn render_change(change: &Change, look: Look) -> String {
    let [then, now] = &change.started;
    let mut text = look.title(&format!("{then} and {now}"));
    for circumstance in &change.circumstances {
        text += &look.paragraph("  not the same: ", 4, circumstance);
    }
    let same = |a: &CellChange, b: &CellChange| a.workload == b.workload && a.network == b.network;
    for block in change.cells.chunk_by(same) {
        let place = format!("{}, {}", block[0].workload, block[0].network);
        text = text + "\n" + &look.title(&place) + &table(block, look);
    }
    text + "\n" + &look.paragraph("", 0, &summary(change))
}

fn table(block: &[CellChange], look: Look) -> String {
    let scale = Scale::of(block.iter().flat_map(|cell| cell.medians_s).flatten());
    let time = |median: Option<f64>| median.map_or_else(|| "–".to_owned(), |median| scale.with_unit(median));
    let ratio = |cell: &CellChange| cell.ratio.as_ref().map_or_else(|_| "–".to_owned(), |ratio| times(ratio.value));
    let interval = |cell: &CellChange| match &cell.ratio {
        Ok(ratio) => between(ratio.interval),
        Err(_) => "–".to_owned(),
    };
    let column = |heading, rank, cell: &dyn Fn(&CellChange) -> String| Column {
        heading,
        side: CellAlignment::Right,
        rank,
        cells: block.iter().map(cell).collect(),
    };
    let label = |cell: &CellChange| {
        if cell.model { format!("{} (model)", cell.contender) } else { cell.contender.clone() }
    };
    let columns = vec![
        Column { side: CellAlignment::Left, ..column("contender", 0, &label) },
        column("then", 2, &|cell| time(cell.medians_s[0])),
        column("now", 1, &|cell| time(cell.medians_s[1])),
        column("ratio", 0, &ratio),
        column("interval", 3, &interval),
        Column { side: CellAlignment::Left, ..column("", 0, &verdict) },
    ];
    draw(columns, &[], &block.iter().map(|cell| cell.model).collect::<Vec<_>>(), look)
}

fn verdict(cell: &CellChange) -> String {
    match (&cell.ratio, cell.trend()) {
        (Err(why), _) => why.clone(),
        (Ok(ratio), Trend::Same) if ratio.confidence < LEAST_CONFIDENCE - 1e-9 => "too few samples".to_owned(),
        (Ok(ratio), trend) => {
            let said = match trend {
                Trend::Faster => "faster",
                Trend::Slower => "slower",
                Trend::Same | Trend::Unknown => "no difference",
            };
            let few = ratio.confidence < CONFIDENCE;
            if few { format!("{said} ({:.0} %)", 100.0 * ratio.confidence) } else { said.to_owned() }
        }
    }
}

fn summary(change: &Change) -> String {
    let count = |trend| change.cells.iter().filter(|cell| cell.trend() == trend).count();
    format!(
        "Cells: {} faster, {} slower, {} without a detectable difference, {} not comparable. The ratio is the time \
         of the second run as a multiple of the first; its interval holds in 95 % of cases unless it says less.",
        count(Trend::Faster),
        count(Trend::Slower),
        count(Trend::Same),
        count(Trend::Unknown)
    )
}
