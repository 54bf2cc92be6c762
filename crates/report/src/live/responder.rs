//! Routing requests of the live report, and replying to them.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
};
use tokio::sync::watch;

use super::{Fetched, State};

/// How long a poll waits for a newer state.
const POLL_TIMEOUT: Duration = Duration::from_secs(20);

/// What responder are made of.
pub(super) struct Responder {
    pub(super) address: SocketAddr,
    pub(super) token: String,
    pub(super) state: watch::Receiver<State>,
    pub(super) had: watch::Sender<Fetched>,
    pub(super) cancel: Box<dyn Fn() + Send + Sync>,
}

type Reply = Response<Full<Bytes>>;

/// The target of a request.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Page,
    /// The state, once it is newer than this version.
    State(u64),
    Report,
    Cancel,
    /// Refused: unknown target, or a failed check.
    Not(StatusCode),
}

impl Responder {
    pub(super) async fn to(&self, request: &Request<Incoming>) -> Reply {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        match route(&self.address.to_string(), &self.token, method, uri.path(), uri.query(), headers) {
            Route::Page => self.page(),
            Route::State(version) => self.state(version).await,
            Route::Report => self.report(),
            Route::Cancel => {
                (self.cancel)();
                answer(StatusCode::ACCEPTED, "text/plain", Bytes::new())
            }
            Route::Not(status) => answer(status, "text/plain", Bytes::from_static(b"not found\n")),
        }
    }

    fn page(&self) -> Reply {
        self.had.send_modify(|had| had.page = true);
        let json = self.state.borrow().json.clone();
        html(crate::live_page(&json))
    }

    async fn state(&self, known: u64) -> Reply {
        let mut state = self.state.clone();
        let news = tokio::time::timeout(POLL_TIMEOUT, state.wait_for(|state| state.version > known)).await;
        let state = match news {
            Ok(Ok(state)) => state.clone(),
            // The time is over, or the run.
            _ => self.state.borrow().clone(),
        };
        let body = [format!(r#"{{"version":{},"live":"#, state.version).as_bytes(), &state.json, b"}"].concat();
        answer(StatusCode::OK, "application/json", body.into())
    }

    fn report(&self) -> Reply {
        let report = self.state.borrow().report.clone();
        let Some(report) = report else {
            return answer(StatusCode::NOT_FOUND, "text/plain", Bytes::from_static(b"the run is not at its end\n"));
        };
        self.had.send_modify(|had| had.report = true);
        html(report.to_vec())
    }
}

/// What a request asks for, if it may.
fn route(own: &str, token: &str, method: &Method, path: &str, query: Option<&str>, headers: &HeaderMap) -> Route {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("not text"));
    if text(header::HOST) != Some(own) {
        return Route::Not(StatusCode::MISDIRECTED_REQUEST);
    }
    let same = |origin: &str| origin.strip_prefix("http://") == Some(own);
    let origin = text(header::ORIGIN);
    if origin.is_some_and(|origin| !same(origin)) {
        return Route::Not(StatusCode::FORBIDDEN);
    }
    let mut parts = path.strip_prefix('/').unwrap_or(path).splitn(2, '/');
    let (given, what) = (parts.next().unwrap_or_default(), parts.next());
    if !is_same(given.as_bytes(), token.as_bytes()) {
        return Route::Not(StatusCode::NOT_FOUND);
    }
    match (method, what) {
        (&Method::GET, Some("")) => Route::Page,
        (&Method::GET, Some("state")) => {
            let after = query.and_then(|query| query.strip_prefix("after=")).unwrap_or("0");
            after.parse().map_or(Route::Not(StatusCode::BAD_REQUEST), Route::State)
        }
        (&Method::GET, Some("report")) => Route::Report,
        (&Method::POST, Some("cancel")) if origin.is_some() => Route::Cancel,
        (&Method::POST, Some("cancel")) => Route::Not(StatusCode::FORBIDDEN),
        _ => Route::Not(StatusCode::NOT_FOUND),
    }
}

/// In a time that does not tell where the two differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn html(page: Vec<u8>) -> Reply {
    answer(StatusCode::OK, "text/html; charset=utf-8", page.into())
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Reply {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // What the page may do stands in the page; this is what others may do with it.
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    answer.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    const HOST: &str = "127.0.0.1:4711";
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn routed(method: &Method, path: &str, headers: &[(HeaderName, &str)]) -> Route {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        route(HOST, TOKEN, method, &path.replace("TOKEN", TOKEN), query, &headers)
    }

    #[test]
    fn requests_with_token_host_and_origin_are_routed() {
        let host = (header::HOST, HOST);
        assert_eq!(routed(&Method::GET, "/TOKEN/", slice::from_ref(&host)), Route::Page);
        assert_eq!(routed(&Method::GET, "/TOKEN/state?after=7", slice::from_ref(&host)), Route::State(7));
        assert_eq!(routed(&Method::GET, "/TOKEN/report", slice::from_ref(&host)), Route::Report);
        let origin = (header::ORIGIN, "http://127.0.0.1:4711");
        assert_eq!(routed(&Method::POST, "/TOKEN/cancel", &[host, origin]), Route::Cancel);
    }

    #[test]
    fn other_requests_are_rejected() {
        let host = (header::HOST, HOST);
        for path in
            ["/", "/TOKEN", "/x/", "/0123456789abcdef0123456789abcdee/", "/state", "//TOKEN/", "/TOKEN/../TOKEN/"]
        {
            assert_eq!(routed(&Method::GET, path, slice::from_ref(&host)), Route::Not(StatusCode::NOT_FOUND), "{path}");
        }
        for host in ["evil.example:4711", "localhost", "127.0.0.1", "127.0.0.1:80", ""] {
            let result = routed(&Method::GET, "/TOKEN/", &[(header::HOST, host)]);
            assert_eq!(result, Route::Not(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
        assert_eq!(routed(&Method::GET, "/TOKEN/", &[]), Route::Not(StatusCode::MISDIRECTED_REQUEST));
        for origin in ["http://evil.example", "null", "https://127.0.0.1:4711", "http://127.0.0.1:80"] {
            for (method, path) in [(&Method::GET, "/TOKEN/state"), (&Method::POST, "/TOKEN/cancel")] {
                let result = routed(method, path, &[host.clone(), (header::ORIGIN, origin)]);
                assert_eq!(result, Route::Not(StatusCode::FORBIDDEN), "{origin} {path}");
            }
        }
        assert_eq!(routed(&Method::POST, "/TOKEN/cancel", slice::from_ref(&host)), Route::Not(StatusCode::FORBIDDEN));
        assert_eq!(routed(&Method::GET, "/TOKEN/cancel", slice::from_ref(&host)), Route::Not(StatusCode::NOT_FOUND));
        assert_eq!(routed(&Method::GET, "/TOKEN/state?after=x", &[host]), Route::Not(StatusCode::BAD_REQUEST));
    }
}
