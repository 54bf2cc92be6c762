//! The progress bar: files, bytes, rate and time left.
//!
//! Bytes alone are a poor estimate: among many small files and a large one, the small ones take most of the time and few of
//! the bytes. So every file counts as some more bytes than it has.

use std::{
    io::{self, IsTerminal},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use console::{Term, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};

use crate::files::results::format;

/// The cost of a file besides its bytes, in bytes.
const FILE: u64 = 32 * 1024;
/// Width of the bar in characters, and its number of steps.
const WIDTH: usize = 12;
const STEPS: u64 = 1000;
/// Minimum time and share of work before an estimate.
const EARLY: Duration = Duration::from_secs(1);
const LITTLE: f64 = 0.02;

/// The progress of a transfer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Files that are done, skipped or failed.
    pub(crate) settled: u64,
    /// Skipped files among them.
    pub(crate) skipped: u64,
    pub(crate) bytes_skipped: u64,
    /// Bytes that have moved, some perhaps twice.
    pub(crate) moved: u64,
}

impl Counts {
    /// The work in all, what of it is done, and what of that cost nothing.
    fn work(&self) -> [f64; 3] {
        let done = (self.moved + self.bytes_skipped).min(self.bytes) + FILE * self.settled;
        let free = self.bytes_skipped + FILE * self.skipped;
        [self.bytes + FILE * self.files, done, free].map(|work| work as f64)
    }

    fn share(&self) -> f64 {
        let [all, done, _] = self.work();
        if all > 0.0 { done / all } else { 0.0 }
    }

    fn line(&self, took: Duration) -> String {
        if self.files == 0 {
            return "listing".to_owned();
        }
        let bytes = self.moved.saturating_add(self.bytes_skipped).min(self.bytes);
        let (bytes, all) = (format::size(bytes), format::size(self.bytes));
        let mut line = format!("{} of {}, {bytes} of {all}", self.settled, format::count(self.files, "file"));
        if took >= EARLY {
            line.extend([", ", &format::size((self.moved as f64 / took.as_secs_f64()) as u64), "/s"]);
        }
        let [all, done, free] = self.work();
        let (left, done) = (all - done, done - free);
        if took >= EARLY && left > 0.0 && done > LITTLE * (all - free) {
            line.extend([", ", &format::roughly(took.mul_f64(left / done)), " left"]);
        }
        line
    }
}

/// A line at the end of the terminal that stays there.
pub(crate) struct Bar {
    bar: ProgressBar,
    counts: Arc<Mutex<Counts>>,
}

impl Bar {
    /// One that is seen only on a terminal, and if `shown`.
    pub(crate) fn new(shown: bool) -> Self {
        let target = if io::stderr().is_terminal() && shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let counts = Arc::new(Mutex::new(Counts::default()));
        let (seen, begin) = (counts.clone(), Instant::now());
        let told = move |_: &ProgressState, to: &mut dyn std::fmt::Write| {
            let line = locked(&seen).line(begin.elapsed());
            let room = usize::from(Term::stderr().size().1).saturating_sub(WIDTH + 2);
            let _ = to.write_str(&truncate_str(&line, room, "…"));
        };
        // Cleared however the command ends.
        let bar = ProgressBar::with_draw_target(Some(STEPS), target).with_finish(ProgressFinish::AndClear);
        let style = ProgressStyle::with_template(&format!("{{bar:{WIDTH}}} {{told}}"));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("told", told));
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar, counts }
    }

    /// Updates the counts.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = locked(&self.counts);
        change(&mut counts);
        let step = (counts.share() * STEPS as f64) as u64;
        // Drawing asks for the counts.
        drop(counts);
        if step != self.bar.position() {
            self.bar.set_position(step);
        }
    }

    /// Prints above the bar.
    pub(crate) fn suspend(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_count_in_the_time_left() {
        let mut counts = Counts::default();
        assert_eq!(counts.line(EARLY), "listing");
        counts = Counts { files: 3001, bytes: 300_000_000, settled: 3, moved: 12, ..counts };
        assert_eq!(counts.line(EARLY), "3 of 3001 files, 12 B of 286.1 MiB, 12 B/s");
        counts = Counts { settled: 1500, moved: 7000, ..counts };
        let line = counts.line(Duration::from_secs(4));
        assert_eq!(line, "1500 of 3001 files, 6.8 KiB of 286.1 MiB, 1.7 KiB/s, 29 s left");
        counts = Counts { settled: 3001, moved: u64::MAX / 2, ..counts };
        assert!((counts.share() - 1.0).abs() < 1e-9 && !counts.line(EARLY).contains("left"));
    }

    #[test]
    fn skipped_files_do_not_raise_the_rate() {
        let counts = Counts { files: 100, bytes: 0, settled: 60, skipped: 50, ..Counts::default() };
        assert_eq!(counts.line(EARLY), "60 of 100 files, 0 B of 0 B, 0 B/s, 5 s left");
    }
}
