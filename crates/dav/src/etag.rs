//! Entity tags (RFC 9110 §8.8.3).

use std::fmt;

use http::HeaderValue;

/// An entity tag: identifies a version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ETag {
    weak: bool,
    opaque: String,
}

impl ETag {
    /// Parses a tag in a header or property. Quotes may be missing, as some servers omit them. `None` if it could not
    /// be sent back.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let strong = text.strip_prefix("W/").or_else(|| text.strip_prefix("w/"));
        let weak = strong.is_some();
        let text = strong.unwrap_or(text);
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let opaque = quoted.unwrap_or(text);
        let sound = !opaque.contains(|char: char| char == '"' || char.is_control());
        (sound && (quoted.is_some() || !opaque.is_empty())).then(|| Self { weak, opaque: opaque.to_owned() })
    }

    /// Parses a header, if it is a tag.
    pub fn from_header(value: &HeaderValue) -> Option<Self> {
        Self::parse(str::from_utf8(value.as_bytes()).ok()?)
    }

    /// Whether it may stand for several versions. `If-Match` never matches a weak tag (RFC 9110 §13.1.1).
    pub fn is_weak(&self) -> bool {
        self.weak
    }

    /// Whether both certainly name the same bytes (the strong comparison, RFC 9110 §8.8.3.2).
    pub fn is(&self, other: &Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Whether both identify the same version as far as the server tells (the weak comparison).
    pub fn resembles(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }
}

/// As it stands in a header.
impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\"{}\"", if self.weak { "W/" } else { "" }, self.opaque)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strong_weak_and_unquoted() {
        let read = |text| ETag::parse(text).map(|tag| tag.to_string());
        for (text, tag) in [
            ("\"a-1\"", Some("\"a-1\"")),
            (" W/\"a\"\n", Some("W/\"a\"")),
            ("w/\"a\"", Some("W/\"a\"")),
            ("a1b2", Some("\"a1b2\"")),
            ("\"\"", Some("\"\"")),
            ("", None),
            ("\"a", None),
            ("\"a\"b\"", None),
            ("a\r\nb", None),
        ] {
            assert_eq!(read(text).as_deref(), tag, "{text:?}");
        }
        let tag = |text| ETag::parse(text).unwrap();
        assert!(tag("a").is(&tag("\"a\"")) && !tag("W/\"a\"").is(&tag("W/\"a\"")));
        assert!(tag("W/\"a\"").resembles(&tag("\"a\"")) && !tag("a").resembles(&tag("b")));
    }
}
