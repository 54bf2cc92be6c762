//! Whether folders and files have the expected content.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    path::Path,
};

use super::{PROPERTIES, WorkError, io_error};

pub(super) fn same_names(
    whose: &str,
    found: impl Iterator<Item = String>,
    expected: &[String],
) -> Result<(), WorkError> {
    let found: Vec<String> = found.collect();
    let wrong = |what: String| Err(WorkError::Wrong(format!("{whose} {what}")));
    let (have, want) = (found.iter().collect::<BTreeSet<_>>(), expected.iter().collect::<BTreeSet<_>>());
    if let Some(name) = want.difference(&have).next() {
        return wrong(format!("has {} of {} names, {name} is missing", have.len(), want.len()));
    }
    if let Some(name) = have.difference(&want).next() {
        return wrong(format!("has {name}, which should not be there"));
    }
    if found.len() == want.len() {
        return Ok(());
    }
    wrong(format!("names {} files {} times", want.len(), found.len()))
}

/// Whether a folder contains exactly these files with the content at the same index. Cheap checks come first, since
/// this may be polled.
pub(super) fn same_files(folder: &Path, names: &[String], contents: &[Vec<u8>]) -> Result<(), WorkError> {
    let mut found = Vec::new();
    files_below(folder, "", &mut found)?;
    same_names(&folder.display().to_string(), found.into_iter(), names)?;
    for (name, content) in names.iter().zip(contents) {
        same_length(&folder.join(name), content)?;
    }
    names.iter().zip(contents).try_for_each(|(name, content)| same_content(&folder.join(name), content))
}

/// The files in a folder and its subfolders, and its empty subfolders.
pub(super) fn files_below(folder: &Path, prefix: &str, found: &mut Vec<String>) -> Result<(), WorkError> {
    let before = found.len();
    for entry in fs::read_dir(folder).map_err(io_error("list", folder))? {
        let entry = entry.map_err(io_error("list", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Finder keeps extended attributes in `._name` beside a file; no work has such names.
        if name == PROPERTIES || name.starts_with("._") {
            continue;
        }
        let name = format!("{prefix}{name}");
        if entry.file_type().map_err(io_error("look at", folder))?.is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found)?;
        } else {
            found.push(name);
        }
    }
    if found.len() == before && !prefix.is_empty() {
        found.push(prefix.to_owned());
    }
    Ok(())
}

fn same_length(path: &Path, content: &[u8]) -> Result<(), WorkError> {
    let len = fs::metadata(path).map_err(io_error("look at", path))?.len();
    if len == content.len() as u64 {
        return Ok(());
    }
    Err(WorkError::Wrong(format!("{} has {len} bytes instead of {}", path.display(), content.len())))
}

/// Whether a file is `content`; stops reading at the first difference.
pub(super) fn same_content(path: &Path, content: &[u8]) -> Result<(), WorkError> {
    same_length(path, content)?;
    let mut file = File::open(path).map_err(io_error("open", path))?;
    let mut buffer = [0; 16 * 1024];
    let mut at = 0;
    loop {
        let read = file.read(&mut buffer).map_err(io_error("read", path))?;
        let expected = &content[at..content.len().min(at + read)];
        let same = if buffer[..read] == *expected {
            read
        } else {
            buffer[..read].iter().zip(expected).take_while(|(a, b)| a == b).count()
        };
        at += same;
        match (read, same == read) {
            (0, _) if at == content.len() => return Ok(()),
            (0, _) | (_, false) => {
                return Err(WorkError::Wrong(format!("{} differs from byte {at} on", path.display())));
            }
            _ => {}
        }
    }
}
