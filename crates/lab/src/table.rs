//! The results of a run as text for the terminal.
//!
//! One block for each workload and network, fastest first. The bar shows proportions, the multiple of the floor shows
//! what is left to gain, and the time in round trips shows why: a client that needs eight per file needs them on every
//! network. The rank says how much of the order exceeds chance: 2–4 is a contender behind one that is detectably faster,
//! and before those that are detectably slower. (Groups of equals were rejected: "not detectably different" is not
//! transitive.) Below each block: failures, who wins and by how much, or who may have won. After the blocks: what the
//! contenders are, the skipped ones and how to install them, and the claims with their verdicts.
//!
//! Everything fits the given width. On a narrow terminal the least important columns are dropped; the median and the
//! multiple of the floor stay. Colour is optional and repeats what the words say.

mod block;
mod columns;
mod command_times;
mod comparison;
mod contenders;
mod deviations;
mod skipped;
mod verdicts;

use crate::{results::RunResult, stats::range_coverage};

pub use command_times::{render_commands, render_commands_as_markdown};
pub use comparison::render_change;

/// The terminal to draw on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether it shows colours.
    pub colour: bool,
}

/// On narrower terminals, lines wrap.
const NARROWEST: usize = 40;

impl Look {
    fn width(self) -> usize {
        self.width.max(NARROWEST)
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }

    pub(crate) fn title(self, text: &str) -> String {
        self.paint(Style::Bold, self.paragraph("", 0, text).trim_end()) + "\n"
    }

    /// Text wrapped to the width: `first` precedes the first line, `indent` blanks the others.
    pub fn paragraph(self, first: &str, indent: usize, text: &str) -> String {
        let blanks = " ".repeat(indent);
        let options = textwrap::Options::new(self.width())
            .initial_indent(first)
            .subsequent_indent(&blanks)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .break_words(false);
        textwrap::fill(text, options) + "\n"
    }
}

#[derive(Debug, Clone, Copy)]
enum Style {
    Bold,
    Good,
    Bad,
    Open,
}

impl Style {
    fn code(self) -> u8 {
        match self {
            Self::Bold => 1,
            Self::Good => 32,
            Self::Bad => 31,
            Self::Open => 33,
        }
    }
}

/// A whole run as text, with a newline at its end.
pub fn render(run: &RunResult, look: Look) -> String {
    let mut text = heading(run, look);
    for network in &run.networks {
        for workload in &run.workloads {
            text += &block::render(run, workload, network, look);
        }
    }
    text += &commands(run, look);
    text += &contenders::render(run, look);
    text += &skipped::render(run, look);
    text + &verdicts::render(run, look)
}

/// The commands of contenders of the user's own.
fn commands(run: &RunResult, look: Look) -> String {
    if run.commands.is_empty() {
        return String::new();
    }
    let line = |(name, command): (&String, &String)| look.paragraph("  ", 4, &format!("{name}: {command}"));
    look.title("Commands") + &run.commands.iter().map(line).collect::<String>() + "\n"
}

fn heading(run: &RunResult, look: Look) -> String {
    let title = if run.title.is_empty() { &run.experiment } else { &run.title };
    let settings: Vec<String> =
        run.settings_in_words().into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let under = std::iter::once(run.started.clone()).chain(settings).collect::<Vec<_>>().join(", ");
    format!("{}{}\n{}\n", look.title(title), look.paragraph("", 0, &under), legend(run, look))
}

fn legend(run: &RunResult, look: Look) -> String {
    let measured = run.cells.iter().filter(|cell| cell.median_s.is_some());
    let fewest = measured.map(|cell| cell.samples_s.len()).min().unwrap_or(0);
    let spread = match range_coverage(fewest) {
        _ if fewest < 2 => String::new(),
        coverage if coverage < 0.95 => {
            format!(" The range of {fewest} samples contains the true median in {:.0} % of runs.", 100.0 * coverage)
        }
        _ => " An interval contains the true median in 95 % of runs.".to_owned(),
    };
    let order = if fewest < 3 {
        ""
    } else {
        " A rank such as 2–4 means that the samples do not decide between these ranks. Parentheses bound a \
         factor, with 95 % confidence unless stated otherwise."
    };
    let model = if run.cells.iter().any(|cell| cell.model) {
        " A model replays the requests of a client that cannot run here."
    } else {
        ""
    };
    let text = format!(
        "Times are medians, fastest first. The floor is the minimum time that physics allows: the round trips that \
         nothing can save, plus the bytes at the link's rate.{spread}{order}{model}"
    );
    look.paragraph("", 0, &text)
}

#[cfg(test)]
mod tests;
