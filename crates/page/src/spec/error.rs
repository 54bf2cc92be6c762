//! Errors in a spec, with their line.

use std::{io, ops::Range, path::Path};

/// Why a spec cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// It is neither a file nor a shipped page.
    #[error("unknown page `{name}`; write a file name, or one of {shipped}")]
    Unknown {
        /// The name.
        name: String,
        /// The names of the shipped pages.
        shipped: String,
    },
    /// The spec is invalid.
    #[error("{file}:{line}: {message}")]
    Mistake {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to write instead.
        message: String,
    },
}

/// An error at a range of bytes in the text.
#[derive(Debug)]
pub(super) struct Fault {
    span: Range<usize>,
    message: String,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        // Names may contain line breaks, and the message must be one line.
        Self { span, message: message.into().replace(char::is_control, " ") }
    }

    /// Converts the range to a line.
    pub(super) fn at(self, text: &str, path: &Path) -> SpecError {
        let start = text.floor_char_boundary(self.span.start.min(text.len()));
        let line = text[..start].matches('\n').count() + 1;
        SpecError::Mistake { file: path.display().to_string(), line, message: self.message }
    }
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        let said = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::new(error.span().unwrap_or_default(), said)
    }
}
