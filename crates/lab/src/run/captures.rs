//! Which captures of a cell are kept: the typical sample's, and the slowest's where it is far out.
//!
//! Whoever opens a cell's capture wants to see what its median is made of; whoever sees a sample that took
//! much longer than its like wants to know why. Which samples these are is known only when the cell has had
//! its last. Until then every sample's capture waits in the folder under the number of its round, and there it
//! is found where the run was killed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{experiment::Cell, results::Sample, stats::median};

/// How many times as long as the median the slowest sample takes at least, for its capture to be kept too.
const FAR_OUT: f64 = 1.5;

/// What the name of the slowest sample's capture has at its end.
pub(crate) const SLOWEST: &str = "-slowest";

/// A capture that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the capture {}: {error}", path.display())]
pub(super) struct NotKept {
    path: PathBuf,
    error: io::Error,
}

/// The folder of a run's captures.
#[derive(Clone, Copy)]
pub(super) struct Captures<'a>(pub(super) &'a Path);

impl Captures<'_> {
    /// Takes a capture in. Half of one is not kept, and gives a full disk room for the results.
    pub(super) fn take(self, capture: &Path, cell: &Cell, round: u32) -> Result<(), NotKept> {
        let path = self.path(cell, &waiting(round));
        fs::copy(capture, &path).map(drop).map_err(|error| {
            let _ = fs::remove_file(&path);
            NotKept { path, error }
        })
    }

    /// Keeps of a cell's captures those that are worth it.
    pub(super) fn settle(self, cell: &Cell, samples: &[Sample]) -> Result<(), NotKept> {
        let seconds: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
        let (typical, far_out) = worth_keeping(&seconds);
        for (place, sample) in samples.iter().enumerate() {
            let path = self.path(cell, &waiting(sample.round));
            let settled = if Some(place) == typical {
                fs::rename(&path, self.path(cell, ""))
            } else if Some(place) == far_out {
                fs::rename(&path, self.path(cell, SLOWEST))
            } else {
                fs::remove_file(&path)
            };
            settled.map_err(|error| NotKept { path, error })?;
        }
        Ok(())
    }

    /// The typical sample of a settled cell, and where its capture is.
    pub(super) fn typical<'a>(self, cell: &Cell, samples: &'a [Sample]) -> Option<(PathBuf, &'a Sample)> {
        let seconds: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
        Some((self.path(cell, ""), &samples[worth_keeping(&seconds).0?]))
    }

    fn path(self, cell: &Cell, suffix: &str) -> PathBuf {
        self.0.join(name(&cell.workload.name, &cell.network.name, &cell.row.name(), suffix))
    }
}

/// The name of a cell's capture.
pub(crate) fn name(workload: &str, network: &str, contender: &str, suffix: &str) -> String {
    format!("{workload}-{network}-{contender}{suffix}").replace([' ', '/'], "-") + ".pcapng"
}

fn waiting(round: u32) -> String {
    format!("-round{round}")
}

/// The places of the typical sample (the median, or the lower of the two in the middle) and of the slowest if
/// it is far out.
fn worth_keeping(seconds: &[f64]) -> (Option<usize>, Option<usize>) {
    let mut order: Vec<usize> = (0..seconds.len()).collect();
    order.sort_by(|a, b| seconds[*a].total_cmp(&seconds[*b]));
    let typical = order.get(seconds.len().saturating_sub(1) / 2).copied();
    let is_far_out = |place: &usize| median(seconds).is_some_and(|median| seconds[*place] >= FAR_OUT * median);
    let far_out = order.last().copied().filter(is_far_out).filter(|slowest| Some(*slowest) != typical);
    (typical, far_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typical_and_the_far_out_are_worth_keeping() {
        assert_eq!(worth_keeping(&[]), (None, None));
        assert_eq!(worth_keeping(&[7.0]), (Some(0), None));
        assert_eq!(worth_keeping(&[2.0, 1.0, 3.0]), (Some(0), Some(2)));
        assert_eq!(worth_keeping(&[1.0, 1.1, 1.2, 1.05]), (Some(3), None));
        assert_eq!(worth_keeping(&[9.0, 1.0, 1.2, 1.1, 1.3]), (Some(2), Some(0)));
    }

    #[test]
    fn an_outlier_in_the_middle_of_a_cell_outlives_the_last_sample() {
        let folder = tempfile::tempdir().unwrap();
        let (captures, cell) = (Captures(folder.path()), &crate::test_data::plan(4).cells[0]);
        let capture = folder.path().join("capture");
        let samples: Vec<Sample> = (0..4)
            .zip([1.1, 6.0, 1.0, 1.2])
            .map(|(round, seconds)| {
                fs::write(&capture, format!("{seconds}")).unwrap();
                captures.take(&capture, cell, round).unwrap();
                Sample { round, start_s: 0.0, seconds, ..Sample::default() }
            })
            .collect();
        fs::remove_file(&capture).unwrap();
        captures.settle(cell, &samples).unwrap();
        let kept = |suffix| fs::read_to_string(captures.path(cell, suffix)).unwrap();
        assert_eq!((kept(""), kept("-slowest")), ("1.1".to_owned(), "6".to_owned()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_does_not_fit_is_named_and_half_of_it_is_not_left() {
        let folder = tempfile::tempdir().unwrap();
        let cell = &crate::test_data::plan(1).cells[0];
        let told = Captures(folder.path()).take(Path::new("/nowhere"), cell, 3).unwrap_err().to_string();
        assert!(told.contains("upload-small-article-curl-round3.pcapng: No such file"), "{told}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
