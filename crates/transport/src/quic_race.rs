//! The race between QUIC and TCP.
//!
//! Only an attempt shows whether UDP reaches a server. So QUIC starts first, and TCP follows after [`HEAD_START`]: on a
//! path that drops UDP, the attempt costs that time and no more.

use std::{pin::pin, time::Duration};

use futures_util::future::BoxFuture;
use http::Version;
use tokio::time::timeout;

use crate::{
    connector::{Connected, Connector},
    error::ConnectError,
    facts::Facts,
    offer::Offer,
    origin::Origin,
    quic::Quic,
};

/// QUIC's head start over TCP; equal to the Connection Attempt Delay (RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);

/// A source of connections: a [`Connector`], or a model of a network in a test.
pub trait Dial: Send + Sync + 'static {
    /// Makes a connection within a time. `early` allows requests before its handshake is done; `at` is the address of
    /// HTTP/3 if it is not the origin (Alt-Svc).
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        offer: Offer,
        early: bool,
        at: Option<&'a Origin>,
        within: Duration,
    ) -> BoxFuture<'a, Result<Dialed, ConnectError>>;

    /// Whether QUIC can reach an origin.
    fn takes_quic(&self, origin: &Origin) -> bool;
}

impl Dial for Connector {
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        offer: Offer,
        early: bool,
        at: Option<&'a Origin>,
        within: Duration,
    ) -> BoxFuture<'a, Result<Dialed, ConnectError>> {
        Box::pin(async move {
            Ok(match offer {
                Offer::Http3 => Dialed::Quic(Box::new(self.connect_quic(origin, at, early, within).await?)),
                _ => Dialed::Stream(Box::new(self.connect_early(origin, offer, early, within).await?)),
            })
        })
    }

    fn takes_quic(&self, origin: &Origin) -> bool {
        self.takes_quic(origin)
    }
}

/// A connection over TCP or QUIC.
#[derive(Debug)]
pub enum Dialed {
    /// Over TCP.
    Stream(Box<Connected>),
    /// Over QUIC.
    Quic(Box<Quic>),
}

impl Dialed {
    /// The HTTP version.
    pub fn version(&self) -> Version {
        match self {
            Self::Stream(connected) => connected.version,
            Self::Quic(_) => Version::HTTP_3,
        }
    }

    /// How it was made.
    pub fn facts(&self) -> &Facts {
        match self {
            Self::Stream(connected) => &connected.facts,
            Self::Quic(quic) => &quic.facts,
        }
    }

    /// Whether its handshake is still in progress.
    pub fn is_pending(&self) -> bool {
        match self {
            Self::Stream(connected) => connected.confirmation.is_some(),
            Self::Quic(quic) => quic.pending.is_some(),
        }
    }
}

/// Returns the connection that is ready first. TCP starts after the head start, or at once if QUIC fails.
pub async fn race(
    quic: impl Future<Output = Result<Dialed, ConnectError>>,
    tcp: impl Future<Output = Result<Dialed, ConnectError>>,
) -> Result<Dialed, ConnectError> {
    let (mut quic, mut tcp) = (pin!(quic), pin!(tcp));
    if let Ok(dialed) = timeout(HEAD_START, &mut quic).await {
        return if dialed.is_ok() { dialed } else { tcp.await };
    }
    tokio::select! {
        dialed = &mut quic => if dialed.is_ok() { dialed } else { tcp.await },
        dialed = &mut tcp => match dialed {
            Err(error) => quic.await.map_err(|_| error),
            dialed => dialed,
        },
    }
}
