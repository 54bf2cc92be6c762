//! Between HTTP and `dav-server`: who may come in, what is refused before it is looked at, and what is
//! put right in the answers.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dav_server::body::Body as DavBody;
use dav_server::davpath::DavPath;
use dav_server::{DavHandler, DavMethod, DavMethodSet};
use futures_util::FutureExt;
use http::header::{
    ALLOW, CONNECTION, CONTENT_RANGE, CONTENT_TYPE, EXPECT, HOST, HeaderValue, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, Limited};

use crate::access_log::{AccessLog, Entry};
use crate::activity::Busy;
use crate::auth::{Overloaded, Users};
use crate::body::{Answer, Incoming, RequestBody, Upstream};
use crate::conditions;
use crate::destination;
use crate::early::{self, Gate};
use crate::locks::Locks;
use crate::origin::{self, Names};
use crate::other::{Answers, Other};
use crate::store::{Store, Visit, is_within};
use crate::xml;

const DEPTH: HeaderName = HeaderName::from_static("depth");
const DESTINATION: HeaderName = HeaderName::from_static("destination");
const DAV: HeaderName = HeaderName::from_static("dav");

/// The largest XML body, and that of a `PROPPATCH`.
const XML: usize = 64 * 1024;
const PROPERTIES: usize = 256 * 1024;

/// Bytes read from a file at a time.
const READ: usize = 128 * 1024;

const READABLE: &str = "OPTIONS, GET, HEAD, PROPFIND";
const WRITABLE: &str = "OPTIONS, GET, HEAD, PROPFIND, PROPPATCH, PUT, MKCOL, DELETE, COPY, MOVE, LOCK, UNLOCK";

/// What is served.
pub(crate) enum Site {
    /// The files of a folder.
    Folder(Box<Folder>),
    /// Somebody else's answers.
    Other(Other),
}

impl Site {
    /// Answers one request.
    pub(crate) async fn answer(
        &self,
        client: SocketAddr,
        request: Request<Incoming>,
        gate: Gate,
        busy: Busy,
    ) -> Response<Answer> {
        match self {
            Site::Folder(folder) => folder.answer(client, request, gate, busy).await,
            Site::Other(other) => other.answer(client, request, gate, busy).await,
        }
    }
}

impl Site {
    /// Who may have answers ready, and the log of what was asked.
    pub(crate) fn ready(&self) -> Option<(&dyn Answers, Option<&AccessLog>)> {
        match self {
            Site::Folder(_) => None,
            Site::Other(other) => Some(other.ready()),
        }
    }
}

/// A served folder.
pub(crate) struct Folder {
    dav: DavHandler<Arc<Visit>>,
    users: Option<Users>,
    names: Names,
    log: Option<AccessLog>,
    methods: &'static str,
}

impl Folder {
    pub(crate) fn new(
        store: Store,
        users: Option<Users>,
        names: Names,
        log: Option<AccessLog>,
        read_only: bool,
    ) -> Self {
        let dav = DavHandler::builder().filesystem(Box::new(store)).autoindex(true).read_buf_size(READ);
        let (dav, methods) = if read_only {
            (dav.methods(DavMethodSet::WEBDAV_RO), READABLE)
        } else {
            let mut methods = DavMethodSet::all();
            for refused in [DavMethod::Patch, DavMethod::Report, DavMethod::MkCalendar, DavMethod::MkAddressbook] {
                methods.remove(refused);
            }
            (dav.methods(methods).locksystem(Box::new(Locks::new())), WRITABLE)
        };
        Folder { dav: dav.build_handler(), users, names, log, methods }
    }

    /// Answers one request.
    async fn answer(&self, client: SocketAddr, request: Request<Incoming>, gate: Gate, busy: Busy) -> Response<Answer> {
        let mut entry = Entry::new(self.log.clone(), client, &request);
        let expects = request.headers().contains_key(EXPECT);
        let (head, body) = request.into_parts();
        let (body, remainder) = Upstream::new(body, Arc::clone(&entry.received), &busy);
        let request = Request::from_parts(head, body);
        let admitted =
            if early::too_early(&request, &gate) { Err(StatusCode::TOO_EARLY) } else { self.user(&request).await };
        let mut response = match admitted {
            Ok(user) => {
                entry.user = user;
                let principal = entry.user.as_deref().unwrap_or_default();
                // A mistake in `dav-server` costs this request and nothing else.
                AssertUnwindSafe(self.serve(request, principal)).catch_unwind().await.unwrap_or_else(|_| {
                    tracing::error!("a request made dav-server panic");
                    status(StatusCode::INTERNAL_SERVER_ERROR)
                })
            }
            Err(refused) => {
                let why = (refused == StatusCode::MISDIRECTED_REQUEST).then(|| origin::explain(origin::host(&request)));
                drop(request);
                why.map_or_else(|| status(refused), |why| text(refused, why))
            }
        };
        // A client that waits for "100 Continue" has sent nothing, unless it was asked to.
        let asked = !expects || entry.received.load(Ordering::Relaxed) > 0;
        if response.status().as_u16() >= 400 && asked && remainder.drain().await {
            response.headers_mut().remove(CONNECTION);
        }
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(self.methods));
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"haul\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        entry.status = Some(response.status());
        let named = response.extensions_mut().remove::<Arc<Visit>>();
        response.map(|body| Answer::new(body, named, entry, busy))
    }

    /// Who asks, if this server wants to know and that one may.
    async fn user<B>(&self, request: &Request<B>) -> Result<Option<String>, StatusCode> {
        // Whom it is for, and once (RFC 9112 section 3.2).
        if request.version() == Version::HTTP_11 && request.headers().get_all(HOST).iter().count() != 1 {
            return Err(StatusCode::BAD_REQUEST);
        }
        self.names.admit(request)?;
        let Some(users) = &self.users else { return Ok(None) };
        match users.check(request.headers()).await {
            Ok(Some(user)) => Ok(Some(user)),
            Ok(None) => Err(StatusCode::UNAUTHORIZED),
            Err(Overloaded) => Err(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    /// Judges a request by its head, and where it goes. Of a refusal, the status and what a person is told.
    fn judge(&self, request: &mut Request<Upstream>) -> Result<Visit, (StatusCode, Option<String>)> {
        let there = match request.headers().get(DESTINATION) {
            Some(there) if matches!(request.method().as_str(), "COPY" | "MOVE") => {
                let there = there.to_str().map_err(|_| (StatusCode::BAD_REQUEST, None))?;
                let path = destination::path(there, origin::host(request), &self.names);
                Some(path.map(Cow::into_owned).map_err(|refused| match refused {
                    destination::Refused::Malformed => (StatusCode::BAD_REQUEST, None),
                    destination::Refused::Elsewhere(there) => {
                        (StatusCode::BAD_GATEWAY, Some(destination::explain(&there)))
                    }
                })?)
            }
            _ => None,
        };
        admit(request, there.as_deref()).map_err(|refused| (refused, None))
    }

    async fn serve(&self, mut request: Request<Upstream>, principal: &str) -> Response<DavBody> {
        let mut visit = match self.judge(&mut request) {
            Ok(visit) => visit,
            Err((refused, None)) => return status(refused),
            Err((refused, Some(why))) => return text(refused, why),
        };
        // A missing depth means infinity (RFC 4918 section 9.1), and a tree has no bound.
        if visit.is("PROPFIND") && !request.headers().get(DEPTH).is_some_and(|depth| depth == "0" || depth == "1") {
            return finite_depth();
        }
        let (head, body) = request.into_parts();
        let body = if matches!(head.method.as_str(), "PROPFIND" | "PROPPATCH" | "LOCK") {
            let most = if head.method.as_str() == "PROPPATCH" { PROPERTIES } else { XML };
            match read_xml(body, most).await {
                Ok((text, named)) => {
                    visit.named = named.filter(|_| visit.is("PROPFIND"));
                    RequestBody::Whole(Full::new(text))
                }
                Err(refused) => return status(refused),
            }
        } else {
            RequestBody::Arriving(body)
        };
        let visit = Arc::new(visit);
        let request = Request::from_parts(head, body);
        let mut response = self.dav.handle_guarded(request, principal.to_owned(), Arc::clone(&visit)).await;
        *response.status_mut() = match response.status() {
            _ if visit.was_overtaken() => StatusCode::PRECONDITION_FAILED,
            // What `dav-server` takes for a gateway's trouble is a body that stopped or broke off.
            StatusCode::GATEWAY_TIMEOUT if visit.is("PUT") => StatusCode::REQUEST_TIMEOUT,
            StatusCode::BAD_GATEWAY if visit.is("PUT") => StatusCode::BAD_REQUEST,
            status => status,
        };
        if visit.method == Method::OPTIONS && response.status().is_success() {
            // Not all that `dav-server` can do is allowed here, and it leaves some out that is.
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(self.methods));
            let classes = if self.methods == WRITABLE { "1, 2, 3" } else { "1, 3" };
            response.headers_mut().insert(DAV, HeaderValue::from_static(classes));
        }
        if visit.named.is_some() {
            response.extensions_mut().insert(visit);
        }
        response
    }
}

/// Judges a request by its head. `there` is the path of its `Destination`.
fn admit(request: &mut Request<Upstream>, there: Option<&str>) -> Result<Visit, StatusCode> {
    let method = request.method().clone();
    let Some(path) = davpath(request.uri().path(), &method) else { return Err(StatusCode::BAD_REQUEST) };
    let is_root = |path: &DavPath| path.as_bytes() == b"/";
    let headers = request.headers_mut();
    conditions::check(headers).map_err(|conditions::Malformed| StatusCode::BAD_REQUEST)?;
    if headers.get_all(RANGE).iter().any(|ranges| ranges.as_bytes().contains(&b',')) {
        // Many ranges can ask for more than the file holds (RFC 9110 section 14.2 lets us ignore them).
        headers.remove(RANGE);
    }
    let destination = match there {
        Some(there) => {
            let Some(destination) = davpath(there, &method) else { return Err(StatusCode::BAD_REQUEST) };
            // Replacing what the source lies in would delete the source.
            if is_within(&path, &destination) {
                return Err(StatusCode::FORBIDDEN);
            }
            // Moving a collection into itself is impossible; copying it there would have no end.
            if is_within(&destination, &path) && method.as_str() == "MOVE" {
                return Err(StatusCode::FORBIDDEN);
            }
            // So that the destination judged here is the destination used there.
            if let Ok(value) = HeaderValue::from_str(&destination.as_url_string()) {
                headers.insert(DESTINATION, value);
            }
            Some(destination)
        }
        None => None,
    };
    match method.as_str() {
        // A part of a file cannot be replaced in one step (RFC 9110 section 14.5 asks for 400).
        "PUT" if headers.contains_key(CONTENT_RANGE) => return Err(StatusCode::BAD_REQUEST),
        "PUT" if path.is_collection() => return Err(StatusCode::CONFLICT),
        "DELETE" | "MOVE" if is_root(&path) => return Err(StatusCode::FORBIDDEN),
        _ => {}
    }
    let visit = Visit::new(method, path, destination, request.headers());
    Ok(visit)
}

fn davpath(path: &str, method: &Method) -> Option<DavPath> {
    match path {
        "*" if method == Method::OPTIONS => DavPath::new("/").ok(),
        path => DavPath::new(path).ok(),
    }
}

async fn read_xml(body: Upstream, most: usize) -> Result<(Bytes, Option<Vec<xml::Name>>), StatusCode> {
    let text = match Limited::new(body, most).collect().await {
        Ok(text) => text.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => return Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    if text.is_empty() {
        return Ok((text, None));
    }
    match xml::inspect(&text) {
        Ok(named) => Ok((text, named)),
        Err(xml::Refused) => Err(StatusCode::BAD_REQUEST),
    }
}

fn finite_depth() -> Response<DavBody> {
    let text =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
    let mut response = Response::new(DavBody::from(text));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    response
}

/// An answer that tells a person why.
fn text(code: StatusCode, why: String) -> Response<DavBody> {
    let mut response = Response::new(DavBody::from(why));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn status(code: StatusCode) -> Response<DavBody> {
    let mut response = Response::new(DavBody::empty());
    *response.status_mut() = code;
    response
}
