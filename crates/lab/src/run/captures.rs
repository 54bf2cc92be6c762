//! Which captures of a cell are kept: that of the typical sample, and that of the slowest if it is an outlier.
//!
//! The first shows what the median consists of, the second why one sample took so much longer. Which samples these are
//! is known only after the last sample of the cell. Until then every capture is in the folder under the number of its
//! round; if the run is killed, it stays there.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    capture_names::{CaptureNames, CellName, SLOWEST, round as round_suffix},
    experiment::Cell,
    results::Sample,
    stats::median,
};

/// A sample that takes at least this many times the median is an outlier.
const OUTLIER: f64 = 1.5;

/// A capture that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the capture {}: {error}", path.display())]
pub(super) struct NotKept {
    path: PathBuf,
    error: io::Error,
}

/// The folder of a run's captures.
pub(super) struct Captures<'a> {
    folder: &'a Path,
    names: CaptureNames,
}

impl<'a> Captures<'a> {
    /// The captures of a plan's cells in this folder.
    pub(super) fn new(folder: &'a Path, cells: &'a [Cell]) -> Self {
        Self { folder, names: CaptureNames::new(cells.iter().map(cell_name)) }
    }

    /// Copies a capture into the folder. An incomplete copy is removed, which frees a full disk for the results.
    pub(super) fn take(&self, capture: &Path, cell: &Cell, round: u32) -> Result<(), NotKept> {
        let path = self.path(cell, &round_suffix(round));
        fs::copy(capture, &path).map(drop).map_err(|error| {
            let _ = fs::remove_file(&path);
            NotKept { path, error }
        })
    }

    /// Keeps the captures of the typical sample and of the outlier, and removes the others.
    pub(super) fn settle(&self, cell: &Cell, samples: &[Sample]) -> Result<(), NotKept> {
        let seconds: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
        let (typical, outlier) = worth_keeping(&seconds);
        for (index, sample) in samples.iter().enumerate() {
            let path = self.path(cell, &round_suffix(sample.round));
            let settled = if Some(index) == typical {
                fs::rename(&path, self.path(cell, ""))
            } else if Some(index) == outlier {
                fs::rename(&path, self.path(cell, SLOWEST))
            } else {
                fs::remove_file(&path)
            };
            settled.map_err(|error| NotKept { path, error })?;
        }
        Ok(())
    }

    /// The typical sample of a settled cell, and where its capture is.
    pub(super) fn typical<'s>(&self, cell: &Cell, samples: &'s [Sample]) -> Option<(PathBuf, &'s Sample)> {
        let seconds: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
        Some((self.path(cell, ""), &samples[worth_keeping(&seconds).0?]))
    }

    fn path(&self, cell: &Cell, suffix: &str) -> PathBuf {
        self.folder.join(self.names.file(&cell_name(cell), suffix))
    }
}

fn cell_name(cell: &Cell) -> CellName {
    [cell.workload.name.clone(), cell.network.name.clone(), cell.row.name()]
}

/// The indices of the typical sample (the median, or the lower of the two in the middle) and of the slowest if it is
/// an outlier.
fn worth_keeping(seconds: &[f64]) -> (Option<usize>, Option<usize>) {
    let mut order: Vec<usize> = (0..seconds.len()).collect();
    order.sort_by(|a, b| seconds[*a].total_cmp(&seconds[*b]));
    let typical = order.get(seconds.len().saturating_sub(1) / 2).copied();
    let is_outlier = |index: &usize| median(seconds).is_some_and(|median| seconds[*index] >= OUTLIER * median);
    let outlier = order.last().copied().filter(is_outlier).filter(|slowest| Some(*slowest) != typical);
    (typical, outlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typical_sample_and_outlier_are_kept() {
        assert_eq!(worth_keeping(&[]), (None, None));
        assert_eq!(worth_keeping(&[7.0]), (Some(0), None));
        assert_eq!(worth_keeping(&[2.0, 1.0, 3.0]), (Some(0), Some(2)));
        assert_eq!(worth_keeping(&[1.0, 1.1, 1.2, 1.05]), (Some(3), None));
        assert_eq!(worth_keeping(&[9.0, 1.0, 1.2, 1.1, 1.3]), (Some(2), Some(0)));
    }

    #[test]
    fn outlier_in_the_middle_of_a_cell_is_kept_to_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let cells = &crate::test_data::plan(4).cells;
        let (captures, cell) = (Captures::new(folder.path(), cells), &cells[0]);
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
    fn cells_with_like_names_keep_their_own_captures() {
        let folder = tempfile::tempdir().unwrap();
        let mut cells = crate::test_data::plan(1).cells[..1].to_vec();
        cells.push(cells[0].clone());
        (cells[0].network.name, cells[1].network.name) = ("a b".to_owned(), "a-b".to_owned());
        let captures = Captures::new(folder.path(), &cells);
        let samples = [Sample { seconds: 1.0, ..Sample::default() }];
        for (cell, content) in cells.iter().zip(["first", "second"]) {
            let capture = folder.path().join("capture");
            fs::write(&capture, content).unwrap();
            captures.take(&capture, cell, 0).unwrap();
            fs::remove_file(capture).unwrap();
        }
        for (cell, content) in cells.iter().zip(["first", "second"]) {
            captures.settle(cell, &samples).unwrap();
            let (path, _) = captures.typical(cell, &samples).unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), content);
        }
    }

    #[test]
    fn capture_that_does_not_fit_is_reported_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cells = &crate::test_data::plan(1).cells;
        let captures = Captures::new(folder.path(), cells);
        let message = captures.take(Path::new("/nowhere"), &cells[0], 3).unwrap_err().to_string();
        assert!(message.contains("upload-small-article-curl-round3.pcapng: No such file"), "{message}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
