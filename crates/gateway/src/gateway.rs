//! The gateway: from a client's request to the server's answer.

use std::{
    future::ready,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use haul_http::{Body, Class, Client, Incoming, Options, Origin, auth::Authenticator};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    request::Parts,
};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream};
use serve::{AnswerBody, Answered, RequestStream, Service, whole};
use transport::Connector;

use crate::{
    accounts::Accounts,
    credential::{Credential, Identities, Refused},
    head::Upstream,
};

/// Request bodies up to this size are read before they are passed on, so that a request can be sent again where HTTP allows
/// it.
const SMALL: u64 = 256 * 1024;

/// Settings of a gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server's folder that the gateway is for. Paths are the same here and there.
    pub upstream: Uri,
    /// How to speak with the server. Each credential has connections of its own.
    pub client: haul_http::Settings,
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server's URL cannot be used. It is not repeated, since it may have a password.
    #[error(
        "write the URL of the server's folder without a user and with a slash at its end, like https://dav.example.org/files/"
    )]
    Upstream,
    /// Passwords would cross a network in cleartext.
    #[error("passwords would be sent in cleartext to {0}; write https://")]
    ClearPasswords(Origin),
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] transport::SettingsError),
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// A gateway to one server.
pub struct Gateway {
    upstream: Upstream,
    identities: Identities,
    accounts: Mutex<Accounts<Client>>,
    settings: haul_http::Settings,
    /// Shared, with its TLS sessions: they carry nobody's identity.
    connector: Arc<Connector>,
}

impl Gateway {
    /// An error if the URL is no folder's on a server, or if a file in the settings cannot be used.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let Settings { upstream, client } = settings;
        let is_folder = upstream.path().ends_with('/') && upstream.query().is_none();
        let origin = Origin::of(&upstream).ok().filter(|_| is_folder && !has_userinfo(&upstream));
        let origin = origin.ok_or(Error::Upstream)?;
        if !origin.is_tls() && !origin.is_loopback() {
            return Err(Error::ClearPasswords(origin));
        }
        let base = upstream.path().to_owned();
        let connector = Arc::new(Connector::new(client.connect.clone())?);
        let identities = Identities::new().map_err(|_| Error::Random)?;
        let upstream = Upstream { origin, base };
        Ok(Self { upstream, identities, accounts: Mutex::default(), settings: client, connector })
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts<Client>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The HTTP client of a credential. It has no credentials of its own.
    fn client(&self, credential: &Credential) -> Client {
        self.accounts().get(credential.identity, Instant::now(), || {
            Client::over(self.connector.clone(), self.settings.clone(), Authenticator::default())
        })
    }

    async fn pass(&self, client: SocketAddr, request: Request<RequestStream>) -> Answered {
        let credential = match self.identities.of(request.headers()) {
            Ok(credential) => credential,
            Err(Refused::Ambiguous) => return text(StatusCode::BAD_REQUEST, "400: two Authorization fields\n"),
            Err(Refused::Scheme(scheme)) => {
                let why = format!("403: this gateway passes on Basic and Bearer credentials, not {scheme}\n");
                return text(StatusCode::FORBIDDEN, why);
            }
        };
        let (parts, body) = request.into_parts();
        let (url, headers) = match self.upstream.request(&parts, client.ip()) {
            Ok(translated) => translated,
            Err((status, why)) => return text(status, why),
        };
        let mut answered = match body_of(body).await {
            Ok(body) => {
                let request = upstream_request(&parts, url, headers, body);
                let answer = self.client(&credential).exchange(request).await;
                if answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED) {
                    self.accounts().refused(credential.identity);
                }
                self.answered(answer)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Answered::status(StatusCode::REQUEST_TIMEOUT),
            Err(_) => Answered::status(StatusCode::BAD_REQUEST),
        };
        answered.user = credential.user;
        answered
    }

    fn answered(&self, answer: Result<Response<Incoming>, haul_http::Error>) -> Answered {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return failed(&error),
        };
        let (mut parts, body) = answer.into_parts();
        self.upstream.answer(&mut parts.headers);
        if parts.status == StatusCode::UNAUTHORIZED && !keep_challenges(&mut parts.headers) {
            let why = "502: the server offers neither Basic nor Bearer authentication, which this gateway needs\n";
            return text(StatusCode::BAD_GATEWAY, why);
        }
        parts.extensions.clear();
        let body = body.map_err(io::Error::other).boxed_unsync();
        Answered { response: Response::from_parts(parts, body), user: None }
    }
}

impl Service for Gateway {
    fn answer(&self, client: SocketAddr, request: Request<RequestStream>) -> BoxFuture<'_, Answered> {
        self.pass(client, request).boxed()
    }
}

fn has_userinfo(url: &Uri) -> bool {
    url.authority().is_some_and(|authority| authority.as_str().contains('@'))
}

/// The body for the server: in memory if it is small, as it arrives otherwise.
async fn body_of(body: RequestStream) -> io::Result<Body> {
    let length = body.size_hint().exact();
    if length.is_some_and(|length| length <= SMALL) {
        return Ok(body.collect().await?.to_bytes().into());
    }
    let chunks = BodyStream::new(body).filter_map(|frame| {
        ready(match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(error)),
        })
    });
    Ok(Body::once(length, Box::pin(chunks)))
}

fn upstream_request(parts: &Parts, url: Uri, headers: HeaderMap, body: Body) -> Request<Body> {
    let is_small = match parts.method {
        // Nobody knows the length of the answer.
        Method::GET => false,
        _ => body.length().is_some_and(|length| length <= SMALL),
    };
    let mut request = Request::new(body);
    let class = if is_small { Class::Small } else { Class::Large };
    request.extensions_mut().insert(Options { class, ..Options::default() });
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = url;
    *request.headers_mut() = headers;
    request
}

/// Keeps what the gateway can pass on of the schemes that the server offers. Returns whether there is any.
fn keep_challenges(headers: &mut HeaderMap) -> bool {
    let can_pass = |value: &HeaderValue| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"basic") || scheme.eq_ignore_ascii_case(b"bearer")
    };
    let kept: Vec<_> = headers.get_all(WWW_AUTHENTICATE).iter().filter(|value| can_pass(value)).cloned().collect();
    headers.remove(WWW_AUTHENTICATE);
    let any = !kept.is_empty();
    for value in kept {
        headers.append(WWW_AUTHENTICATE, value);
    }
    any
}

/// The answer in place of the server's. Its text names the request, and no header field.
fn failed(error: &haul_http::Error) -> Answered {
    let status = match error {
        haul_http::Error::Sending { .. } => StatusCode::BAD_REQUEST,
        haul_http::Error::Connect(_) => StatusCode::BAD_GATEWAY,
        haul_http::Error::OutcomeUnknown { .. } => StatusCode::GATEWAY_TIMEOUT,
        error if error.is_silence() => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    tracing::warn!("{error}");
    let mut answered = text(status, format!("{}: {error}\n", status.as_u16()));
    if status == StatusCode::BAD_GATEWAY {
        answered.response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    }
    answered
}

fn text(status: StatusCode, why: impl Into<Bytes>) -> Answered {
    let mut response: Response<AnswerBody> = Response::new(whole(why));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Answered { response, user: None }
}
