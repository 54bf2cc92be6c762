//! A request on its way to the server.

use bytes::Bytes;
use dav::{AfterSilence, Fence, RemotePath};
use haul_http::{Body, Class, FollowUp, Options};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{
        AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE, USER_AGENT,
    },
};

use crate::{
    answers::LOCK_TOKEN,
    credential,
    head::FORWARDED_FOR,
    redirector::{Ask, Saver},
    win32,
};

const DESTINATION: HeaderName = HeaderName::from_static("destination");
const OVERWRITE: HeaderName = HeaderName::from_static("overwrite");
pub(crate) const DEPTH: HeaderName = HeaderName::from_static("depth");
pub(crate) const IF: HeaderName = HeaderName::from_static("if");
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("timeout");
/// Fields that say who asks.
const IDENTITY: [HeaderName; 3] = [AUTHORIZATION, USER_AGENT, FORWARDED_FOR];
/// Fields that select what a PROPFIND returns.
const SELECTING: [&str; 2] = ["brief", "prefer"];
/// Of a look at a file.
const LOOK: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:resourcetype/><D:getcontentlength/><D:getetag/><D:getlastmodified/></D:prop></D:propfind>"#;
/// How the clients that save by an empty PUT, LOCK, PUT and UNLOCK call themselves.
const SAVERS: [(&str, Saver); 2] = [("Microsoft-WebDAV-MiniRedir", Saver::Redirector), ("WebDAVFS/", Saver::Finder)];

/// Request bodies up to this size are read before they are passed on, so that a request can be sent again where HTTP allows
/// it.
pub(crate) const SMALL: u64 = 256 * 1024;
/// A request to the server.
pub(crate) struct Passing {
    pub(crate) method: Method,
    pub(crate) url: Uri,
    /// The client's, with its credentials.
    pub(crate) headers: HeaderMap,
    pub(crate) path: RemotePath,
    /// Of COPY and MOVE.
    pub(crate) destination: Option<RemotePath>,
    pub(crate) body: Received,
    /// Whether `Authorization` and the path alone decide who asks for what.
    is_ordinary: bool,
}

/// A request's body: in memory if it is small, as it arrives otherwise.
pub(crate) enum Received {
    Whole(Bytes),
    Streamed(Body),
}

/// A client, and the resource that its requests are for.
pub(crate) struct Caller {
    /// Its credentials, and what else all of its requests have.
    headers: HeaderMap,
    pub(crate) url: Uri,
    pub(crate) path: RemotePath,
}

impl Caller {
    /// The same client at another resource.
    pub(crate) fn at(&self, url: Uri, path: RemotePath) -> Self {
        Self { headers: self.headers.clone(), url, path }
    }

    pub(crate) fn request(&self, method: &str, body: Bytes) -> Passing {
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let (url, headers, path) = (self.url.clone(), self.headers.clone(), self.path.clone());
        Passing::new(method, url, headers, (path, None)).with_body(Received::Whole(body))
    }

    /// A look at the resource.
    pub(crate) fn look(&self) -> Passing {
        let mut look = self.request("PROPFIND", Bytes::from_static(LOOK));
        look.headers.insert(DEPTH, HeaderValue::from_static("0"));
        look.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=\"utf-8\""));
        look
    }
}

impl Passing {
    /// A request without a body, at a path and perhaps for another one.
    pub(crate) fn new(
        method: Method,
        url: Uri,
        headers: HeaderMap,
        (path, destination): (RemotePath, Option<RemotePath>),
    ) -> Self {
        // A query may have a token (RFC 6750 §2.3).
        let is_ordinary = url.query().is_none() && credential::is_only_authorization(&headers);
        let body = Received::Whole(Bytes::new());
        Self { method, url, headers, path, destination, body, is_ordinary }
    }

    pub(crate) fn with_body(self, body: Received) -> Self {
        Self { body, ..self }
    }

    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.body {
            Received::Whole(body) => Some(body),
            Received::Streamed(_) => None,
        }
    }

    pub(crate) fn text(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The kind of client, if its saves are known.
    pub(crate) fn saver(&self) -> Option<Saver> {
        let agent = self.text(&USER_AGENT).filter(|_| self.is_ordinary())?;
        SAVERS.iter().find(|(name, _)| agent.starts_with(name)).map(|(_, saver)| *saver)
    }

    /// Whether `Authorization` and the path alone decide who asks for what.
    pub(crate) fn is_ordinary(&self) -> bool {
        self.is_ordinary
    }

    pub(crate) fn is_safe(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND" | "REPORT" | "SEARCH")
    }

    /// Whether nothing but the resource decides on the answer.
    pub(crate) fn is_plain(&self) -> bool {
        let conditions = [IF, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE];
        self.is_ordinary() && !conditions.iter().any(|name| self.headers.contains_key(name))
    }

    /// What a PROPFIND asks for.
    pub(crate) fn query(&self) -> Option<Bytes> {
        let body = self.whole().filter(|_| self.method.as_str() == "PROPFIND")?;
        let mut query = body.clone();
        for value in SELECTING.iter().filter_map(|name| self.headers.get(*name)) {
            query = [&query, &b"\0"[..], value.as_bytes()].concat().into();
        }
        Some(query)
    }

    pub(crate) fn ask(&self) -> Ask<'_> {
        let tokens = if self.method.as_str() == "UNLOCK" { LOCK_TOKEN } else { IF };
        Ask {
            method: self.method.as_str(),
            path: &self.path,
            tokens: self.text(&tokens),
            body: self.whole(),
            sets_times: self.method.as_str() == "PROPPATCH"
                && self.whole().is_some_and(|body| win32::only_sets(body).is_some()),
        }
    }

    /// Another request of the same client.
    pub(crate) fn sibling(&self, method: &str, url: Uri, path: RemotePath, body: Bytes) -> Self {
        self.caller(url, path).request(method, body)
    }

    /// Who asks, and nothing else of the request.
    pub(crate) fn identity(&self) -> Caller {
        let is_identity = |(name, _): &(&HeaderName, &HeaderValue)| IDENTITY.contains(name);
        let headers = self.headers.iter().filter(is_identity).map(|(name, value)| (name.clone(), value.clone()));
        Caller { headers: headers.collect(), url: self.url.clone(), path: self.path.clone() }
    }

    /// The same client, at a resource.
    pub(crate) fn caller(&self, url: Uri, path: RemotePath) -> Caller {
        let mut headers = self.headers.clone();
        for name in [IF, DEPTH, TIMEOUT, LOCK_TOKEN, CONTENT_TYPE, DESTINATION, OVERWRITE] {
            headers.remove(name);
        }
        Caller { headers, url, path }
    }

    /// The same with a lock's token, in its angle brackets.
    pub(crate) fn under(&self, token: &str) -> Option<Self> {
        let mut again = self.again()?;
        again.headers.insert(IF, HeaderValue::from_str(&format!("({token})")).ok()?);
        Some(again)
    }

    /// A look at the resource.
    pub(crate) fn look(&self) -> Self {
        self.caller(self.url.clone(), self.path.clone()).look()
    }

    /// Whether there is content, by another method.
    pub(crate) fn head(&self) -> Self {
        self.sibling("HEAD", self.url.clone(), self.path.clone(), Bytes::new())
    }

    pub(crate) fn into_follow_up(self) -> Option<FollowUp> {
        let Received::Whole(body) = self.body else { return None };
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (self.method, self.url, self.headers);
        FollowUp::new(request)
    }

    pub(crate) fn into_request(self) -> Request<Body> {
        let body = match self.body {
            Received::Whole(body) => body.into(),
            Received::Streamed(body) => body,
        };
        let is_small = match self.method {
            // Nobody knows the length of the answer.
            Method::GET => false,
            _ => body.length().is_some_and(|length| length <= SMALL),
        };
        // A late copy could undo what was stored since.
        let no_repeat_after_silence = Fence::in_headers(&self.headers).after_silence() != AfterSilence::Repeat;
        let mut request = Request::new(body);
        let class = if is_small { Class::Small } else { Class::Large };
        request.extensions_mut().insert(Options { class, no_repeat_after_silence, ..Options::default() });
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (self.method, self.url, self.headers);
        request
    }

    /// The same once more, if its body is in memory.
    pub(crate) fn again(&self) -> Option<Self> {
        let mut again = self.sibling("GET", self.url.clone(), self.path.clone(), self.whole()?.clone());
        (again.method, again.headers) = (self.method.clone(), self.headers.clone());
        Some(again)
    }
}
