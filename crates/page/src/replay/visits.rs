//! Independent visits instead of a page: one request each, over a connection of its own.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

use crate::{After, Body, Request, Response, Spec, Until};

/// The head of a request and of a response, in bytes.
const HEAD: u32 = 300;

/// `count` requests for `bytes` each, every one on its own connection, `at_once` of them at any time. They show what a
/// server can do, without a page's dependencies.
pub fn visits(count: u32, at_once: u32, bytes: u64) -> Spec {
    let request = |number: u32| Request {
        id: format!("visit{number}"),
        method: Method::GET,
        secure: false,
        host: "www.example.org".to_owned(),
        path: format!("/{number}"),
        connection: Some(number),
        head: HEAD,
        headers: HeaderMap::new(),
        body: Body::Synthetic { len: 0, seed: 0 },
        after: number
            .checked_sub(at_once.max(1))
            .map(|before| After { request: before as usize, until: Until::End })
            .into_iter()
            .collect(),
        compute: Duration::ZERO,
        hold: None,
        delays_load: true,
        response: Response {
            status: StatusCode::OK,
            content_type: None,
            head: HEAD,
            headers: HeaderMap::new(),
            body: Body::Synthetic { len: bytes, seed: u64::from(number) },
            think: Duration::ZERO,
        },
    };
    Spec {
        name: "visits".to_owned(),
        title: format!("{count} visits, {at_once} at once, each one request for {bytes} bytes"),
        source: None,
        recorded_at: None,
        compute: Duration::ZERO,
        requests: (0..count).map(request).collect(),
    }
}
