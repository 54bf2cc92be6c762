//! The HTTP client of the models: one connection, one request in flight, every header set by the caller. A model
//! replays the request sequence of a client that cannot run here, so this client adds, reorders and retries nothing. It opens
//! another connection only if the server has announced that it closes this one.

pub mod multistatus;

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, SupportedProtocolVersion, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::{certs::Certificates, contenders::Failure, servers::Http};

/// [`USER`](crate::servers::USER)'s name and password.
const AUTHORIZATION: &str = "Basic bGFiOmxhYg==";

/// The server to connect to, and the protocols.
#[derive(Debug, Clone)]
pub struct Endpoint {
    uri: Uri,
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    http: Http,
    is_signed_in: bool,
}

impl Endpoint {
    /// The server of a URL whose host is an address, over `http`; with TLS of these
    /// versions when there are certificates.
    pub fn new(
        url: &str,
        certificates: Option<&Certificates>,
        versions: &[&'static SupportedProtocolVersion],
        http: Http,
    ) -> Result<Self, Failure> {
        let bad = || Failure::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let address = uri.authority().and_then(|authority| authority.as_str().parse().ok()).ok_or_else(bad)?;
        let alpn: &[u8] = if http == Http::One { b"http/1.1" } else { b"h2" };
        let tls = certificates.map(|certificates| certificates.client(versions, alpn)).transpose()?;
        Ok(Self { uri, address, tls, http, is_signed_in: false })
    }

    /// The path of the URL, with a slash at the end.
    pub fn path(&self) -> &str {
        self.uri.path()
    }
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

/// An open connection.
pub struct Connection {
    endpoint: Endpoint,
    sender: Sender,
    /// Whether the server closes it after the last response.
    is_closing: bool,
}

/// A response.
#[derive(Debug)]
pub struct Response {
    method: Method,
    path: String,
    status: u16,
    headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Connection {
    /// Connects, with all handshakes.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        Ok(Self { endpoint: endpoint.clone(), sender: connect(endpoint).await?, is_closing: false })
    }

    /// From now on, requests have the user name and password of the lab's servers.
    pub fn sign_in(&mut self) {
        self.endpoint.is_signed_in = true;
    }

    /// Sends a request and reads the whole response.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response, Failure> {
        let failed = |source: hyper::Error| Failure::Http { method: method.to_owned(), path: path.to_owned(), source };
        if std::mem::take(&mut self.is_closing) {
            self.sender = connect(&self.endpoint).await?;
        }
        let request = self.build(method, path, headers, body.into())?;
        let method = request.method().clone();
        let response = match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await.map_err(failed)?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => {
                sender.ready().await.map_err(failed)?;
                sender.send_request(request).await
            }
        };
        let (head, body) = response.map_err(failed)?.into_parts();
        let body = body.collect().await.map_err(failed)?.to_bytes();
        self.is_closing = head.headers.get(header::CONNECTION).is_some_and(|value| value.as_bytes() == b"close");
        Ok(Response { method, path: path.to_owned(), status: head.status.as_u16(), headers: head.headers, body })
    }

    fn build(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let uri = &self.endpoint.uri;
        let (scheme, authority) = (uri.scheme_str().unwrap_or("http"), uri.authority().map_or("", |a| a.as_str()));
        let mut request = match self.endpoint.http {
            // In origin form with a Host field (RFC 9112, section 3.2.1).
            Http::One => Request::builder().method(method).uri(path).header(header::HOST, authority),
            // What becomes :scheme, :authority and :path (RFC 9113, section 8.3.1).
            Http::Two => Request::builder().method(method).uri(format!("{scheme}://{authority}{path}")),
        };
        if self.endpoint.is_signed_in {
            request = request.header(header::AUTHORIZATION, AUTHORIZATION);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body)).map_err(|_| Failure::Url(path.to_owned()))
    }
}

async fn connect(endpoint: &Endpoint) -> Result<Sender, Failure> {
    let failed = |source| Failure::Connect { address: endpoint.address, source };
    let tcp = TcpStream::connect(endpoint.address).await.map_err(failed)?;
    tcp.set_nodelay(true).map_err(failed)?;
    match &endpoint.tls {
        None => handshake(tcp, endpoint).await,
        Some(config) => {
            let name = ServerName::from(endpoint.address.ip());
            let tls = TlsConnector::from(config.clone()).connect(name, tcp).await.map_err(failed)?;
            handshake(tls, endpoint).await
        }
    }
}

async fn handshake<T>(io: T, endpoint: &Endpoint) -> Result<Sender, Failure>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |source| Failure::Http { method: "the start".to_owned(), path: endpoint.uri.to_string(), source };
    let io = TokioIo::new(io);
    match endpoint.http {
        Http::One => {
            let (sender, connection) = http1::handshake(io).await.map_err(failed)?;
            tokio::spawn(connection);
            Ok(Sender::One(sender))
        }
        Http::Two => {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.map_err(failed)?;
            tokio::spawn(connection);
            Ok(Sender::Two(sender))
        }
    }
}

impl Response {
    /// The response itself, if its status is one of these.
    pub fn expect(self, statuses: &[u16]) -> Result<Self, Failure> {
        if statuses.contains(&self.status) {
            return Ok(self);
        }
        Err(Failure::Status { method: self.method.to_string(), path: self.path, status: self.status })
    }

    /// A header, which must be present.
    pub fn header(&self, name: &'static str) -> Result<&str, Failure> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).ok_or_else(|| Failure::Answer {
            method: self.method.to_string(),
            path: self.path.clone(),
            why: format!("has no {name}"),
        })
    }
}
