//! Connections of either kind, and the race between them.
//!
//! Whether UDP reaches a server shows only in the trying. So QUIC has a head start, and then TCP runs beside it: the
//! way that a path blocks costs the head start, and no more.

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

/// How long HTTP/3 has the field to itself before TCP is tried beside it: as long as an address has (RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Whoever makes connections.
pub trait Dial: Send + Sync + 'static {
    /// Makes one; `early` allows requests before its handshake is done, `at` is where HTTP/3 is if not at the origin.
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        offer: Offer,
        early: bool,
        at: Option<&'a Origin>,
        within: Duration,
    ) -> BoxFuture<'a, Result<Dialed, ConnectError>>;

    /// Whether HTTP/3 can lead to an origin.
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

/// A connection of either kind.
#[derive(Debug)]
pub enum Dialed {
    /// TCP.
    Stream(Box<Connected>),
    /// QUIC.
    Quic(Box<Quic>),
}

impl Dialed {
    /// What is spoken.
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

    /// Whether its handshake is still under way.
    pub fn is_pending(&self) -> bool {
        match self {
            Self::Stream(connected) => connected.confirmation.is_some(),
            Self::Quic(quic) => quic.pending.is_some(),
        }
    }
}

/// Whichever is there first; TCP starts when it may, or when there is nothing else.
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
