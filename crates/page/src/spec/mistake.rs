//! What is wrong with a spec, told where it stands.

use std::{io, ops::Range, path::Path};

/// Why there is no spec.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// It is neither a file nor comes with the program.
    #[error("there is no page `{name}`; write the name of a file, or one of {shipped}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names of those that come with the program.
        shipped: String,
    },
    /// It says something that cannot be meant.
    #[error("{file}:{line}: {message}")]
    Mistake {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong and what to write instead.
        message: String,
    },
}

/// A mistake that knows only its bytes in the text.
#[derive(Debug)]
pub(super) struct Fault {
    span: Range<usize>,
    message: String,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        // A name may hold a line's end, and what is said of it shall be one line.
        Self { span, message: message.into().replace(char::is_control, " ") }
    }

    /// Gives the mistake its line.
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
