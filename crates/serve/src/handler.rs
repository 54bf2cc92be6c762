//! Between HTTP and `dav-server`: authentication, requests that are refused up front, and corrections to responses.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use dav_server::body::Body as DavBody;
use dav_server::davpath::DavPath;
use dav_server::{DavHandler, DavMethod, DavMethodSet};
use futures_util::FutureExt;
use http::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPECT, HOST, HeaderValue, IF_NONE_MATCH,
    LAST_MODIFIED, RANGE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};

use crate::access_log::{AccessLog, Entry};
use crate::activity::RequestGuard;
use crate::auth::{Overloaded, Users};
use crate::body::{Incoming, ReceivedBody, RequestBody, ResponseBody};
use crate::budget::Hold;
use crate::cross_site::{self, HostNames};
use crate::destination;
use crate::digest;
use crate::early_data::{self, HandshakeState};
use crate::locks::Locks;
use crate::modified::{self, Redirected};
use crate::preconditions;
use crate::responder::{Responder, ResponderHandler};
use crate::server::Quirks;
use crate::service::ServiceHandler;
use crate::store::{RequestContext, Store, is_within};
use crate::xml;

const DEPTH: HeaderName = HeaderName::from_static("depth");
const DESTINATION: HeaderName = HeaderName::from_static("destination");
const IF: HeaderName = HeaderName::from_static("if");
const DAV: HeaderName = HeaderName::from_static("dav");

/// Maximum size of an XML body, and of a `PROPPATCH`'s.
const MAX_XML: usize = 64 * 1024;
const MAX_PROPPATCH: usize = 256 * 1024;
/// A longer one is refused while clients from the same address hold much.
const SHORT_XML: usize = 4 * 1024;

/// Bytes per read from a file.
const READ_BUFFER: usize = 128 * 1024;

const READ_ONLY_METHODS: &str = "OPTIONS, GET, HEAD, PROPFIND";
const METHODS: &str = "OPTIONS, GET, HEAD, PROPFIND, PROPPATCH, PUT, MKCOL, DELETE, COPY, MOVE, LOCK, UNLOCK";

/// What a server serves.
pub(crate) enum Handler {
    /// A folder's files.
    Folder(Box<Folder>),
    /// Responses from memory.
    Responder(ResponderHandler),
    /// Answers from elsewhere.
    Service(ServiceHandler),
}

impl Handler {
    /// Responds to one request.
    pub(crate) async fn respond(
        &self,
        client: SocketAddr,
        request: Request<Incoming>,
        handshake: HandshakeState,
        guard: RequestGuard,
    ) -> Response<ResponseBody> {
        match self {
            Handler::Folder(folder) => folder.respond(client, request, handshake, guard).await,
            Handler::Responder(handler) => handler.respond(client, request, handshake, guard).await,
            Handler::Service(handler) => handler.respond(client, request, handshake, guard).await,
        }
    }
}

impl Handler {
    /// Refuses a request without looking at it further. Over HTTP/1.1 the connection ends.
    pub(crate) fn refuse(
        &self,
        client: SocketAddr,
        request: &Request<Incoming>,
        status: StatusCode,
        guard: RequestGuard,
    ) -> Response<ResponseBody> {
        let log = match self {
            Handler::Folder(folder) => folder.log.clone(),
            Handler::Responder(handler) => handler.parts().1.cloned(),
            Handler::Service(handler) => handler.log().cloned(),
        };
        let mut entry = Entry::new(log, client, request);
        entry.status = Some(status);
        let mut response = Response::new(ResponseBody::new(DavBody::empty().into(), None, entry, guard));
        *response.status_mut() = status;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        response
    }

    /// Ends what goes on behind the answers.
    pub(crate) async fn finish(&self) {
        if let Handler::Service(handler) = self {
            handler.finish().await;
        }
    }

    /// The responder with prepared responses, and the log.
    pub(crate) fn responder(&self) -> Option<(&dyn Responder, Option<&AccessLog>)> {
        match self {
            Handler::Folder(_) | Handler::Service(_) => None,
            Handler::Responder(handler) => Some(handler.parts()),
        }
    }
}

/// A served folder.
pub(crate) struct Folder {
    dav: DavHandler<Arc<RequestContext>>,
    store: Store,
    locks: Locks,
    users: Option<Users>,
    names: HostNames,
    log: Option<AccessLog>,
    methods: &'static str,
    quirks: Quirks,
}

impl Folder {
    pub(crate) fn new(
        store: Store,
        users: Option<Users>,
        names: HostNames,
        log: Option<AccessLog>,
        read_only: bool,
    ) -> Self {
        let dav = DavHandler::builder().filesystem(Box::new(store.clone())).autoindex(true).read_buf_size(READ_BUFFER);
        let locks = Locks::new();
        let (dav, methods) = if read_only {
            (dav.methods(DavMethodSet::WEBDAV_RO), READ_ONLY_METHODS)
        } else {
            let mut methods = DavMethodSet::all();
            for refused in [DavMethod::Patch, DavMethod::Report, DavMethod::MkCalendar, DavMethod::MkAddressbook] {
                methods.remove(refused);
            }
            (dav.methods(methods).locksystem(Box::new(locks.clone())), METHODS)
        };
        Folder { dav: dav.build_handler(), store, locks, users, names, log, methods, quirks: Quirks::default() }
    }

    pub(crate) fn with_quirks(self, quirks: Quirks) -> Self {
        Folder { quirks, ..self }
    }

    /// Responds to one request.
    async fn respond(
        &self,
        client: SocketAddr,
        request: Request<Incoming>,
        handshake: HandshakeState,
        guard: RequestGuard,
    ) -> Response<ResponseBody> {
        let mut entry = Entry::new(self.log.clone(), client, &request);
        let method = request.method().clone();
        let closes = self.quirks.closes_connections && request.version() < Version::HTTP_2;
        let expects = request.headers().contains_key(EXPECT);
        let (mut head, body) = request.into_parts();
        // A locked name without a file does not exist for Apache.
        if self.quirks.is_like_apache && method == Method::PUT && head.headers.contains_key(IF) {
            head.headers.remove(IF_NONE_MATCH);
        }
        let (body, remainder) = ReceivedBody::new(body, Arc::clone(&entry.received), &guard);
        let request = Request::from_parts(head, body);
        let admitted = if early_data::too_early(&request, &handshake) {
            Err(StatusCode::TOO_EARLY)
        } else {
            self.user(&request).await
        };
        let mut response = match admitted {
            Ok(user) => {
                entry.user = user;
                let principal = entry.user.as_deref().unwrap_or_default();
                // A bug in `dav-server` fails this request and nothing else.
                AssertUnwindSafe(self.serve(request, principal)).catch_unwind().await.unwrap_or_else(|_| {
                    tracing::error!("dav-server panicked on a request");
                    status(StatusCode::INTERNAL_SERVER_ERROR)
                })
            }
            Err(refused) => {
                let why = (refused == StatusCode::MISDIRECTED_REQUEST)
                    .then(|| cross_site::explain(cross_site::host(&request)));
                drop(request);
                why.map_or_else(|| status(refused), |why| text(refused, why))
            }
        };
        // A client that waits for `100 Continue` has sent no body unless the server asked for it.
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
            guard.0.budget.refuse();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        if self.quirks.is_like_apache {
            like_apache(&method, &mut response);
        }
        if closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // A sleep of no time would still wait for the timer's next tick.
        if !self.quirks.think_time.is_zero() {
            tokio::time::sleep(self.quirks.think_time).await;
        }
        entry.status = Some(response.status());
        let named = response.extensions_mut().remove::<Arc<RequestContext>>();
        response.map(|body| ResponseBody::new(body.into(), named, entry, guard))
    }

    /// Authenticates the request; `None` if the server has no users.
    async fn user<B>(&self, request: &Request<B>) -> Result<Option<String>, StatusCode> {
        // Exactly one `Host` (RFC 9112 §3.2).
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

    /// Checks a request's head and its `Destination`. A refusal is a status, and for some a text for people.
    fn check(&self, request: &mut Request<ReceivedBody>) -> Result<RequestContext, (StatusCode, Option<String>)> {
        let there = match request.headers().get(DESTINATION) {
            Some(there) if matches!(request.method().as_str(), "COPY" | "MOVE") => {
                let there = there.to_str().map_err(|_| (StatusCode::BAD_REQUEST, None))?;
                let path = destination::path(there, cross_site::host(request), &self.names);
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

    async fn serve(&self, mut request: Request<ReceivedBody>, principal: &str) -> Response<DavBody> {
        let mut context = match self.check(&mut request) {
            Ok(context) => context,
            Err((refused, None)) => return status(refused),
            Err((refused, Some(why))) => return text(refused, why),
        };
        // A missing depth means infinity (RFC 4918 §9.1), and a tree has no size limit.
        if context.is("PROPFIND") && !request.headers().get(DEPTH).is_some_and(|depth| depth == "0" || depth == "1") {
            return finite_depth();
        }
        if context.is("UNLOCK") {
            let tokens = request.headers().get_all("lock-token").iter().filter_map(|token| token.to_str().ok());
            if tokens.into_iter().any(|token| self.locks.is_of_another(token.trim_matches(['<', '>']), principal)) {
                return text(StatusCode::FORBIDDEN, "403: the lock is another user's\n".to_owned());
            }
        }
        let (mut head, body) = request.into_parts();
        let body = if matches!(head.method.as_str(), "PROPFIND" | "PROPPATCH" | "LOCK") {
            let most = if head.method.as_str() == "PROPPATCH" { MAX_PROPPATCH } else { MAX_XML };
            match read_xml(body, most).await {
                Ok((text, named)) => {
                    context.named = named.filter(|_| context.is("PROPFIND"));
                    let redirected =
                        Some(&text).filter(|_| context.is("PROPPATCH")).and_then(|text| modified::redirect(text));
                    RequestBody::Whole(Full::new(match redirected {
                        Some(Redirected { body, modified }) => {
                            context.modified = modified;
                            head.headers.insert(CONTENT_LENGTH, body.len().into());
                            body.into()
                        }
                        None => text,
                    }))
                }
                Err(refused) => return status(refused),
            }
        } else {
            RequestBody::Arriving(body)
        };
        let context = Arc::new(context);
        let wants_digest = digest::wanted(&head.headers).filter(|_| context.is("GET") || context.is("HEAD"));
        let request = Request::from_parts(head, body);
        let mut response = self.dav.handle_guarded(request, principal.to_owned(), Arc::clone(&context)).await;
        *response.status_mut() = match response.status() {
            _ if context.was_overtaken() => StatusCode::PRECONDITION_FAILED,
            _ if context.is_crowded() => StatusCode::SERVICE_UNAVAILABLE,
            // `dav-server` reports a stalled or truncated body as a gateway error.
            StatusCode::GATEWAY_TIMEOUT if context.is("PUT") => StatusCode::REQUEST_TIMEOUT,
            StatusCode::BAD_GATEWAY if context.is("PUT") => StatusCode::BAD_REQUEST,
            status => status,
        };
        if context.method == Method::OPTIONS && response.status().is_success() {
            // Some of `dav-server`'s methods are disabled here, and it omits some that work.
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(self.methods));
            let classes = if self.methods == METHODS { "1, 2, 3, <urn:longhaul:x-oc-mtime>" } else { "1, 3" };
            response.headers_mut().insert(DAV, HeaderValue::from_static(classes));
        }
        if let Some(algorithm) = wants_digest.filter(|_| response.status().is_success())
            && let Some(tag) = response.headers().get(ETAG).cloned()
            && let Some((digest, its)) = self.store.digest(&context.path, algorithm).await
            // Of the version that the response is about.
            && tag.as_bytes() == format!("\"{its}\"").as_bytes()
        {
            response.headers_mut().extend(digest::field(&digest));
        }
        if context.has_kept_time() && response.status().is_success() {
            response.headers_mut().insert(modified::HEADER, HeaderValue::from_static("accepted"));
        }
        if context.named.is_some() {
            response.extensions_mut().insert(context);
        }
        response
    }
}

/// Checks a request's head. `destination` is the path of its `Destination`.
fn admit(request: &mut Request<ReceivedBody>, destination: Option<&str>) -> Result<RequestContext, StatusCode> {
    let method = request.method().clone();
    let Some(path) = davpath(request.uri().path(), &method) else { return Err(StatusCode::BAD_REQUEST) };
    let is_root = |path: &DavPath| path.as_bytes() == b"/";
    let headers = request.headers_mut();
    preconditions::check(headers).map_err(|preconditions::Malformed| StatusCode::BAD_REQUEST)?;
    if headers.get_all(RANGE).iter().any(|ranges| ranges.as_bytes().contains(&b',')) {
        // Several ranges can request more bytes than the file has; servers may ignore them (RFC 9110 §14.2).
        headers.remove(RANGE);
    }
    let destination = match destination {
        Some(destination) => {
            let Some(destination) = davpath(destination, &method) else { return Err(StatusCode::BAD_REQUEST) };
            // Replacing a parent of the source would delete the source.
            if is_within(&path, &destination) {
                return Err(StatusCode::FORBIDDEN);
            }
            // Moving a collection into itself is impossible; copying it there would not end.
            if is_within(&destination, &path) && method.as_str() == "MOVE" {
                return Err(StatusCode::FORBIDDEN);
            }
            // `dav-server` then uses the destination that was checked here.
            if let Ok(value) = HeaderValue::from_str(&destination.as_url_string()) {
                headers.insert(DESTINATION, value);
            }
            Some(destination)
        }
        None => None,
    };
    match method.as_str() {
        // A file cannot be updated in part atomically (RFC 9110 §14.5 asks for 400).
        "PUT" if headers.contains_key(CONTENT_RANGE) => return Err(StatusCode::BAD_REQUEST),
        "PUT" if path.is_collection() => return Err(StatusCode::CONFLICT),
        "DELETE" | "MOVE" if is_root(&path) => return Err(StatusCode::FORBIDDEN),
        _ => {}
    }
    let activity = Arc::clone(request.body().activity());
    Ok(RequestContext::new(method, path, destination, request.headers(), activity))
}

fn davpath(path: &str, method: &Method) -> Option<DavPath> {
    match path {
        "*" if method == Method::OPTIONS => DavPath::new("/").ok(),
        path => DavPath::new(path).ok(),
    }
}

async fn read_xml(body: ReceivedBody, most: usize) -> Result<(Bytes, Option<Vec<xml::Name>>), StatusCode> {
    let activity = Arc::clone(body.activity());
    let mut hold = Hold::new(&activity, 0);
    let (mut body, mut text) = (body, BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
        let Some(data) = frame.data_ref() else { continue };
        if text.len() + data.len() > most {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        hold.grow(data.len());
        if text.len() > SHORT_XML && activity.budget.is_spent() {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        text.extend_from_slice(data);
    }
    let text = text.freeze();
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

/// A response with an explanation in plain text.
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

/// Changes a response to what Apache's would be.
fn like_apache<B>(method: &Method, response: &mut Response<B>) {
    match (method.as_str(), response.status()) {
        ("PUT", _) => {
            response.headers_mut().remove(ETAG);
            response.headers_mut().remove(LAST_MODIFIED);
        }
        ("LOCK", StatusCode::CREATED) => *response.status_mut() = StatusCode::OK,
        _ => {}
    }
}
