//! What each contender is: one line on what it runs and what takes its time, and the version.

use super::Look;
use crate::results::{ContenderRecord, RunResult};

pub(super) fn render(run: &RunResult, look: Look) -> String {
    let is_measured = |record: &&ContenderRecord| {
        let of_it = |contender: &str| {
            contender.strip_prefix(&record.name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        run.cells.iter().any(|cell| cell.median_s.is_some() && of_it(&cell.contender))
    };
    let shown: Vec<&ContenderRecord> = run.contenders.iter().filter(is_measured).collect();
    if shown.is_empty() {
        return String::new();
    }
    let mut text = look.title("Contenders");
    for record in shown {
        text += &look.paragraph("  ", 4, &record.to_string());
    }
    text + "\n"
}
