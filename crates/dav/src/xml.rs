//! An incremental XML parser: bytes in pieces of any size go in, elements and text come out.
//!
//! quick-xml parses a whole document or blocks on a reader; a body that arrives piece by piece is neither. So each piece is
//! parsed as far as possible: quick-xml says where the input ended within a tag, and the bytes from there are kept until more
//! arrive. Nothing else is kept but the names of open elements, so memory does not grow with the document, and the result does
//! not depend on where it was cut.
//!
//! The input may be hostile. Document types are refused, so there are no entities but XML's own five (RFC 4918 §20.6);
//! elements nest no deeper than [`DEEPEST`], a tag is no longer than [`LONGEST`], and a document that ends before its root
//! does is an error. Only UTF-8 is supported: RFC 4918 §19 asks clients for UTF-16 too, but no known server sends it.

use std::borrow::Cow;

use quick_xml::{
    Reader,
    errors::{Error as Malformed, IllFormedError},
    escape::unescape,
    events::{BytesRef, BytesStart, Event},
    name::{NamespaceResolver, ResolveResult},
};

/// Maximum nesting of elements.
const DEEPEST: usize = 64;
/// Maximum length of a tag, comment, CDATA section or value in bytes.
pub(crate) const LONGEST: usize = 64 * 1024;
/// Maximum length of an element's name in bytes.
const LONGEST_NAME: usize = 1024;

/// Where and why a document could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid XML at byte {at}: {problem}")]
pub struct XmlError {
    /// The offset of the wrong part in bytes, from 0.
    pub at: u64,
    /// What is wrong with it.
    pub problem: XmlProblem,
}

/// What can be wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlProblem {
    /// Another encoding than UTF-8.
    #[error("encoding {0} is not supported, only UTF-8")]
    Encoding(String),
    /// A byte that is not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// A document type.
    #[error("a document type (DOCTYPE) is refused: WebDAV needs none, and attacks do")]
    Doctype,
    /// A reference to an unknown entity.
    #[error("unknown entity &{0};")]
    Entity(String),
    /// Too many elements within elements.
    #[error("elements are nested more than {DEEPEST} deep")]
    Deep,
    /// A tag, name, comment or value that is too long.
    #[error("a tag or value is too long")]
    Long,
    /// A `response` that is too long.
    #[error("a single response is longer than 1 MiB")]
    Large,
    /// Not XML.
    #[error("{0}")]
    Malformed(String),
    /// An end tag of another element.
    #[error("<{open}> is closed by </{close}>")]
    Mismatch {
        /// The open element.
        open: String,
        /// The name in the end tag.
        close: String,
    },
    /// Content outside the root element.
    #[error("content outside the root element (a script's warning, or a second document?)")]
    Outside,
    /// An unexpected root element.
    #[error("the root element is <{0}>, which is not WebDAV (a proxy's error, or a login page?)")]
    Root(String),
    /// An invalid HTTP status.
    #[error("{0:?} is not an HTTP status")]
    Status(String),
    /// The document is truncated.
    #[error("the document ends early, so part of the answer is missing; retry")]
    Truncated,
}

/// Receives the events of a document.
pub(crate) trait Sink {
    /// An element starts. The namespace is empty if it is not declared.
    fn open(&mut self, namespace: &str, local: &str) -> Result<(), XmlProblem>;
    /// Unescaped text in the innermost open element, in one or more pieces.
    fn text(&mut self, text: &str) -> Result<(), XmlProblem>;
    /// The innermost open element ends.
    fn close(&mut self) -> Result<(), XmlProblem>;
}

/// An incremental parser. After an error it must not be fed again.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// An incomplete tag, reference or character.
    rest: Vec<u8>,
    /// The number of bytes before `rest`.
    at: u64,
    begun: bool,
    ended: bool,
    open: Vec<String>,
    namespaces: NamespaceResolver,
}

/// Parses a complete document.
pub(crate) fn read<S: Sink>(bytes: &[u8], mut sink: S) -> Result<S, XmlError> {
    let mut document = Document::default();
    document.feed(bytes, &mut sink)?;
    document.finish()?;
    Ok(sink)
}

impl Document {
    /// Parses as much as this piece completes.
    pub(crate) fn feed(&mut self, piece: &[u8], sink: &mut impl Sink) -> Result<(), XmlError> {
        let bytes = if self.rest.is_empty() {
            Cow::Borrowed(piece)
        } else {
            let pending = self.is_pending(piece);
            self.rest.extend_from_slice(piece);
            if pending {
                return self.bounded();
            }
            Cow::Owned(std::mem::take(&mut self.rest))
        };
        let used = self.consume(&bytes, sink)?;
        self.at += used as u64;
        self.rest = bytes[used..].to_vec();
        self.bounded()
    }

    /// Ends the input: an error if the root element is not closed.
    pub(crate) fn finish(&self) -> Result<(), XmlError> {
        let whole = self.ended && self.rest.is_empty();
        if whole { Ok(()) } else { Err(self.error(self.rest.len(), XmlProblem::Truncated)) }
    }

    /// Whether a tag is still incomplete with this piece. So a long tag that arrives byte by byte is parsed only once.
    fn is_pending(&self, piece: &[u8]) -> bool {
        let in_tag = self.rest.len() > "<![CDATA[".len() && self.rest[0] == b'<';
        // A character that is cut in two may continue wrongly.
        in_tag && self.rest.last().is_some_and(u8::is_ascii) && piece.is_ascii() && !piece.contains(&b'>')
    }

    fn bounded(&self) -> Result<(), XmlError> {
        if self.rest.len() > LONGEST { Err(self.error(0, XmlProblem::Long)) } else { Ok(()) }
    }

    fn error(&self, offset: usize, problem: XmlProblem) -> XmlError {
        XmlError { at: self.at + offset as u64, problem }
    }

    /// Parses as far as possible; returns the number of bytes consumed.
    fn consume(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<usize, XmlError> {
        let mut start = 0;
        if !self.begun {
            let Some(mark) = bytes.first_chunk::<4>() else { return Ok(0) };
            start = byte_order_mark(*mark).map_err(|problem| self.error(0, problem))?;
            self.begun = true;
        }
        let (text, wrong) = match str::from_utf8(&bytes[start..]) {
            Ok(text) => (text, false),
            Err(error) => {
                let valid = &bytes[start..start + error.valid_up_to()];
                (str::from_utf8(valid).unwrap_or_default(), error.error_len().is_some())
            }
        };
        let used = self.consume_text(text, start, sink)?;
        if wrong && text.len() - used <= LONGEST {
            return Err(self.error(start + text.len(), XmlProblem::Utf8));
        }
        Ok(start + used)
    }

    fn consume_text(&mut self, text: &str, offset: usize, sink: &mut impl Sink) -> Result<usize, XmlError> {
        let base = self.at + offset as u64;
        let error = |at: usize, problem| XmlError { at: base + at as u64, problem };
        // A byte order mark at the start of a document is an ordinary character anywhere else, but quick-xml would drop
        // it at the start of each piece.
        let mut marks = 0;
        while let Some(mark) = text[marks..].chars().next().filter(|char| *char == '\u{feff}') {
            self.text("\u{feff}", sink).map_err(|problem| error(marks, problem))?;
            marks += mark.len_utf8();
        }
        let mut reader = Reader::from_str(&text[marks..]);
        let config = reader.config_mut();
        // Elements may have been opened in an earlier piece, so end tags are checked here.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.expand_empty_elements = true;
        loop {
            let start = marks + reader.buffer_position() as usize;
            match reader.read_event() {
                Ok(Event::Eof) => return Ok(text.len()),
                Ok(event) => {
                    let length = marks + reader.buffer_position() as usize - start;
                    if length > LONGEST && !matches!(event, Event::Text(_)) {
                        return Err(error(start, XmlProblem::Long));
                    }
                    // Text outside the root is reported at its first visible character.
                    let blank = match &event {
                        Event::Text(text) if self.open.is_empty() => text.len() - text.trim_ascii_start().len(),
                        _ => 0,
                    };
                    self.event(&event, sink).map_err(|problem| error(start + blank, problem))?;
                }
                Err(_) if unfinished(&text[start..]) => return Ok(start),
                Err(_) if is_doctype(&text[start..]) => return Err(error(start, XmlProblem::Doctype)),
                Err(Malformed::IllFormed(IllFormedError::UnclosedReference)) => {
                    return Err(error(start, XmlProblem::Malformed("a `&` does not begin a reference".to_owned())));
                }
                Err(wrong) => return Err(error(start, XmlProblem::Malformed(wrong.to_string()))),
            }
        }
    }

    fn event(&mut self, event: &Event, sink: &mut impl Sink) -> Result<(), XmlProblem> {
        match event {
            Event::Start(start) => self.start(start, sink),
            Event::End(end) => {
                let name = end.name();
                let open = self.open.pop().ok_or(XmlProblem::Outside)?;
                if open != name.0 {
                    return Err(XmlProblem::Mismatch { open, close: name.0.to_owned() });
                }
                self.namespaces.pop();
                self.ended = self.open.is_empty();
                sink.close()
            }
            Event::Text(text) => self.text(text, sink),
            Event::CData(text) => self.text(text, sink),
            Event::GeneralRef(reference) => self.text(character(reference)?.encode_utf8(&mut [0; 4]), sink),
            Event::Decl(declaration) => match declaration.encoding().transpose() {
                Ok(Some(name)) if !["utf-8", "us-ascii"].iter().any(|known| name.eq_ignore_ascii_case(known)) => {
                    Err(XmlProblem::Encoding(name.into_owned()))
                }
                _ => Ok(()),
            },
            Event::DocType(_) => Err(XmlProblem::Doctype),
            Event::Comment(_) | Event::PI(_) | Event::Empty(_) | Event::Eof => Ok(()),
        }
    }

    fn start(&mut self, start: &BytesStart, sink: &mut impl Sink) -> Result<(), XmlProblem> {
        if self.ended {
            return Err(XmlProblem::Outside);
        }
        if self.open.len() == DEEPEST {
            return Err(XmlProblem::Deep);
        }
        let name = start.name();
        if name.0.len() > LONGEST_NAME {
            return Err(XmlProblem::Long);
        }
        self.namespaces.push(start).map_err(|error| XmlProblem::Malformed(error.to_string()))?;
        self.open.push(name.0.to_owned());
        let (namespace, local) = self.namespaces.resolve_element(name);
        let namespace = if let ResolveResult::Bound(namespace) = &namespace { namespace.0 } else { "" };
        // As it stands in the attribute.
        let namespace = unescape(namespace).map_err(|error| XmlProblem::Malformed(error.to_string()))?;
        sink.open(&namespace, local.as_ref())
    }

    fn text(&self, text: &str, sink: &mut impl Sink) -> Result<(), XmlProblem> {
        match (self.open.is_empty(), text.trim_ascii().is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(XmlProblem::Outside),
            (false, _) => sink.text(text),
        }
    }
}

/// The length of a UTF-8 byte order mark at the start of a document.
fn byte_order_mark(start: [u8; 4]) -> Result<usize, XmlProblem> {
    match start {
        [0xef, 0xbb, 0xbf, _] => Ok(3),
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [b'<', 0, ..] | [0, b'<', ..] => {
            Err(XmlProblem::Encoding("UTF-16".to_owned()))
        }
        _ => Ok(0),
    }
}

/// Whether this may be the start of valid markup.
fn unfinished(text: &str) -> bool {
    match text.as_bytes() {
        [b'&', rest @ ..] => !rest.iter().any(|byte| b";&<".contains(byte)),
        [b'<', b'!', ..] => {
            ["<!--", "<![CDATA["].iter().any(|start| start.starts_with(text) || text.starts_with(start))
        }
        [b'<', ..] => true,
        _ => false,
    }
}

fn is_doctype(text: &str) -> bool {
    text.as_bytes().first_chunk().is_some_and(|start: &[u8; 3]| start.eq_ignore_ascii_case(b"<!d"))
}

fn character(reference: &BytesRef) -> Result<char, XmlProblem> {
    match reference.resolve_char_ref() {
        Ok(Some(char)) => Ok(char),
        Ok(None) => {
            let name = reference.xml10_content();
            let known = quick_xml::escape::resolve_xml_entity(&name).and_then(|text| text.chars().next());
            known.ok_or_else(|| XmlProblem::Entity(name.into_owned()))
        }
        Err(error) => Err(XmlProblem::Malformed(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
