//! Reading a text line by line.

use std::io::Read;

use crate::{Error, input::Input};

/// Maximum length of a line; the rest of a longer one is ignored, as no packet is printed that long.
const MAX_LENGTH: usize = 16 << 10;

/// The lines of a text; only one is in memory.
#[derive(Debug)]
pub(super) struct Lines<R> {
    pub(super) input: Input<R>,
    /// The number of the current line, from 1.
    pub(super) number: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: Input<R>) -> Self {
        Self { input, number: 0, line: Vec::new() }
    }

    /// The next line, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<String>, Error> {
        self.line.clear();
        self.number += 1;
        loop {
            let ready = self.input.ready(1)?;
            if ready.is_empty() {
                return Ok((!self.line.is_empty()).then(|| text(&self.line)));
            }
            let end = ready.iter().position(|byte| *byte == b'\n');
            let part = &ready[..end.unwrap_or(ready.len())];
            self.line.extend(&part[..part.len().min(MAX_LENGTH - self.line.len())]);
            let len = part.len() + usize::from(end.is_some());
            self.input.pass(len);
            if end.is_some() {
                return Ok(Some(text(&self.line)));
            }
        }
    }

    pub(super) fn error(&self, line: u64, what: &'static str) -> Error {
        Error::Line { file: self.input.file().to_owned(), line, what }
    }
}

/// The line as text. Non-breaking spaces, as in web pages, become spaces; invalid UTF-8 is replaced.
fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).replace('\u{a0}', " ")
}

/// The lines in the first bytes of a text.
pub(super) fn lines_in(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.split(|byte| *byte == b'\n').map(|line| text(&line[..line.len().min(MAX_LENGTH)]))
}
