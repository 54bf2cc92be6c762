//! Requests whose body ends where only some readers think it does.
//!
//! `hyper` believes any list of codings that ends with `chunked`. But a coding before it is unknown here, and `chunked` may
//! be applied once (RFC 9112 §6.1, §7): a proxy that reads the body in another way would see another request behind it.

use http::header::TRANSFER_ENCODING;
use http::{Request, StatusCode};

/// The status that refuses a request's framing, if it is refused. The connection ends with it.
pub(crate) fn refusal<B>(request: &Request<B>) -> Option<StatusCode> {
    let fields = request.headers().get_all(TRANSFER_ENCODING).iter();
    let codings = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    let mut codings = codings.map(<[u8]>::trim_ascii).filter(|coding| !coding.is_empty());
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(only), None) if is_chunked(only) => None,
        (Some(first), _) if is_chunked(first) => Some(StatusCode::BAD_REQUEST),
        _ => Some(StatusCode::NOT_IMPLEMENTED),
    }
}
