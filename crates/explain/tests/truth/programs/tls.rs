//! Optional TLS for a scenario.

use std::{io, net::TcpStream, sync::Arc, thread::sleep, time::Duration};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig, ServerConnection, SideData,
    StreamOwned, SupportedProtocolVersion,
    pki_types::{PrivateKeyDer, ServerName},
    version::{TLS12, TLS13},
};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::http1::SyncStream;
use crate::scenario::Protocol;

const NAME: &str = "server.test";

/// A byte stream for HTTP/2.
pub(super) trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for S {}

/// The TLS configurations of both ends; `None` without TLS.
#[derive(Clone)]
pub(super) struct TlsConfigs(Option<(Arc<ClientConfig>, Arc<ServerConfig>)>);

impl TlsConfigs {
    pub(super) fn for_server(protocol: Protocol) -> io::Result<Self> {
        let versions: &[&'static SupportedProtocolVersion] = match protocol {
            Protocol::Tls12 => &[&TLS12],
            Protocol::Tls13 | Protocol::Http2Tls => &[&TLS13],
            Protocol::Http | Protocol::Raw | Protocol::Http2 => return Ok(Self(None)),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).map_err(io::Error::other)?;
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions);
        let client = client.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let server = server.map_err(io::Error::other)?.with_no_client_auth();
        let server = server.with_single_cert(vec![cert.der().clone()], key).map_err(io::Error::other)?;
        Ok(Self(Some((Arc::new(client), Arc::new(server)))))
    }

    /// The client's end, asynchronous.
    pub(super) async fn client(&self, stream: tokio::net::TcpStream) -> io::Result<Box<dyn AsyncStream>> {
        let Some((config, _)) = &self.0 else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?))
    }

    /// The server's end, asynchronous.
    pub(super) async fn server(&self, stream: tokio::net::TcpStream) -> io::Result<Box<dyn AsyncStream>> {
        let Some((_, config)) = &self.0 else { return Ok(Box::new(stream)) };
        Ok(Box::new(TlsAcceptor::from(Arc::clone(config)).accept(stream).await?))
    }

    /// The client's end, blocking.
    pub(super) fn connect(&self, stream: TcpStream) -> io::Result<Box<dyn SyncStream>> {
        let Some((config, _)) = &self.0 else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(connection, stream);
        tls.conn.complete_io(&mut tls.sock)?;
        Ok(Box::new(tls))
    }

    /// The server's end, blocking, with a delay before its part of the handshake.
    pub(super) fn accept(&self, stream: TcpStream, takes: Duration) -> io::Result<Box<dyn SyncStream>> {
        let Some((_, config)) = &self.0 else { return Ok(Box::new(stream)) };
        stream.peek(&mut [0])?;
        sleep(takes);
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(connection, stream);
        tls.conn.complete_io(&mut tls.sock)?;
        Ok(Box::new(tls))
    }
}

impl<C, S> SyncStream for StreamOwned<C, TcpStream>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}
