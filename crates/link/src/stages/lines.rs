//! Text files with one entry per line: empty lines are skipped, and so is everything after a `#`.

/// A line that does not belong in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct LineError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it and what to write instead.
    pub message: String,
}

/// Maximum length of a quoted piece of a file in a message, in characters.
const QUOTE: usize = 40;

impl LineError {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// The lines with an entry, each with its number.
pub(super) fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    let entries = lines.map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()));
    entries.filter(|(_, entry)| !entry.is_empty())
}

/// A piece of the file, for a message.
pub(super) fn quote(text: &str) -> String {
    text.chars().take(QUOTE).map(|char| if char.is_control() { ' ' } else { char }).collect()
}
