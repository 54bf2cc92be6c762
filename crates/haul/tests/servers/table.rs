//! The table in Markdown.

use std::{collections::BTreeMap, fmt};

use servers::behaviours::{ALL, VALIDATORS};

use crate::{commands, verdict::Outcome};

#[derive(Default)]
pub(crate) struct Table(BTreeMap<(usize, usize, usize), Outcome>);

impl Table {
    pub(crate) fn set(&mut self, behaviour: &str, validators: usize, command: &str, outcome: Outcome) {
        let row = ALL.iter().position(|entry| entry.name == behaviour).expect("a behaviour");
        let column = commands::ALL.iter().position(|known| known.name == command).expect("a command");
        self.0.insert((row, validators, column), outcome);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = [ALL.iter().map(|entry| entry.name.len()).max(), VALIDATORS.iter().map(|kind| kind.0.len()).max()];
        let [behaviours, validators] = widths.map(|width| width.unwrap_or(0));
        let (name, kind) = ("server", "validators");
        write!(f, "| {name:behaviours$} | {kind:validators$} |")?;
        for command in commands::ALL {
            write!(f, " {} |", command.name)?;
        }
        writeln!(f, "\n|{}", "---|".repeat(2 + commands::ALL.len()))?;
        for (row, entry) in ALL.iter().enumerate() {
            for (place, kind) in VALIDATORS.iter().enumerate() {
                if !self.0.keys().any(|(known, with, _)| (*known, *with) == (row, place)) {
                    continue;
                }
                write!(f, "| {:behaviours$} | {:validators$} |", entry.name, kind.0)?;
                for (column, command) in commands::ALL.iter().enumerate() {
                    let width = command.name.len();
                    match self.0.get(&(row, place, column)) {
                        Some(outcome) => write!(f, " {outcome:width$} |")?,
                        None => write!(f, " {:width$} |", "")?,
                    }
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
