//! The progress of a run: a bar on a terminal, a line for each sample elsewhere.

use std::{
    fmt,
    io::{self, IsTerminal},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use lab::{
    experiment::{Cell, Plan},
    live::Stage,
    run::Event,
};

use units::rounded;

use crate::say;

/// A bar of one line, however narrow the terminal is: a wrapped line would not be cleared at the end.
pub(super) fn style(unit: &str) -> ProgressStyle {
    let template = format!("{{bar:20}} {{pos}}/{{len}} {unit}{{left}}  {{wide_msg}}");
    let left = |state: &ProgressState, to: &mut dyn fmt::Write| {
        // It is zero until the first sample.
        let left = state.eta();
        let _ = if left.is_zero() { Ok(()) } else { write!(to, ", about {} left", rounded::time(left)) };
    };
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("left", left)
}

/// Shows a run's progress on standard error, until it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    /// Samples of each cell.
    samples: u64,
}

impl Progress {
    pub(crate) fn new(plan: &Plan) -> Self {
        let samples = u64::from(plan.samples);
        let bar = ProgressBar::with_draw_target(Some(plan.cells.len() as u64 * samples), ProgressDrawTarget::stderr());
        bar.set_style(style("samples"));
        let is_terminal = io::stderr().is_terminal();
        if is_terminal {
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
        }
        Self { bar, is_terminal, samples }
    }

    pub(crate) fn on_stage(&mut self, stage: Stage) {
        match stage {
            Stage::Calibrating => self.say("calibrating the emulator"),
            Stage::Explaining => self.say("explaining the captures"),
            Stage::Measuring | Stage::Ended => {}
        }
    }

    fn say(&self, what: &str) {
        if self.is_terminal {
            self.bar.set_message(what.to_owned());
        } else {
            say(what);
        }
    }

    /// `12 of 48 samples, about 40 s left; `
    fn left(&self) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let left = self.bar.eta();
        let about = if left.is_zero() { String::new() } else { format!(", about {} left", rounded::time(left)) };
        format!("{done} of {all} samples{about}; ")
    }

    pub(crate) fn on_event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started(cell) => {
                if self.is_terminal {
                    self.bar.set_message(name(cell));
                }
            }
            Event::Finished(cell, time) => {
                self.bar.inc(1);
                if !self.is_terminal {
                    say(format_args!("{}{}: {:.3} s", self.left(), name(cell), time.as_secs_f64()));
                }
            }
            Event::WarmedUp(cell, time) => {
                if !self.is_terminal {
                    say(format_args!("{}: {:.3} s, to warm up", name(cell), time.as_secs_f64()));
                }
            }
            Event::Repeated(cell) => {
                let said = format!("{}: the machine was busy; taking the sample again", name(cell));
                if self.is_terminal {
                    self.bar.set_message(said);
                } else {
                    say(said);
                }
            }
            Event::Dropped(cell, left, why) => {
                self.bar.dec_length(u64::from(*left).min(self.samples));
                self.bar.suspend(|| say(format_args!("{}: {why}", name(cell))));
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn name(cell: &Cell) -> String {
    format!("{}, {}, {}", cell.network.name, cell.workload.name, cell.row.name())
}
