//! The folder of a new run, which is removed if nothing was measured.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use link::sandbox;

use super::{ResultsError, create_folder};
use crate::{live, testbed};

/// The name of a run's report in its folder.
pub const REPORT: &str = "report.html";

/// The folder of a new run. Dropping it removes it, unless [`keep`](Self::keep) was called.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    created: Arc<CreatedPaths>,
    is_kept: bool,
}

/// The paths that a run has created, shared with whoever may have to remove them.
#[derive(Debug, Default)]
pub struct CreatedPaths {
    folder: OnceLock<PathBuf>,
    /// The folder of all runs, if this run has created it.
    runs: OnceLock<PathBuf>,
}

impl RunFolder {
    /// Creates the folder of the run `name` in the folder `runs`.
    pub fn create(
        runs: &Path,
        name: &str,
        started: SystemTime,
        created: Arc<CreatedPaths>,
    ) -> Result<Self, ResultsError> {
        if !runs.exists() {
            let _ = created.runs.set(runs.to_owned());
        }
        let mut folder = Self { path: PathBuf::new(), created, is_kept: false };
        folder.path = create_folder(runs, name, started)?;
        let _ = folder.created.folder.set(folder.path.clone());
        let captures = folder.captures();
        fs::create_dir(&captures).map_err(|error| ResultsError::write(&captures, error))?;
        Ok(folder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the captures.
    pub fn captures(&self) -> PathBuf {
        captures(&self.path)
    }

    /// The file of the samples.
    pub fn samples(&self) -> PathBuf {
        samples(&self.path)
    }

    /// The file of the results.
    pub fn results(&self) -> PathBuf {
        self.path.join("run.json")
    }

    /// The file of the report.
    pub fn report(&self) -> PathBuf {
        self.path.join(REPORT)
    }

    /// Keeps the folder when this is dropped.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            self.created.remove();
        }
    }
}

impl CreatedPaths {
    /// The run's folder, once it exists.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.get().map(PathBuf::as_path)
    }

    /// Whether a sample of the run has been written.
    pub fn has_samples(&self) -> bool {
        let written = |folder: &Path| fs::metadata(samples(folder)).is_ok_and(|file| file.len() > 0);
        self.folder().is_some_and(written)
    }

    /// Whether the results of the run have been written.
    pub fn has_results(&self) -> bool {
        self.folder().is_some_and(|folder| folder.join("run.json").exists())
    }

    /// Removes the folder of a run that has measured nothing.
    pub fn remove(&self) {
        if let Some(folder) = self.folder() {
            live::remove_files(folder);
            let _ = fs::remove_file(samples(folder));
            let _ = fs::remove_dir(captures(folder));
            let _ = fs::remove_dir(folder);
        }
        if let Some(runs) = self.runs.get() {
            let _ = fs::remove_dir(runs);
        }
    }
}

fn captures(folder: &Path) -> PathBuf {
    folder.join("captures")
}

fn samples(folder: &Path) -> PathBuf {
    folder.join("samples.csv")
}

/// Fails for a results file that would not outlive the run: its folder does not exist, or it is on the tmpfs that
/// root's runs mount on [`testbed::RUN`].
pub fn check_outlives_run(file: &Path) -> Result<(), ResultsError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let canonical: io::Result<PathBuf> = folder.canonicalize();
    match canonical {
        Err(error) => Err(ResultsError::write(file, error)),
        Ok(folder) if sandbox::is_root() && folder.starts_with(testbed::RUN) => {
            Err(ResultsError::Volatile { path: file.display().to_string() })
        }
        Ok(_) => Ok(()),
    }
}
