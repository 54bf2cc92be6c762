//! The progress of a run: a bar on a terminal, a line for each sample elsewhere.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::{
    experiment::{Cell, Plan},
    live::Stage,
    run::Event,
};

use units::rounded;

use crate::say;

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
        let style = "{bar:30} {pos}/{len} samples  {elapsed_precise} elapsed, about {eta} left  {msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
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
