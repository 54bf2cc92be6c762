//! The lines of a text.

use std::io::Read;

use crate::{Error, input::Input};

/// The longest line that is kept; of a longer one, this much. Nobody prints a packet that long.
const MAX_LENGTH: usize = 16 << 10;

/// The lines of a text, in the memory of one.
#[derive(Debug)]
pub(super) struct Lines<R> {
    pub(super) input: Input<R>,
    /// The number of the line at which the reader stands, from 1.
    pub(super) number: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: Input<R>) -> Self {
        Self { input, number: 0, line: Vec::new() }
    }

    /// The next line, or what is text of it.
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

    pub(super) fn wrong(&self, line: u64, what: &'static str) -> Error {
        Error::Line { file: self.input.file().to_owned(), line, what }
    }
}

/// The line as text. A web page's spaces that do not break are spaces; what is no UTF-8 is no packet.
fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).replace('\u{a0}', " ")
}

/// The whole lines at the beginning of a text.
pub(super) fn whole(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.split(|byte| *byte == b'\n').map(|line| text(&line[..line.len().min(MAX_LENGTH)]))
}
