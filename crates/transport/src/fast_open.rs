//! TCP Fast Open (RFC 7413), made safe: the first request, or the TLS handshake's first message, in the SYN.
//!
//! A server hands out a cookie with one connection, and takes data in the SYN of the next ones that show it; so each
//! of those is a round trip shorter. What has kept it from being used is that some ways do not bear it: boxes that
//! drop a SYN with an option they do not know, or with data, or that lose track of a connection that begins so. The
//! kernel then waits a second or more and tries without, each time anew; a connection that goes silent *after* its
//! handshake it does not mend at all. So here
//!
//! - what is known of each way is remembered (`memory`: no sockets, no clocks);
//! - a SYN that carries more than a plain one has a bounded time to be answered; then a plain one follows on another
//!   socket, and whoever is answered first is the connection (`race` decides, `stream` drives). So a way that does
//!   not bear it costs that wait, once, and never a failure;
//! - what is written into a SYN may arrive twice, so it is only ever what may: a safe request, or a handshake that
//!   has begun nothing. RFC 7413 asks for idempotence; that is not enough where the second answer is looked at: a
//!   `DELETE` that comes twice is answered 404, a guarded `PUT` 412, and there would be nobody who knew why;
//! - a cookie is a name that a server has given to us. `network` tells networks apart, so that none that was given
//!   in one is shown in another.
//!
//! Through a proxy there is none of it: the proxy's connections are few and stay open.

mod cookies;
mod kernel;
mod memory;
mod netlink;
mod network;
mod paths;
mod race;
mod stream;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpStream, time::sleep};

pub use self::{
    kernel::listen_fast_open,
    memory::{Memory, State},
    paths::{Paths, Tally, Way},
};
use self::{
    kernel::{Begun, begin},
    memory::{Event, Plan},
    paths::Path,
    stream::FastStream,
};
use crate::{error::Cause, happy_eyeballs, io::Io, resolve::lost, tcp::Tcp};

/// Whether connections begin with data in their SYN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FastOpen {
    /// Never, and no cookie is asked for.
    #[default]
    Off,
    /// Where it works. A cookie that the kernel holds from other programs or other networks is used too.
    On,
    /// Where it works, and only with cookies that were given in the network that we are in.
    Private,
}

/// How an attempt to reach one address ended.
enum Reached {
    /// Connected.
    Open(TcpStream),
    /// Nothing was sent: the SYN waits for data.
    Deferred(TcpStream),
}

/// Connects to the first of these that answers, or to one whose SYN waits for data. As [`crate::resolve::connect`].
pub(crate) async fn connect(
    addresses: Vec<SocketAddr>,
    tcp: &Tcp,
    paths: &Arc<Paths>,
    private: bool,
) -> Result<(SocketAddr, Box<dyn Io>, Duration), Cause> {
    let network = paths.enter(private);
    let path = |server| Path { paths: paths.clone(), way: Way { network, server }, private, declined: false };
    let defer = |stream, path: Path| -> Box<dyn Io> {
        path.count(|tally| tally.tried += 1);
        let proven = path.plan() == Plan::Data { proven: true };
        Box::new(FastStream::new(stream, proven, path, addresses.clone(), tcp.clone()))
    };
    // Where data is taken, nobody else need be asked.
    for &to in &addresses {
        let path = path(to);
        if let Plan::Data { .. } = path.plan() {
            match begin(tcp.socket(to)?, to) {
                Ok(Begun::Deferred(stream)) if path.may_show(&stream) => {
                    return Ok((to, defer(stream, path), Duration::ZERO));
                }
                Ok(_) => path.happened(Event::Forgotten),
                // Why not is told by the attempts below.
                Err(_) => {}
            }
        }
    }
    let reach = |to| {
        let path = path(to);
        async move {
            match path.plan() {
                Plan::Plain => tcp.connect(to).await.map(Reached::Open),
                Plan::Ask | Plan::Data { .. } => ask(to, tcp, &path).await,
            }
        }
    };
    let (to, reached, took) =
        happy_eyeballs::run(addresses.clone(), reach).await.map_err(|failures| lost(&failures))?;
    match reached {
        Reached::Open(stream) => {
            path(to).round_trip(took);
            Ok((to, Box::new(stream), took))
        }
        Reached::Deferred(stream) => Ok((to, defer(stream, path(to)), Duration::ZERO)),
    }
}

/// Connects with a SYN that asks for a cookie, and with a plain one beside it if that stays unanswered.
async fn ask(to: SocketAddr, tcp: &Tcp, path: &Path) -> io::Result<Reached> {
    let mut begun = begin(tcp.socket(to)?, to)?;
    if let Begun::Deferred(stream) = &begun
        && path.private
    {
        // The kernel has it from another network, or another program has it from who knows where.
        let ours = stream.local_addr()?.ip();
        if cookies::forget(ours, to).is_err() {
            return tcp.connect(to).await.map(Reached::Open);
        }
        begun = begin(tcp.socket(to)?, to)?;
    }
    let stream = match begun {
        Begun::Deferred(stream) => {
            path.happened(Event::Granted);
            return Ok(Reached::Deferred(stream));
        }
        Begun::Asking(stream) => stream,
    };
    path.count(|tally| tally.asked += 1);
    let overtaken = {
        let asking = async {
            stream.writable().await?;
            stream.take_error()?.map_or(Ok(()), Err)
        };
        let plain = async {
            sleep(path.wait()).await;
            tcp.connect(to).await
        };
        tokio::pin!(asking, plain);
        tokio::select! {
            asked = &mut asking => match asked {
                Ok(()) => None,
                // Refused: was it for the option?
                Err(refused) => Some(tcp.connect(to).await.map_err(|_| refused)?),
            },
            plain = &mut plain => match plain {
                Ok(stream) => Some(stream),
                Err(refused) => asking.await.map(|()| None).map_err(|_| refused)?,
            },
        }
    };
    if let Some(plain) = overtaken {
        path.happened(Event::Unanswered);
        return Ok(Reached::Open(plain));
    }
    match cookies::cookie(stream.local_addr()?.ip(), to) {
        Ok(Some(_)) => path.granted(stream.local_addr()?.ip()),
        Ok(None) => path.happened(Event::NotGranted),
        // The kernel does not tell; the next connection will see.
        Err(_) => {}
    }
    Ok(Reached::Open(stream))
}
