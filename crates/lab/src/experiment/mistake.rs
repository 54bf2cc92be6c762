//! A mistake in an experiment file, with its line and column.

use std::{ops::Range, path::Path};

use super::did_you_mean::advice;

/// A mistake in an experiment file, with its position: one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct Mistake {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted in characters from 1.
    pub column: usize,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// A mistake at a range of bytes in the text.
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

    /// Gives the mistake its line and column.
    pub(super) fn at(self, text: &str, path: &Path) -> Mistake {
        let start = text.floor_char_boundary(self.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        Mistake {
            file: path.display().to_string(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            message: self.message,
        }
    }
}

/// Converts a message of the TOML parser or of serde to advice.
impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        let said = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::new(error.span().unwrap_or_default(), reworded(&said).unwrap_or(said))
    }
}

/// Both libraries name the wrong word first, then the right ones. A message of another form is kept.
fn reworded(said: &str) -> Option<String> {
    let quoted: Vec<&str> = said.split('`').skip(1).step_by(2).collect();
    match (said, quoted.as_slice()) {
        ("duplicate key", _) => return Some("duplicate key; keep one of them".to_owned()),
        (_, [wrong, right @ ..]) if said.starts_with("unknown field") => {
            return Some(format!("unknown key `{wrong}`; {}", advice(wrong, right.iter().copied())));
        }
        (_, [wrong, right @ ..]) if said.starts_with("unknown variant") => {
            return Some(format!("unknown value `{wrong}`; {}", advice(wrong, right.iter().copied())));
        }
        (_, [key]) if said.starts_with("missing field") => return Some(format!("missing key `{key}`")),
        _ => {}
    }
    if let Some(listed) = said.strip_prefix("unexpected keys in table: ") {
        let (wrong, right) = listed.split_once(", available keys: ")?;
        return Some(format!("unknown key `{wrong}`; {}", advice(wrong, right.split(", "))));
    }
    if let Some((found, _)) = said.strip_prefix("invalid type: ")?.split_once(", expected a string") {
        return Some(format!("expected a string in quotes, not {found}"));
    }
    None
}
