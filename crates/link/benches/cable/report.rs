//! Tables of figures and bars.

use std::{fmt, io::IsTerminal};

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets::NOTHING};

/// One figure of several rounds: the median, and the range.
///
/// The range of `n` rounds holds the true median unless all of them fell on one side of it: with
/// confidence 1 − 2¹⁻ⁿ, whatever the distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    /// The median of the rounds.
    pub(crate) median: f64,
    /// The minimum of the rounds.
    pub(crate) least: f64,
    /// The maximum of the rounds.
    pub(crate) greatest: f64,
}

impl Estimate {
    /// Of these rounds, at least one.
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let [least, median, greatest] = [0.0, 0.5, 1.0].map(|q| quantile(&rounds, q));
        Self { median, least, greatest }
    }

    /// The same in another unit.
    pub(crate) fn scaled(self, by: f64) -> Self {
        Self { median: self.median * by, least: self.least * by, greatest: self.greatest * by }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, least, greatest } = self;
        let decimals = f.precision().unwrap_or(0);
        write!(f, "{median:.decimals$} ({least:.decimals$}–{greatest:.decimals$})")
    }
}

/// The value that a fraction `q` of `sorted` ones does not exceed.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// A bar: what a figure must reach.
pub(crate) struct Bar {
    words: String,
    reached: bool,
}

impl Bar {
    /// `words` say it, as an amount that the figure must reach.
    pub(crate) fn new(words: impl Into<String>, reached: bool) -> Self {
        Self { words: words.into(), reached }
    }
}

impl From<&Bar> for String {
    fn from(bar: &Bar) -> Self {
        format!("{} {}", if bar.reached { "✓" } else { "✗ falls short:" }, bar.words)
    }
}

/// A table with a title; the first column names the rows, the last holds the bars.
pub(crate) struct Section {
    title: String,
    table: Table,
    bars: [usize; 2],
}

impl Section {
    /// One without rows.
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_preset(NOTHING);
        let heads = columns.iter().chain(&["bars"]).map(|head| Cell::new(head).add_attribute(Attribute::Dim));
        table.set_header(heads);
        for index in 1..columns.len() {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { title: title.to_owned(), table, bars: [0; 2] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, name: &str, figures: &[String], bars: &[Bar]) {
        let reached = bars.iter().filter(|bar| bar.reached).count();
        self.bars[0] += reached;
        self.bars[1] += bars.len() - reached;
        let words: Vec<String> = bars.iter().map(String::from).collect();
        let colour = if reached == bars.len() { Color::Green } else { Color::Red };
        let cells = std::iter::once(Cell::new(name)).chain(figures.iter().map(Cell::new));
        self.table.add_row(cells.chain([Cell::new(words.join("\n")).fg(colour)]));
    }

    /// Prints it. Returns the numbers of reached and of missed bars.
    pub(crate) fn print(self) -> [usize; 2] {
        let (bold, plain) = if std::io::stdout().is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        println!("\n{bold}{}{plain}\n{}", self.title, self.table.trim_fmt());
        self.bars
    }
}
