//! Columns that fit the terminal: the least important ones are dropped until there is room for the bars.

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets::NOTHING};

use super::Look;

/// A column of a table.
pub(super) struct Column {
    /// Its heading, at most two lines.
    pub(super) heading: String,
    /// The alignment: left for words, right for numbers.
    pub(super) side: CellAlignment,
    /// Columns of a higher rank go first; rank 0 stays.
    pub(super) rank: u8,
    /// Its cells, from top to bottom.
    pub(super) cells: Vec<String>,
}

/// The least and the greatest length of a bar.
const BAR: (usize, usize) = (8, 30);
const INDENT: usize = "  ".len();
const GAP: u16 = 2;

/// Draws the columns that fit, followed by a bar for each of `shares` (0 to 1), if any. `faint` rows are dimmed if
/// there is colour.
pub(super) fn draw(mut columns: Vec<Column>, shares: &[f64], faint: &[bool], look: Look) -> String {
    let room = drop_columns(&mut columns, if shares.is_empty() { 0 } else { BAR.0 }, look);
    let bars: Vec<String> = shares.iter().filter(|_| room >= BAR.0).map(|share| bar(*share, room.min(BAR.1))).collect();
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(look.width() - INDENT).unwrap_or(u16::MAX));
    table.set_header(columns.iter().map(|column| Cell::new(&column.heading)));
    for (row, faint) in faint.iter().enumerate() {
        let style = |cell: Cell| if *faint { cell.add_attribute(Attribute::Dim) } else { cell };
        let cells = columns.iter().map(|column| column.cells[row].as_str()).chain(bars.get(row).map(String::as_str));
        table.add_row(cells.map(Cell::new).map(style));
    }
    for (index, drawn) in table.column_iter_mut().enumerate() {
        drawn.set_padding((0, if index < columns.len() { GAP } else { 0 }));
        drawn.set_cell_alignment(columns.get(index).map_or(CellAlignment::Left, |column| column.side));
    }
    if look.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.lines().fold(String::new(), |text, line| text + "  " + line.trim_end() + "\n")
}

/// Drops columns until `wanted` columns of the terminal are free; returns how many are.
fn drop_columns(columns: &mut Vec<Column>, wanted: usize, look: Look) -> usize {
    loop {
        let used = INDENT + columns.iter().map(Column::width).sum::<usize>();
        let last = columns.iter().enumerate().max_by_key(|(_, column)| column.rank);
        match last {
            Some((index, column)) if used + wanted > look.width() && column.rank > 0 => {
                columns.remove(index);
            }
            _ => return look.width().saturating_sub(used),
        }
    }
}

impl Column {
    /// Its width, including the gap after it.
    pub(super) fn width(&self) -> usize {
        let cells = self.cells.iter().map(String::as_str).chain(self.heading.lines());
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + usize::from(GAP)
    }
}

/// A bar in eighths of a column; at least one eighth.
fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_proportional() {
        assert_eq!([0.0, 0.5, 0.55, 1.0, 7.0].map(|share| bar(share, 4)), ["▏", "██", "██▎", "████", "████"]);
    }
}
