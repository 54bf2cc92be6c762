//! What differs between two folders.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What is below a folder: None for a folder, the content of a file.
fn tree(root: &Path) -> io::Result<BTreeMap<PathBuf, Option<Vec<u8>>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path.clone());
                found.insert(path, None);
            } else {
                found.insert(path, Some(fs::read(entry.path())?));
            }
        }
    }
    Ok(found)
}

pub(crate) fn folders(is: &Path, model: &Path) -> Result<(), String> {
    let read = |root: &Path| tree(root).map_err(|error| format!("cannot read {}: {error}", root.display()));
    let (is, model) = (read(is)?, read(model)?);
    for path in is.keys().chain(model.keys()) {
        match (is.get(path), model.get(path)) {
            (Some(_), None) => return Err(format!("{} should not exist", path.display())),
            (None, _) => return Err(format!("{} does not exist", path.display())),
            (Some(is), Some(model)) if is.is_some() != model.is_some() => {
                return Err(format!("{} is of the wrong kind", path.display()));
            }
            (Some(Some(is)), Some(Some(model))) => {
                bytes(is, model).map_err(|why| format!("{}: {why}", path.display()))?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn bytes(is: &[u8], model: &[u8]) -> Result<(), String> {
    if is == model {
        return Ok(());
    }
    let at = is.iter().zip(model).position(|(is, model)| is != model);
    let at = at.unwrap_or_else(|| is.len().min(model.len()));
    let part = |bytes: &[u8]| format!("{:?}", &bytes[at..bytes.len().min(at + 8)]);
    Err(format!("{} bytes, expected {}; at {at} {}, expected {}", is.len(), model.len(), part(is), part(model)))
}

/// The path of a file below a folder, by its inode number.
pub(crate) fn find(root: &Path, ino: u64) -> io::Result<Option<PathBuf>> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.metadata()?.ino() == ino {
                return Ok(Some(path));
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(None)
}
