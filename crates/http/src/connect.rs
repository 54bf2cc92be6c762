//! Stand-in until the connector is merged: TCP alone.
use crate::{Cause, Error, Origin, Step};
use std::{io, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite};
/// x
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {
    /// x
    fn tcp_info(&self) -> Option<TcpInfo>;
}
/// x
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo {
    /// x
    pub rto: Duration,
}
impl TcpInfo {
    /// x
    pub fn cwnd(&self) -> u64 {
        0
    }
}
impl Io for tokio::net::TcpStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }
}
impl Io for tokio::io::DuplexStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }
}
/// x
#[derive(Debug, Clone, Default)]
pub struct ConnectSettings {
    _x: u8,
}
/// x
pub struct Connector;
/// x
#[derive(Debug, Clone, Default)]
pub struct Facts {
    _x: u8,
}
pub(crate) enum Offer {
    Http1,
    Http2,
    Both,
}
pub(crate) struct Connected {
    pub(crate) io: Box<dyn Io>,
    pub(crate) version: http::Version,
    pub(crate) facts: Facts,
}
impl Connector {
    /// x
    pub fn new(_: &ConnectSettings) -> Result<Self, Error> {
        Ok(Self)
    }
    pub(crate) async fn connect(&self, origin: &Origin, _: Offer, within: Duration) -> Result<Connected, Error> {
        let failed = |cause| Error::Connect { origin: origin.clone(), cause };
        let stream = tokio::time::timeout(within, tokio::net::TcpStream::connect((origin.host(), origin.port()))).await;
        let stream = stream
            .map_err(|_| failed(Cause::TimedOut(Step::Connect, within)))?
            .map_err(|e: io::Error| failed(e.into()))?;
        Ok(Connected { io: Box::new(stream), version: http::Version::HTTP_11, facts: Facts { _x: 0 } })
    }
}
