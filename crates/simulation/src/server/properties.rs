//! PROPPATCH (RFC 4918 §9.2), whose properties nobody asks for here.

use super::{Profile, Server};
use crate::request::{Request, Response};

impl Server {
    pub(super) fn proppatch(&mut self, request: &Request) -> Response {
        let path = &*request.path;
        if !self.exists(path) {
            return Response::of(404);
        }
        if let Some(refusal) = self.refusal(request, &[path]) {
            return refusal;
        }
        // `haul serve` gives the file a new entity tag.
        if self.profile == Profile::Strong
            && let Some(file) = self.files.get_mut(path)
        {
            let same = self.versions[file.version].clone();
            file.version = self.versions.len();
            self.versions.push(same);
        }
        Response::of(207).with("content-type", "application/xml; charset=utf-8").body(format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{path}</D:href>\
             <D:propstat><D:prop/><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
        ))
    }
}
