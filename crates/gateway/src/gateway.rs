//! The gateway: from a client's request to the server's answer.

use std::{
    future::ready,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use dav::RemotePath;
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
};
use haul_http::{Body, Client, Origin, auth::Authenticator};
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{RETRY_AFTER, WWW_AUTHENTICATE},
    request::Parts,
};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream};
use serve::{AnswerBody, Answered, RequestStream, Service};
use transport::Connector;

use crate::{
    account::Account,
    accounts::Accounts,
    answers::{text, without_body},
    credential::{Credential, Identities, Refused},
    head::{self, Upstream},
    metrics::Metrics,
    passing::{Passing, Received, SMALL},
};

/// Settings of a gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server's folder that the gateway is for. Paths are the same here and there.
    pub upstream: Uri,
    /// How to speak with the server. Each credential has connections of its own.
    pub client: haul_http::Settings,
    /// How long listings are believed: the delay with which changes made elsewhere are seen.
    pub fresh: Duration,
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
    upstream: Arc<Upstream>,
    fresh: Duration,
    identities: Identities,
    accounts: Mutex<Accounts<Arc<Account>>>,
    settings: haul_http::Settings,
    metrics: Arc<Metrics>,
    /// Shared, with its TLS sessions: they carry nobody's identity.
    connector: Arc<Connector>,
}

impl Gateway {
    /// An error if the URL is no folder's on a server, or if a file in the settings cannot be used.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let Settings { upstream, client, fresh } = settings;
        let is_folder = upstream.path().ends_with('/') && upstream.query().is_none();
        let origin = Origin::of(&upstream).ok().filter(|_| is_folder && !has_userinfo(&upstream));
        let origin = origin.ok_or(Error::Upstream)?;
        if !origin.is_tls() && !origin.is_loopback() {
            return Err(Error::ClearPasswords(origin));
        }
        let base = upstream.path().to_owned();
        let connector = Arc::new(Connector::new(client.connect.clone())?);
        let identities = Identities::new().map_err(|_| Error::Random)?;
        let upstream = Arc::new(Upstream { origin, base });
        Ok(Self {
            upstream,
            fresh,
            identities,
            accounts: Mutex::default(),
            settings: client,
            metrics: Arc::default(),
            connector,
        })
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts<Arc<Account>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Name, meaning and value of what comes and goes.
    pub(crate) fn gauges(&self) -> [(&'static str, &'static str, usize); 2] {
        let accounts = self.accounts().all();
        let pending = accounts.iter().map(|account| account.pending()).sum();
        [
            ("credentials", "Credentials for which something is kept.", accounts.len()),
            ("acknowledged_pending", "Files with acknowledged requests that are not at the server yet.", pending),
        ]
    }

    /// What is kept for a credential. Its HTTP client has no credentials of its own.
    fn account(&self, credential: &Credential) -> Arc<Account> {
        self.accounts().get(credential.identity, Instant::now(), || {
            let client = Client::over(self.connector.clone(), self.settings.clone(), Authenticator::default());
            Arc::new(Account::new(client, self.upstream.clone(), self.metrics.clone(), self.fresh))
        })
    }

    async fn pass(&self, client: SocketAddr, request: Request<RequestStream>) -> Answered {
        self.metrics.requests.add();
        let credential = match self.identities.of(request.headers(), client.ip()) {
            Ok(credential) => credential,
            Err(Refused::Ambiguous) => return answered(StatusCode::BAD_REQUEST, "400: two Authorization fields\n"),
            Err(Refused::Scheme(scheme)) => {
                let why = format!("403: this gateway passes on Basic and Bearer credentials, not {scheme}\n");
                return answered(StatusCode::FORBIDDEN, why);
            }
        };
        let (mut parts, body) = request.into_parts();
        if let Some(above) = self.upstream.answer_above(&parts) {
            return Answered { response: above, user: credential.user };
        }
        self.upstream.options_above(&mut parts);
        let translated = self.upstream.request(&parts, client.ip());
        let request = match translated.and_then(|(url, headers)| addressed(&parts, url, headers)) {
            Ok(request) => request,
            Err((status, why)) => return answered(status, why),
        };
        let response = match received(body).await {
            Ok(body) => {
                let answer = self.account(&credential).answer(Passing { body, ..request }).await;
                match answer.as_ref().map(Response::status) {
                    Ok(StatusCode::UNAUTHORIZED) => self.accounts().refused(credential.identity),
                    Ok(_) => self.accounts().accepted(credential.identity),
                    Err(_) => {}
                }
                self.answered(answer)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => without_body(StatusCode::REQUEST_TIMEOUT),
            Err(_) => without_body(StatusCode::BAD_REQUEST),
        };
        Answered { response, user: credential.user }
    }

    fn answered(&self, answer: Result<Response<AnswerBody>, haul_http::Error>) -> Response<AnswerBody> {
        let mut response = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.metrics.failures.add();
                return failed(&error);
            }
        };
        self.upstream.answer(response.headers_mut());
        if response.status() == StatusCode::UNAUTHORIZED && !keep_challenges(response.headers_mut()) {
            let why = "502: the server offers neither Basic nor Bearer authentication, which this gateway needs\n";
            return text(StatusCode::BAD_GATEWAY, why);
        }
        response.extensions_mut().clear();
        response
    }
}

impl Service for Gateway {
    fn answer(&self, client: SocketAddr, request: Request<RequestStream>) -> BoxFuture<'_, Answered> {
        self.pass(client, request).boxed()
    }

    /// Sends what was acknowledged.
    fn finish(&self) -> BoxFuture<'_, ()> {
        let accounts = self.accounts().all();
        async move { drop(join_all(accounts.iter().map(Account::end)).await) }.boxed()
    }
}

fn has_userinfo(url: &Uri) -> bool {
    url.authority().is_some_and(|authority| authority.as_str().contains('@'))
}

/// A request for the server, without its body.
fn addressed(parts: &Parts, url: Uri, headers: HeaderMap) -> Result<Passing, head::Refused> {
    let unusable = |_| (StatusCode::BAD_REQUEST, "400: the path is malformed\n".to_owned());
    let path = RemotePath::from_url_path(url.path()).map_err(unusable)?;
    let destination = headers.get("destination").and_then(|url| url.to_str().ok()?.parse::<Uri>().ok());
    let destination = destination.map(|url| RemotePath::from_url_path(url.path())).transpose().map_err(unusable)?;
    let body = Received::Whole(Bytes::new());
    Ok(Passing { method: parts.method.clone(), url, headers, path, destination, body })
}

async fn received(body: RequestStream) -> io::Result<Received> {
    let length = body.size_hint().exact();
    if length.is_some_and(|length| length <= SMALL) {
        return Ok(Received::Whole(body.collect().await?.to_bytes()));
    }
    let chunks = BodyStream::new(body).filter_map(|frame| {
        ready(match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(error)),
        })
    });
    Ok(Received::Streamed(Body::once(length, Box::pin(chunks))))
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
fn failed(error: &haul_http::Error) -> Response<AnswerBody> {
    let status = match error {
        haul_http::Error::Sending { .. } => StatusCode::BAD_REQUEST,
        haul_http::Error::Connect(_) => StatusCode::BAD_GATEWAY,
        haul_http::Error::OutcomeUnknown { .. } => StatusCode::GATEWAY_TIMEOUT,
        error if error.is_silence() => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    tracing::warn!("{error}");
    let mut response = text(status, format!("{}: {error}\n", status.as_u16()));
    if status == StatusCode::BAD_GATEWAY {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    }
    response
}

fn answered(status: StatusCode, why: impl Into<Bytes>) -> Answered {
    Answered { response: text(status, why), user: None }
}
