//! A page that was recorded over plain HTTP, for a browser that loads it over TLS.
//!
//! Browsers support HTTP/2 and HTTP/3 only over TLS, so a replay in a browser uses TLS for everything. References with
//! `http://` in the page would be refused as mixed content. Documents and scripts therefore get the directive that changes
//! them (`upgrade-insecure-requests`, W3C Upgrade Insecure Requests), which frames and workers inherit; fields of responses
//! that name an origin are changed here. A page that was all `https` remains as it is.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, header};

use crate::{Request, Response, Spec};

const DIRECTIVE: HeaderValue = HeaderValue::from_static("upgrade-insecure-requests");

/// The page for a server that has TLS only.
pub fn over_tls(spec: &Spec) -> Cow<'_, Spec> {
    if spec.requests.iter().all(|request| request.secure) {
        return Cow::Borrowed(spec);
    }
    let mut secured = spec.clone();
    for (before, after) in spec.requests.iter().zip(&mut secured.requests) {
        after.secure = true;
        upgrade(before, &mut after.response);
    }
    Cow::Owned(secured)
}

/// Changes the fields of the response to a request.
fn upgrade(request: &Request, response: &mut Response) {
    let kind = response.content_type.as_deref().unwrap_or_default();
    if kind.contains("html") || kind.contains("javascript") {
        response.headers.append(header::CONTENT_SECURITY_POLICY, DIRECTIVE);
    }
    for name in [header::LOCATION, header::ACCESS_CONTROL_ALLOW_ORIGIN] {
        secure(&mut response.headers, &name);
    }
    // A redirect from `http` to `https` now leads to itself, and must not come from the browser's cache the second time.
    let itself = format!("https://{}{}", request.host, request.path);
    if response.headers.get(header::LOCATION).is_some_and(|to| to.as_bytes() == itself.as_bytes()) {
        response.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

fn secure(fields: &mut HeaderMap, name: &header::HeaderName) {
    let Some(value) = fields.get_mut(name) else { return };
    let secured = value.to_str().ok().and_then(|text| text.strip_prefix("http://"));
    if let Some(secured) = secured.and_then(|rest| HeaderValue::from_str(&format!("https://{rest}")).ok()) {
        *value = secured;
    }
}
