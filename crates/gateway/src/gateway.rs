//! The gateway: from a client's request to the server's answer.

use std::{
    future::ready,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

use bytes::Bytes;
use dav::RemotePath;
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
};
use haul_http::{Body, Origin};
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version,
    header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE},
    request::Parts,
};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream};
use serve::{AnswerBody, Answered, ConnectionData, RequestStream, Service};
use tokio::time::timeout;
use transport::Connector;

use crate::{
    account::{Account, Shared},
    accounts::{Accounts, Need},
    answers::{self, text, without_body},
    credential::{Credential, Identities, Refused, Scope},
    head::{self, Upstream},
    journal::{Journal, JournalError},
    large_contents::{DiskCache, LargeContents},
    own_connection::{OwnConnection, Server},
    passing::{Passing, Received, SMALL},
};

/// How long a gateway that ends sends what it has acknowledged: less than the server that it runs in waits for it.
const ENDING: Duration = Duration::from_secs(8);

/// How many downloads of a credential may wait for their clients beside its other requests.
const UNREAD: usize = 6;

/// Settings of a gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server's folder that the gateway is for. Paths are the same here and there.
    pub upstream: Uri,
    /// How to speak with the server. Each credential has connections of its own.
    pub client: haul_http::Settings,
    /// How long listings are believed: the delay with which changes made elsewhere are seen.
    pub fresh: Duration,
    /// Acknowledge files once they are safe here; with none, once the server has them.
    pub write_back: Option<WriteBack>,
    /// Where large files are kept that were read; with none, they are not.
    pub cache: Option<DiskCache>,
}

/// Where files are that were acknowledged before the server had them.
#[derive(Debug, Clone)]
pub struct WriteBack {
    /// The folder of the gateway's state.
    pub state: PathBuf,
    /// The largest size of all files in the journal, in bytes; what has no room there is acknowledged by the server.
    pub size: u64,
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
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The cache cannot be used.
    #[error("cannot keep large files in the folder {}: {source}; name another one with --cache-dir, or none with --cache-size 0", folder.display())]
    Cache {
        /// Its folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// A gateway to one server.
pub struct Gateway {
    /// Its connector is shared, with its TLS sessions: they carry nobody's identity.
    server: Server,
    fresh: Duration,
    identities: Identities,
    accounts: Mutex<Accounts<Arc<Account>>>,
}

impl Gateway {
    /// An error if the URL is no folder's on a server, or if a file in the settings cannot be used.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let Settings { upstream, mut client, fresh, write_back, cache } = settings;
        client.unread_connections = UNREAD;
        let is_folder = upstream.path().ends_with('/') && upstream.query().is_none();
        let origin = Origin::of(&upstream).ok().filter(|_| is_folder && !has_userinfo(&upstream));
        let origin = origin.ok_or(Error::Upstream)?;
        if !origin.is_tls() && !origin.is_loopback() {
            return Err(Error::ClearPasswords(origin));
        }
        let base = upstream.path().to_owned();
        let large_contents = cache.map(LargeContents::open).transpose()?;
        let open = |back: &WriteBack| Journal::open(&back.state, &upstream.to_string(), back.size).map(Arc::new);
        let journal = write_back.as_ref().map(open).transpose()?;
        let connector = Arc::new(Connector::new(client.connect.clone())?);
        let identities = Identities::new().map_err(|_| Error::Random)?;
        let upstream = Arc::new(Upstream { origin, base });
        let server = Server {
            upstream,
            connector,
            settings: client,
            metrics: Arc::default(),
            shared: Shared { large_contents, ..Shared::default() },
            journal,
        };
        Ok(Self { server, fresh, identities, accounts: Mutex::default() })
    }

    pub(crate) fn accounts(&self) -> MutexGuard<'_, Accounts<Arc<Account>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// What is kept for a client's credential; none if it has too many in use.
    fn account(&self, client: IpAddr, credential: &Credential) -> Option<Arc<Account>> {
        let new = || self.server.account(self.fresh, Some(credential));
        // Whoever answers with it has it, too.
        let need = |account: &Arc<Account>| match account {
            account if Arc::strong_count(account) > 1 => Need::Answers,
            account if account.is_busy() => Need::Keeps,
            _ => Need::None,
        };
        self.accounts().get((client, credential), Instant::now(), need, new)
    }

    async fn pass(&self, client: SocketAddr, request: Request<RequestStream>) -> Answered {
        self.server.metrics.requests.add();
        let credential = match self.identities.of(request.headers(), client.ip()) {
            Ok(credential) => credential,
            Err(Refused::Ambiguous) => return answered(StatusCode::BAD_REQUEST, "400: two Authorization fields\n"),
            Err(Refused::Scheme(scheme)) => {
                let why = format!(
                    "403: this gateway passes on Basic, Bearer, Digest, Negotiate and NTLM credentials, not {scheme}\n"
                );
                return answered(StatusCode::FORBIDDEN, why);
            }
        };
        let (mut parts, body) = request.into_parts();
        let data = parts.extensions.get::<ConnectionData>().cloned().unwrap_or_default();
        let own = data.get_or_init(OwnConnection::default).unwrap_or_default();
        let can_bind = parts.version == Version::HTTP_11;
        if credential.scope == Scope::Connection && !can_bind {
            // As in the specification of HTTP/2 itself: connections are shared there.
            let why = "403: Negotiate and NTLM authenticate a connection; use HTTP/1.1 for them\n";
            return answered(StatusCode::FORBIDDEN, why);
        }
        if let Some(above) = self.server.upstream.answer_above(&parts) {
            return Answered { response: above, user: credential.user };
        }
        self.server.upstream.options_above(&mut parts);
        let translated = self.server.upstream.request(&parts, client.ip());
        let request = match translated.and_then(|(url, headers)| addressed(&parts, url, headers)) {
            Ok(request) => request,
            Err((status, why)) => return answered(status, why),
        };
        let response = match received(body).await {
            Ok(body) => {
                let (answer, is_last) = self.sent(request.with_body(body), client.ip(), &credential, &own).await;
                let mut response = self.answered(answer, can_bind);
                if is_last {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => without_body(StatusCode::REQUEST_TIMEOUT),
            Err(_) => without_body(StatusCode::BAD_REQUEST),
        };
        Answered { response, user: credential.user }
    }

    /// Sends a request the way that its credential needs. Also returns whether the client's connection ends with it.
    async fn sent(
        &self,
        request: Passing,
        client: IpAddr,
        credential: &Credential,
        own: &OwnConnection,
    ) -> (Result<Response<AnswerBody>, haul_http::Error>, bool) {
        if own.is_bound() || credential.scope == Scope::Connection {
            return match own.pass_bound(&self.server, request).await {
                Ok((answer, is_last)) => (Ok(answer), is_last),
                Err(error) => (Err(error), true),
            };
        }
        if credential.scope == Scope::Request {
            return (Box::pin(own.pass_single(&self.server, request)).await, false);
        }
        let Some(account) = self.account(client, credential) else { return (Ok(answers::too_many()), false) };
        account.adopt(&request).await;
        let answer = account.answer(request).await;
        match answer.as_ref().map(Response::status) {
            Ok(StatusCode::UNAUTHORIZED) => self.accounts().refused(credential.identity),
            Ok(_) => self.accounts().accepted(credential.identity),
            Err(_) => {}
        }
        // It is in use until the client has the answer.
        let with_account = |body: AnswerBody| {
            let kept = move |error| {
                let _in_use = &account;
                error
            };
            body.map_err(kept).boxed_unsync()
        };
        (answer.map(|answer| answer.map(with_account)), false)
    }

    fn answered(&self, answer: Result<Response<AnswerBody>, haul_http::Error>, can_bind: bool) -> Response<AnswerBody> {
        let mut response = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.server.metrics.failures.add();
                return failed(&error);
            }
        };
        self.server.upstream.answer(response.headers_mut());
        if response.status() == StatusCode::UNAUTHORIZED && !keep_challenges(response.headers_mut(), can_bind) {
            let why =
                "502: the server offers no authentication that this gateway passes on over this version of HTTP\n";
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
        if let Some(journal) = &self.server.journal {
            journal.end();
        }
        let journal = self.server.journal.clone();
        async move {
            // What is not sent in this time is safe in the journal, if there is one.
            drop(timeout(ENDING, join_all(accounts.iter().map(Account::end))).await);
            if let Some(journal) = journal {
                journal.close();
            }
        }
        .boxed()
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
    Ok(Passing::new(parts.method.clone(), url, headers, (path, destination)))
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
fn keep_challenges(headers: &mut HeaderMap, can_bind: bool) -> bool {
    let can_pass = |value: &HeaderValue| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        let scheme = scheme.strip_suffix(b",").unwrap_or(scheme);
        let is_one_of = |names: &[&str]| names.iter().any(|name| scheme.eq_ignore_ascii_case(name.as_bytes()));
        is_one_of(&["basic", "bearer", "digest"]) || (can_bind && is_one_of(&["negotiate", "ntlm"]))
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
