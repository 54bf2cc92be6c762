//! TCP Fast Open (RFC 7413), made safe: the first request, or the ClientHello, in the SYN.
//!
//! A server grants a cookie on one connection, and accepts data in the SYN of later ones that present it; this saves a
//! round trip on each of them. It is little used because some paths do not support it: middleboxes drop a SYN with an
//! unknown option or with data, or lose track of a connection that begins so. The kernel then waits a second or more,
//! and retries without, on every connection; and it does nothing about a connection that goes silent *after* its
//! handshake. So here
//!
//! - the history of each path is kept (`path_history`: no sockets, no clocks);
//! - a SYN with data or with the option has a bounded time for its SYN-ACK; then a plain one follows on another socket,
//!   and the first to respond becomes the connection (`race` decides, `stream` drives). So an unsupported path costs
//!   that wait once, and never a failure: attempts in parallel share it;
//! - data in a SYN may arrive twice, so it is limited to what may: a safe request, or a ClientHello. RFC 7413 asks for
//!   idempotence, which is not enough if the caller sees the second response: a repeated `DELETE` gets a 404, a
//!   repeated conditional `PUT` a 412, and nobody could tell why;
//! - a cookie lets a server recognise us. `network` tells networks apart, so that a cookie from one network is never
//!   presented in another.
//!
//! Fast Open is not used to reach a proxy: connections to it are few and long-lived.

mod cookies;
mod kernel;
mod netlink;
mod network;
mod path_history;
mod paths;
mod race;
mod stream;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpStream, time::sleep_until};

pub use self::{
    cookies::{Remembered, remembered},
    kernel::listen_fast_open,
    path_history::{PathHistory, State},
    paths::{PathId, Paths, Tally},
};
use self::{
    kernel::{Begun, begin},
    path_history::{Event, Plan},
    paths::PathHandle,
    stream::FastStream,
};
use crate::{error::Cause, happy_eyeballs, io::Io, resolve::combined_error, tcp::Tcp};

/// When to use TCP Fast Open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FastOpen {
    /// Never, and without requesting cookies.
    #[default]
    Off,
    /// Where it works, also with cookies that the kernel holds from other programs or other networks.
    On,
    /// Where it works, and only with cookies granted in the current network.
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
    let network = paths.enter_network(private);
    let path = |server| PathHandle { paths: paths.clone(), id: PathId { network, server }, private, declined: false };
    let defer = |stream, path: PathHandle| -> Box<dyn Io> {
        path.count(|tally| tally.tried += 1);
        Box::new(FastStream::new(stream, path, addresses.clone(), tcp.clone()))
    };
    // A path that accepts data needs no race of addresses.
    for &to in &addresses {
        let path = path(to);
        if let Plan::Data { .. } = path.plan() {
            match begin(tcp.socket(to)?, to) {
                Ok(Begun::Deferred(stream)) if path.may_show(&stream) => {
                    return Ok((to, defer(stream, path), Duration::ZERO));
                }
                Ok(_) => path.record(Event::Forgotten),
                // The attempts below report the error.
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
        happy_eyeballs::run(addresses.clone(), reach).await.map_err(|failures| combined_error(&failures))?;
    match reached {
        Reached::Open(stream) => {
            path(to).round_trip(took);
            Ok((to, Box::new(stream), took))
        }
        Reached::Deferred(stream) => Ok((to, defer(stream, path(to)), Duration::ZERO)),
    }
}

/// Connects with a SYN that requests a cookie; if that is not answered in time, with a plain one as well.
async fn ask(to: SocketAddr, tcp: &Tcp, path: &PathHandle) -> io::Result<Reached> {
    let mut begun = begin(tcp.socket(to)?, to)?;
    if let Begun::Deferred(stream) = &begun
        && path.private
    {
        // The cookie comes from another network, or from another program.
        let ours = stream.local_addr()?.ip();
        if cookies::forget(ours, to).is_err() {
            return tcp.connect(to).await.map(Reached::Open);
        }
        begun = begin(tcp.socket(to)?, to)?;
    }
    let stream = match begun {
        Begun::Deferred(stream) => {
            path.record(Event::Granted);
            return Ok(Reached::Deferred(stream));
        }
        Begun::Asking(stream) => stream,
    };
    path.count(|tally| tally.asked += 1);
    let plain = {
        let asking = async {
            stream.writable().await?;
            stream.take_error()?.map_or(Ok(()), Err)
        };
        let plain = async {
            sleep_until(path.deadline()).await;
            tcp.connect(to).await
        };
        tokio::pin!(asking, plain);
        tokio::select! {
            asked = &mut asking => match asked {
                Ok(()) => None,
                // Refused, perhaps because of the option.
                Err(refused) => Some(tcp.connect(to).await.map_err(|_| refused)?),
            },
            plain = &mut plain => match plain {
                Ok(stream) => Some(stream),
                Err(refused) => asking.await.map(|()| None).map_err(|_| refused)?,
            },
        }
    };
    if let Some(plain) = plain {
        path.record(Event::Unanswered);
        return Ok(Reached::Open(plain));
    }
    match cookies::cookie(stream.local_addr()?.ip(), to) {
        Ok(Some(_)) => path.granted(stream.local_addr()?.ip()),
        Ok(None) => path.record(Event::NotGranted),
        // The kernel does not say; the next connection shows it.
        Err(_) => path.end_trial(),
    }
    Ok(Reached::Open(stream))
}
