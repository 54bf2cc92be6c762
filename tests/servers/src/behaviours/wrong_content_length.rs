//! Responses to GET whose `Content-Length` is wrong.

use crate::behaviour::{Behaviour, IncomingRequest};

/// The error in bytes.
pub(super) struct WrongContentLength(pub(super) isize);

impl Behaviour for WrongContentLength {
    fn content_length(&self, asked: &IncomingRequest<'_>, length: usize) -> Option<usize> {
        (asked.method() == "GET" && length > 0).then(|| length.saturating_add_signed(self.0))
    }
}
