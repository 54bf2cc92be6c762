//! The structure of a spec file, in TOML or JSON. Each request keeps its position, for error messages.

use std::{fmt, fs, io::Read as _, ops::Range, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};
use serde_json::value::RawValue;
use toml::Spanned;
use units::{Size, Span};

use super::{MAX_KEPT, SpecError, error::Fault};

/// A spec as it is written.
pub(super) struct File {
    pub(super) schema: Option<String>,
    pub(super) title: Option<String>,
    pub(super) source: Option<String>,
    pub(super) recorded_at: Option<String>,
    pub(super) compute: Option<Span>,
    pub(super) request: Vec<(Range<usize>, Request)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<Entry> {
    schema: Option<String>,
    title: Option<String>,
    source: Option<String>,
    recorded_at: Option<String>,
    compute: Option<Span>,
    #[serde(default = "Vec::new")]
    request: Vec<Entry>,
}

// One field for each key of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) scheme: Scheme,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) connection: Option<u32>,
    pub(super) head: Option<Bytes>,
    #[serde(default)]
    pub(super) headers: Vec<String>,
    pub(super) body: Option<Bytes>,
    pub(super) text: Option<String>,
    pub(super) file: Option<String>,
    #[serde(default)]
    pub(super) after: Vec<After>,
    pub(super) compute: Option<Span>,
    pub(super) hold: Option<Hold>,
    pub(super) delays_load: Option<bool>,
    pub(super) response: Response,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    pub(super) status: Option<u16>,
    #[serde(rename = "type")]
    pub(super) content_type: Option<String>,
    pub(super) head: Option<Bytes>,
    #[serde(default)]
    pub(super) headers: Vec<String>,
    pub(super) body: Option<Bytes>,
    pub(super) text: Option<String>,
    pub(super) file: Option<String>,
    pub(super) think: Option<Span>,
}

#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scheme {
    Http,
    #[default]
    Https,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hold {
    pub(super) priority: Priority,
    pub(super) behind: Vec<String>,
    pub(super) compute: Option<Span>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Priority {
    Medium,
    Low,
}

impl From<Priority> for super::Priority {
    fn from(written: Priority) -> Self {
        match written {
            Priority::Medium => Self::Medium,
            Priority::Low => Self::Low,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    pub(super) head: Option<String>,
    pub(super) end: Option<String>,
    pub(super) bytes: Option<Bytes>,
}

/// A number of bytes, as a number or as a size with its unit.
#[derive(Clone, Copy)]
pub(super) struct Bytes(u64);

impl Bytes {
    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Counted)
    }
}

/// Accepts both forms, and names them in the error for anything else.
struct Counted;

impl Visitor<'_> for Counted {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, like 12000 or \"12KiB\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Bytes, E> {
        let bytes = u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
        Ok(Bytes(bytes))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Bytes, E> {
        Ok(Bytes(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        let size: Size = text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))?;
        Ok(Bytes(size.as_bytes()))
    }
}

impl File {
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, Fault> {
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
            Self::json(text)
        } else {
            let Whole { schema, title, source, recorded_at, compute, request } =
                toml::from_str::<Whole<Spanned<Request>>>(text)?;
            let request = request.into_iter().map(|entry| (entry.span(), entry.into_inner())).collect();
            Ok(Self { schema, title, source, recorded_at, compute, request })
        }
    }

    /// serde_json reports no positions, but a `RawValue` is a slice of the whole text.
    fn json(text: &str) -> Result<Self, Fault> {
        let Whole { schema, title, source, recorded_at, compute, request } =
            serde_json::from_str::<Whole<&RawValue>>(text).map_err(|error| at_line(text, 0, &error))?;
        let request = request.into_iter().map(|raw| {
            let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
            let entry = serde_json::from_str(raw.get()).map_err(|error| at_line(raw.get(), start, &error))?;
            Ok((start..start + raw.get().len(), entry))
        });
        Ok(Self { schema, title, source, recorded_at, compute, request: request.collect::<Result<_, Fault>>()? })
    }
}

/// The position of an error in `text`, which begins at offset `start` of the whole text.
fn at_line(text: &str, start: usize, error: &serde_json::Error) -> Fault {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let said = error.to_string();
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
    Fault::new(start + before..start + before, said)
}

/// The text of a spec, of bounded size.
pub(super) fn text(path: &Path) -> Result<String, SpecError> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_KEPT).read_to_string(&mut text));
    read.map_err(|source| SpecError::Read { path: path.display().to_string(), source })?;
    Ok(text)
}
