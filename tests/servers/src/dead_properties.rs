//! Dead properties (PROPPATCH, RFC 4918 §9.2).

use crate::{double::State, message::Response};

impl State {
    /// Stores the content of `prop`, with the namespace prefixes of the request; or removes everything.
    pub(crate) fn set_properties(&mut self, path: &str, body: &str) -> Response {
        if !self.nodes.contains_key(path) {
            return Response::new(404);
        }
        let inner = body.split_once("<D:prop>").and_then(|(_, rest)| rest.split_once("</D:prop>"));
        let (inner, _) = inner.unwrap_or_default();
        if body.contains("<D:remove>") {
            self.properties.remove(path);
        } else {
            self.properties.insert(path.into(), inner.into());
        }
        let mut answer = Response::new(207).with("content-type", "application/xml");
        answer.body = format!(
            "<d:multistatus xmlns:d='DAV:'><d:response><d:href>{path}</d:href><d:propstat><d:prop/><d:status>HTTP/1.1 \
             200 OK</d:status></d:propstat></d:response></d:multistatus>"
        )
        .into();
        answer
    }
}
