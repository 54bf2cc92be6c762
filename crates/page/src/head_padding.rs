//! Padding of heads to the recorded size.
//!
//! A spec contains the size of a head in HTTP/1.1 and the known header fields. A field `x-pad` fills the rest. Its value
//! has the same beginning in every request to a host, like cookies, so that HTTP/2 and HTTP/3 can compress about as much
//! as in the original. A gap smaller than the field's name is not filled: a head is up to eight bytes too short.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{
    Request, Response,
    body::{scramble, seed},
};

/// The field that pads a head to the recorded size.
pub const PAD: HeaderName = HeaderName::from_static("x-pad");

impl Request {
    /// All header fields of the request, `host` and `content-length` (where there is a body) among them, such that
    /// its head as HTTP/1.1 has the recorded size.
    pub fn fields(&self) -> HeaderMap {
        let mut fields = self.headers.clone();
        if let Ok(host) = HeaderValue::from_str(&self.host) {
            fields.insert(header::HOST, host);
        }
        if !self.body.is_empty() {
            fields.insert(header::CONTENT_LENGTH, self.body.len().into());
        }
        fill(&mut fields, self.line(), self.head, &self.host);
        fields
    }

    /// `GET /path HTTP/1.1` and its line's end.
    fn line(&self) -> usize {
        self.method.as_str().len() + self.path.len() + " ".len() + " HTTP/1.1\r\n".len()
    }

    /// The size of the smallest possible head.
    pub(crate) fn least_head(&self) -> usize {
        size(&Self { head: 0, ..self.clone() }.fields(), self.line())
    }
}

impl Response {
    /// All header fields of the response, `content-length` and `content-type` among them, such that its head as
    /// HTTP/1.1 has the recorded size. `host` is whom it answers for.
    pub fn fields(&self, host: &str) -> HeaderMap {
        let mut fields = self.headers.clone();
        if let Some(kind) = self.content_type.as_deref().and_then(|kind| HeaderValue::from_str(kind).ok()) {
            fields.insert(header::CONTENT_TYPE, kind);
        }
        // RFC 9110, section 8.6: none with 204; with 304 it would mean another body.
        if !matches!(self.status.as_u16(), 204 | 304) {
            fields.insert(header::CONTENT_LENGTH, self.body.len().into());
        }
        fill(&mut fields, self.line(), self.head, host);
        fields
    }

    /// `HTTP/1.1 200 OK` and its line's end.
    fn line(&self) -> usize {
        "HTTP/1.1 200 \r\n".len() + self.status.canonical_reason().unwrap_or_default().len()
    }

    /// The size of the smallest possible head.
    pub(crate) fn least_head(&self) -> usize {
        size(&Self { head: 0, ..self.clone() }.fields(""), self.line())
    }
}

/// The size of a head as HTTP/1.1: each field takes its name, a colon, a space, its value and the line's end.
fn size(fields: &HeaderMap, line: usize) -> usize {
    line + fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>() + 2
}

/// The characters of the padding; none has a meaning in a header field.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn fill(fields: &mut HeaderMap, line: usize, wanted: u32, host: &str) {
    let taken = size(fields, line) + PAD.as_str().len() + 4;
    let Some(gap) = (wanted as usize).checked_sub(taken) else { return };
    let seed = seed(host);
    let pad: Vec<u8> = (0..gap as u64).map(|at| LETTERS[(scramble(seed.wrapping_add(at)) >> 58) as usize]).collect();
    if let Ok(pad) = HeaderValue::from_bytes(&pad) {
        fields.insert(PAD, pad);
    }
}
