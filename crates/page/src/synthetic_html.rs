//! Synthetic HTML for a page whose own HTML was not kept.
//!
//! Our client follows the recorded dependencies and parses no body. A browser takes the dependencies from the HTML. So a
//! page with only sizes needs HTML that causes the same requests in the same order: style sheets in the head; scripts,
//! pictures and frames in the body, each with the element for its type; a script for each POST; and padding up to the
//! recorded size. Requests that waited for a script or a style sheet are also in the HTML, so the dependency tree is
//! flatter than the recorded one; requests, hosts and sizes are the same.

use bytes::Bytes;
use http::Method;

use crate::{Body, Request, Spec};

impl Spec {
    /// The body of a response: the kept one, or synthetic bytes; for the page itself, synthetic HTML.
    pub fn body(&self, index: usize) -> Bytes {
        let body = &self.requests[index].response.body;
        match body {
            Body::Synthetic { len, .. } if index == 0 && is_html(&self.requests[0]) => self.document(*len).into(),
            body => body.part(0, usize::MAX),
        }
    }

    /// HTML of this length that references all other requests, or as many as fit.
    fn document(&self, len: u64) -> String {
        const HEAD: &str = "<!doctype html><title>Page</title>\n";
        const BODY: &str = "<body>\n";
        const END: &str = "<!---->\n";
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut html = String::with_capacity(len);
        let room = |html: &String, more: usize| html.len() + more + BODY.len() + END.len() <= len;
        html.push_str(&HEAD[..HEAD.len().min(len)]);
        let others = || self.requests.iter().skip(1).filter(|request| can_be_asked_for(request));
        for style in others().filter(|request| is_style(request)).map(element) {
            if room(&html, style.len()) {
                html.push_str(&style);
            }
        }
        if room(&html, 0) {
            html.push_str(BODY);
        }
        for other in others().filter(|request| !is_style(request)).map(element) {
            if room(&html, other.len()) {
                html.push_str(&other);
            }
        }
        let filling = len.saturating_sub(html.len());
        if filling >= END.len() {
            html.push_str("<!--");
            html.extend(std::iter::repeat_n('x', filling - END.len()));
            html.push_str("-->\n");
        } else {
            html.extend(std::iter::repeat_n('\n', filling));
        }
        html
    }
}

/// Whether HTML, or a script without CORS, can request it.
fn can_be_asked_for(request: &Request) -> bool {
    matches!(request.method, Method::GET | Method::POST)
}

fn is(request: &Request, kind: &str) -> bool {
    request.response.content_type.as_deref().is_some_and(|told| told.contains(kind))
}

/// Whether its element belongs into the HTML head.
fn is_style(request: &Request) -> bool {
    request.method == Method::GET && is(request, "css")
}

/// Whether a response is HTML.
pub(crate) fn is_html(request: &Request) -> bool {
    is(request, "html")
}

fn element(request: &Request) -> String {
    let address = format!("//{}{}", request.host, request.path).replace('"', "%22");
    if request.method == Method::POST {
        let body = request.body.len();
        return format!(
            "<script>fetch(\"{address}\",{{method:'POST',mode:'no-cors',body:'x'.repeat({body})}})</script>\n"
        );
    }
    let address = address.replace('&', "&amp;");
    if is_style(request) {
        format!("<link rel=stylesheet href=\"{address}\">\n")
    } else if is(request, "javascript") {
        format!("<script src=\"{address}\"></script>\n")
    } else if is_html(request) {
        format!("<iframe src=\"{address}\"></iframe>\n")
    } else {
        format!("<img src=\"{address}\">\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SHIPPED;

    #[test]
    fn html_of_shipped_pages_requests_all_parts() {
        for (name, _) in SHIPPED {
            let page = Spec::shipped(name).unwrap();
            let html = page.body(0);
            assert_eq!(html.len() as u64, page.requests[0].response.body.len(), "{name}");
            let html = String::from_utf8(html.into()).unwrap();
            for request in &page.requests[1..] {
                let address = format!("\"//{}{}\"", request.host, request.path);
                assert_eq!(html.matches(&address).count(), 1, "{name}: {}", request.id);
            }
        }
    }

    #[test]
    fn html_has_the_wanted_length() {
        let mut page = Spec::shipped("wikipedia").unwrap();
        for len in (0..400).chain([5000]) {
            page.requests[0].response.body = Body::Synthetic { len, seed: 0 };
            let html = page.body(0);
            assert_eq!(html.len() as u64, len);
            assert_eq!(html.ends_with(b"\n"), len >= 35, "{len}: whole elements only");
        }
        page.requests[0].response.content_type = Some("image/png".into());
        assert_eq!(page.body(0), page.requests[0].response.body.part(0, usize::MAX));
    }
}
