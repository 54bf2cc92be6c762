//! Lock tokens (RFC 4918 §6.5).

use std::fmt;

use http::HeaderValue;

/// A lock token that can be sent back: a URI, or what the server uses instead (golang.org/x/net/webdav, and so rclone
/// and Caddy, use numbers).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockToken(String);

impl LockToken {
    /// Parses the token in a property. `None` if it could not be sent back unchanged.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let sound = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte));
        sound.then(|| Self(text.to_owned()))
    }

    /// Parses the header `Lock-Token` (RFC 4918 §10.5). Some servers omit the brackets.
    pub fn from_header(value: &HeaderValue) -> Option<Self> {
        let text = value.to_str().ok()?.trim();
        Self::parse(text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text))
    }

    /// The URI.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As it stands in the headers `Lock-Token` and `If`: in angle brackets.
impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsendable_lock_token_is_refused() {
        let header = |text: &'static str| LockToken::from_header(&HeaderValue::from_static(text));
        assert_eq!(header("<urn:uuid:1>").unwrap().to_string(), "<urn:uuid:1>");
        assert_eq!(header("urn:uuid:1"), header("<urn:uuid:1>"));
        assert_eq!(header("<1795399105>").unwrap().to_string(), "<1795399105>");
        for wrong in ["", "a:b> (<c:d", "a:\r\nb", "urn:ä"] {
            assert_eq!(LockToken::parse(wrong), None, "{wrong:?}");
        }
    }
}
