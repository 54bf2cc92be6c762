//! Other content than a folder's: the doors of this server, before somebody else's answers.
//!
//! A recorded page is answered for under many names and at a high rate. So nothing stands between the doors and the
//! answer: no password, no names, no files; an answer is bytes that are there already, and where it can take the short
//! way (`short`), it does.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;

use crate::AccessLog;
use crate::access_log::Entry;
use crate::activity::Busy;
use crate::body::{Answer, Incoming, Upstream};
use crate::early::{self, Gate};

/// Who knows the answers.
pub trait Answers: Send + Sync + 'static {
    /// Answers a request by its head, at once. Its body has been read by then and is forgotten; of more than 256 KiB,
    /// the answer is 413, of one that may be a recording and is not safe (RFC 8470) 425, and nobody is asked.
    fn answer(&self, request: &Parts) -> Response<Bytes>;

    /// The same answer to a question over HTTP/1.1, if it lies ready; it must then be that of [`Self::answer`].
    fn ready(&self, _question: &Question<'_>) -> Option<Ready> {
        None
    }
}

/// A request with nothing but a head: GET or HEAD.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The method.
    pub method: &'a str,
    /// Whom it is for, as the field `host` has it.
    pub host: &'a str,
    /// The path and query.
    pub target: &'a str,
    pub(crate) fields: &'a [httparse::Header<'a>],
}

impl Question<'_> {
    /// The value of a header field; the first, if there are several.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}

/// An answer as its bytes go over HTTP/1.1.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Its status.
    pub status: StatusCode,
    /// From the status line to the empty line.
    pub head: Bytes,
    /// What follows; nothing after HEAD.
    pub body: Bytes,
}

/// Answers, and the log of what was asked.
pub(crate) struct Other {
    answers: Arc<dyn Answers>,
    log: Option<AccessLog>,
}

impl Other {
    pub(crate) fn new(answers: Arc<dyn Answers>, log: Option<AccessLog>) -> Self {
        Other { answers, log }
    }

    /// What the short way needs.
    pub(crate) fn ready(&self) -> (&dyn Answers, Option<&AccessLog>) {
        (&*self.answers, self.log.as_ref())
    }

    pub(crate) async fn answer(
        &self,
        client: SocketAddr,
        request: Request<Incoming>,
        gate: Gate,
        busy: Busy,
    ) -> Response<Answer> {
        let early = early::too_early(&request, &gate);
        let mut entry = Entry::new(self.log.clone(), client, &request);
        let (head, body) = request.into_parts();
        let whole = body.is_end_stream() || {
            let (arriving, rest) = Upstream::new(body, Arc::default(), &busy);
            drop(arriving);
            rest.drain().await
        };
        let response = match (whole, early) {
            (true, false) => self.answers.answer(&head),
            (true, true) => refused(StatusCode::TOO_EARLY),
            (false, _) => refused(StatusCode::PAYLOAD_TOO_LARGE),
        };
        entry.status = Some(response.status());
        response.map(|body| Answer::new(body.into(), None, entry, busy))
    }
}

fn refused(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}
