//! Properties of a client's own (PROPPATCH).

use crate::{double::State, wire::Answer};

impl State {
    /// Keeps what stands in `prop`, with the prefixes of the request.
    pub(crate) fn set_properties(&mut self, path: &str, body: &str) -> Answer {
        if !self.nodes.contains_key(path) {
            return Answer::new(404);
        }
        let inner = body.split_once("<D:prop>").and_then(|(_, rest)| rest.split_once("</D:prop>"));
        let (inner, _) = inner.unwrap_or_default();
        self.properties.insert(path.into(), inner.into());
        let mut answer = Answer::new(207).with("content-type", "application/xml");
        answer.body = format!(
            "<d:multistatus xmlns:d='DAV:'><d:response><d:href>{path}</d:href><d:propstat><d:prop/><d:status>HTTP/1.1 \
             200 OK</d:status></d:propstat></d:response></d:multistatus>"
        )
        .into();
        answer
    }
}
