//! Import of page loads from other files.
//!
//! Three kinds of files describe a page load. The manifests of the 2013 reproduction of the TCP Fast Open paper have
//! sizes, connections and dependencies, but no hosts ([`cs244_manifests`]). A HAR has everything but the dependencies, unless its
//! writer added initiators ([`har`]). A capture has bytes and times ([`capture`]). The last two, and our own recordings,
//! are converted to a list of [`observed`](mod@observed) requests, from which one module infers the dependencies.
//!
//! Each assumption and each omitted request gets a note.

pub mod capture;
pub mod cs244_manifests;
pub mod har;
pub mod observed;
mod streams;

use std::{fs, io::Read as _, path::Path};

use crate::Spec;

/// An imported page load.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The spec.
    pub spec: Spec,
    /// Assumptions and omissions, one sentence each.
    pub notes: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// An entry is invalid.
    #[error("{file}: {message}")]
    Mistake {
        /// The file.
        file: String,
        /// The entry, and what is wrong with it.
        message: String,
    },
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] ::capture::Error),
}

/// The largest file that is read as a whole, in bytes.
const LARGEST: u64 = 512 << 20;

/// Imports manifests of 2013 (a folder or a `.reqs` file), a HAR, or a capture.
pub fn import(path: &Path) -> Result<Imported, ImportError> {
    let ending = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    if path.is_dir() || ending.as_deref().is_some_and(|ending| ending == "reqs") {
        return cs244_manifests::read(path);
    }
    if ending.is_some_and(|ending| ending == "har" || ending == "json") {
        return har::parse(&text(path)?, path);
    }
    capture::read(path)
}

/// The text of a file of bounded size; invalid UTF-8 is replaced.
fn text(path: &Path) -> Result<String, ImportError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|source| ImportError::Read { path: path.display().to_string(), source })?;
    if bytes.len() as u64 > LARGEST {
        return Err(mistake(path, "is larger than 512 MiB; import a smaller file"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn mistake(path: &Path, message: impl Into<String>) -> ImportError {
    let message = message.into().replace(char::is_control, " ");
    ImportError::Mistake { file: path.display().to_string(), message }
}

/// The name of a page that was imported from `path`.
fn name(path: &Path) -> String {
    path.file_stem().map_or_else(|| "page".into(), |stem| stem.to_string_lossy().into_owned())
}

/// A text, shortened to fit into a sentence.
fn short(address: &str) -> String {
    let cut = address.char_indices().nth(120).map_or(address.len(), |(at, _)| at);
    if cut < address.len() { format!("{}…", &address[..cut]) } else { address.to_owned() }
}

#[cfg(test)]
mod tests;
