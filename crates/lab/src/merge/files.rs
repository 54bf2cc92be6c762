//! The files of a merged run: captures and samples of its parts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::Source;
use crate::{
    capture_names::{CaptureNames, SLOWEST},
    report_data,
    results::{CellResult, ResultsError, RunFolder, RunResult},
};

/// Copies the captures and the samples of the parts into the folder of the merged run. The times of samples count from
/// the beginning of their part. A capture gets the name of its cell in the merged run; another file keeps its name, with
/// the number of its part before it if two parts have one of that name.
pub fn copy_files(sources: &[Source], merged: &RunResult, into: &RunFolder) -> Result<(), ResultsError> {
    for (part, source) in sources.iter().enumerate() {
        let captures = source.folder.join("captures");
        // Some runs are kept without their captures.
        if !captures.exists() {
            continue;
        }
        let (old, new) = (report_data::names(&source.run), report_data::names(merged));
        let mut copied = BTreeSet::new();
        for cell in source.run.cells.iter().map(CellResult::names) {
            for (suffix, extension) in [("", "pcapng"), ("", "html"), (SLOWEST, "pcapng")] {
                let file = |names: &CaptureNames| Path::new(&names.file(&cell, suffix)).with_extension(extension);
                let (from, to) = (captures.join(file(&old)), into.captures().join(file(&new)));
                if from.exists() {
                    copy(&from, &to)?;
                    copied.insert(from);
                }
            }
        }
        for from in files(&captures)?.into_iter().filter(|from| !copied.contains(from)) {
            let name = from.file_name().unwrap_or_default();
            let mut to = into.captures().join(name);
            if to.exists() {
                to.set_file_name(format!("part{}-{}", part + 1, name.to_string_lossy()));
            }
            copy(&from, &to)?;
        }
    }
    let (path, samples) = (into.samples(), samples(sources)?);
    fs::write(&path, samples).map_err(|error| ResultsError::write(&path, error))
}

fn copy(from: &Path, to: &Path) -> Result<(), ResultsError> {
    fs::copy(from, to).map(drop).map_err(|error| ResultsError::write(to, error))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let entries = fs::read_dir(folder).map_err(|error| ResultsError::read(folder, error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

/// The samples of all parts, below one heading. A column that a part of an earlier build lacks is empty in its rows.
fn samples(sources: &[Source]) -> Result<String, ResultsError> {
    let mut columns: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for source in sources {
        let file = source.folder.join("samples.csv");
        let text = fs::read_to_string(&file).map_err(|error| ResultsError::read(&file, error))?;
        let wrong = |error: csv::Error| ResultsError::read(&file, error);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        // A part in which every contender was skipped has no samples, and no heading.
        let heading: Vec<String> = reader.headers().map_err(wrong)?.iter().map(str::to_owned).collect();
        columns.extend(heading.iter().filter(|name| !columns.contains(name)).cloned().collect::<Vec<_>>());
        for row in reader.records() {
            rows.push((heading.clone(), row.map_err(wrong)?));
        }
    }
    let mut csv = csv::Writer::from_writer(Vec::new());
    let mut write =
        |row: Vec<&str>| csv.write_record(row).map_err(|error| ResultsError::write(Path::new("samples.csv"), error));
    if !rows.is_empty() {
        write(columns.iter().map(String::as_str).collect())?;
    }
    for (heading, row) in &rows {
        let value = |column| heading.iter().position(|name| name == column).and_then(|at| row.get(at)).unwrap_or("");
        write(columns.iter().map(value).collect())?;
    }
    let bytes = csv.into_inner().unwrap_or_default();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::SystemTime};

    use super::*;
    use crate::{results::CreatedPaths, test_data::run};

    fn source(folder: &Path, samples: &str, captures: &[&str]) -> Source {
        fs::create_dir_all(folder.join("captures")).unwrap();
        fs::write(folder.join("samples.csv"), samples).unwrap();
        for name in captures {
            fs::write(folder.join("captures").join(name), folder.to_string_lossy().as_bytes()).unwrap();
        }
        Source { folder: folder.to_owned(), run: run(1, 1.0, &[]) }
    }

    #[test]
    fn samples_of_earlier_builds_have_empty_columns() {
        let folder = tempfile::tempdir().unwrap();
        let old = source(&folder.path().join("old"), "contender,seconds\ncurl,1\n", &[]);
        let new = source(&folder.path().join("new"), "contender,added_s,seconds\n\"a,b\",0.5,2\n", &[]);
        let none = source(&folder.path().join("none"), "", &[]);
        assert_eq!(samples(&[old, none, new]).unwrap(), "contender,seconds,added_s\ncurl,1,\n\"a,b\",2,0.5\n");
    }

    #[test]
    fn files_of_no_cell_are_copied_too() {
        let folder = tempfile::tempdir().unwrap();
        let captured = |name: &str| source(&folder.path().join(name), "", &["notes.txt", "other.pcapng"]);
        let sources = [captured("one"), captured("two")];
        let runs = folder.path().join("runs");
        let into = RunFolder::create(&runs, "race", SystemTime::now(), Arc::new(CreatedPaths::default())).unwrap();
        copy_files(&sources, &run(1, 1.0, &[]), &into).unwrap();
        let names: Vec<_> =
            files(&into.captures()).unwrap().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["notes.txt", "other.pcapng", "part2-notes.txt", "part2-other.pcapng"]);
    }
}
