//! The results as text: the confusion matrix, the bars, and the worst cases with their captures.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use super::{
    CLIENT,
    judge::{MIN_SHARE, NOTHING},
    knobs::KNOBS,
    results::{Bars, CaseResult, Split, TruthResult},
    run::FULL,
};
use crate::table::Look;

/// How many wrong cases are listed.
const WORST: usize = 12;

/// Renders the results. `folder` is the run's, for the paths of captures.
pub fn render(result: &TruthResult, folder: &Path, look: Look) -> String {
    let judged: Vec<&CaseResult> = result.cases.iter().filter(|case| case.is_judged).collect();
    let mut text = look.paragraph(
        "",
        0,
        &format!(
            "Ground truth: seed {} ({}), {} cases, of which {} are judged: there, the knob cost at least {:.0} % of the time.",
            result.seed,
            match result.split {
                Split::Develop => "to develop with",
                Split::Report => "to report",
            },
            result.cases.len(),
            judged.len(),
            MIN_SHARE * 100.0
        ),
    );
    for why in &result.skipped {
        text += &look.paragraph("  skipped: ", 4, why);
    }
    if judged.is_empty() {
        return text;
    }
    text +=
        "\nThe knob that was turned, and the dominant cause that explain says (captured at the client; * is right)\n\n";
    text += &matrix(&judged);
    text += "\nBy place and kind of capture\n\n";
    text += &bars(&result.bars);
    text += "\n  right        the dominant cause is the knob; a reset or a refusal may be any finding\n";
    text += "  wrong party  the first line confidently blames somebody else\n";
    text += "  place        the place where it was captured is recognised\n";
    text += "  cost off     median difference between the cause's time and the knob's true cost\n";
    text += "  what-if off  median difference between the predicted time and the time without the knob\n";
    text += "  in range     predictions whose interval holds the time without the knob, of those that have one\n";
    text += "  adds up      the causes of each transfer add up to its duration\n";
    text += "  bytes        all bytes are counted, and none twice\n";
    let still = judged.iter().filter(|case| case.is_still_blamed).count();
    let _ = writeln!(
        text,
        "\nWith the knob turned back, the first line still confidently names its cause in {still} of {} cases.",
        judged.len()
    );
    text += &worst(&judged, folder);
    text
}

/// One row for each knob, one column for each cause that was said.
fn matrix(judged: &[&CaseResult]) -> String {
    let said = |case: &CaseResult| match case.judgement(CLIENT, FULL) {
        // An event that a finding names.
        Some(one) if one.is_right && !case.expected.contains(&one.said.as_str()) => {
            case.expected.first().copied().unwrap_or(NOTHING).to_owned()
        }
        Some(one) => one.said.clone(),
        None => NOTHING.to_owned(),
    };
    let all: BTreeSet<String> = judged.iter().map(|case| said(case)).collect();
    // The causes in the order of the knobs, so that what is right is near the diagonal; then the others.
    let expected = KNOBS.iter().flat_map(|knob| knob.expected).map(|cause| (*cause).to_owned());
    let mut columns: Vec<String> = Vec::new();
    for cause in expected.chain(all.iter().cloned()) {
        if all.contains(&cause) && !columns.contains(&cause) {
            columns.push(cause);
        }
    }
    let mut text = String::new();
    for (index, cause) in columns.iter().enumerate() {
        let _ = writeln!(text, "{:24}{}{cause}", "", "│   ".repeat(index));
    }
    for knob in KNOBS {
        let cases: Vec<_> = judged.iter().filter(|case| case.measured.case.knob == knob.name).collect();
        if cases.is_empty() {
            continue;
        }
        let mut line = format!("  {:<16}{:>4}  ", knob.name, cases.len());
        for cause in &columns {
            let count = cases.iter().filter(|case| said(case) == *cause).count();
            let mark = if knob.expected.contains(&cause.as_str()) { "*" } else { "" };
            let cell = if count == 0 { "·".to_owned() } else { format!("{count}{mark}") };
            let _ = write!(line, "{cell:<4}");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn bars(bars: &[Bars]) -> String {
    let mut text = String::from(
        "                          right           wrong party  place    cost off  what-if off   in range       adds up  bytes\n",
    );
    let percent = |part: usize, all: usize| {
        if all == 0 { "–".to_owned() } else { format!("{:.0} %", 100.0 * part as f64 / all as f64) }
    };
    let off = |error: Option<f64>| error.map_or("–".to_owned(), |error| format!("{:.0} %", error * 100.0));
    for one in bars {
        let name =
            if one.variant == FULL { one.vantage.to_owned() } else { format!("{}, {}", one.vantage, one.variant) };
        let right = format!("{} ({}/{})", percent(one.right, one.judged), one.right, one.judged);
        let held = format!("{} ({})", percent(one.held, one.ranged), one.ranged);
        let prediction = format!("{} ({})", off(one.prediction_error), one.predicted);
        let _ = writeln!(
            text,
            "  {name:<22}  {right:<16}{:<13}{:<9}{:<10}{prediction:<14}{held:<15}{:<9}{}",
            percent(one.wrong_party, one.judged),
            percent(one.place_right, one.judged),
            off(one.cost_error),
            percent(one.conserved, one.explained),
            percent(one.byte_exact, one.countable),
        );
    }
    text
}

/// The wrong cases, those with a confident and wrong first line first, then those in which the knob cost most.
fn worst(judged: &[&CaseResult], folder: &Path) -> String {
    let mut wrong: Vec<_> = judged
        .iter()
        .filter_map(|case| Some((*case, case.judgement(CLIENT, FULL)?)))
        .filter(|(_, judgement)| !judgement.is_right)
        .collect();
    if wrong.is_empty() {
        return String::new();
    }
    wrong.sort_by(|(a, first), (b, second)| {
        (second.blames_wrong_party.cmp(&first.blames_wrong_party)).then(b.cost_s.total_cmp(&a.cost_s))
    });
    let mut text = format!("\nWorst cases ({} of {} are wrong at the client)\n\n", wrong.len(), judged.len());
    for (case, judgement) in wrong.iter().take(WORST) {
        let facts = &case.measured;
        let blame = if judgement.blames_wrong_party { ", blames the wrong party" } else { "" };
        let _ = writeln!(
            text,
            "  {}: {:.2} s, {:.2} s without; said {} ({:.0} %){blame}\n    {}",
            facts.case.knob,
            facts.turned.duration_s,
            facts.back.duration_s,
            judgement.said,
            judgement.share * 100.0,
            folder.join(&judgement.capture).display()
        );
    }
    text
}
