//! Probes TCP Fast Open: the server's and the network path's support for data in a SYN.
//!
//! It takes three connections at most. The first asks for a cookie with the option of RFC 7413 (kind 34); where none
//! comes, the second asks with the experimental one (kind 254), as Linux has it. The last one has something to say in
//! its SYN: the TLS handshake's first message, or a request that changes nothing. All of them are bounded as any
//! other connection, and what goes wrong is overtaken by a plain one, so that the probe tells it and goes on.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use haul_http::Origin;
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use transport::{
    ConnectSettings, Connected, Connector, FastOpen, Offer,
    fast_open::{Remembered, State, Tally, remembered},
};

use super::origin;
use crate::files::session::Session;

/// What was found. What is null is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct InSyn {
    /// How the cookie was got: by option `34`, by option `254`, `granted` by one of them, or `held` by the kernel before.
    pub(super) cookie: Option<&'static str>,
    /// Whether the SYN's data was acknowledged with it.
    pub(super) data_accepted: Option<bool>,
    /// Whether the answer left before the handshake's end: it came about a round trip sooner.
    pub(super) early_reply: Option<bool>,
    /// How much sooner it came than on a plain connection.
    pub(super) saved_ms: Option<f64>,
    /// What goes wrong.
    pub(super) breaks: Option<&'static str>,
}

/// Finds it out at the server's address; `None` where it could not be.
pub(super) async fn measure(session: &Session, server: SocketAddr) -> Option<InSyn> {
    let settings = &session.settings.client;
    let (origin, within) = (origin(session), settings.timeouts.connect);
    let connector = Connector::new(ConnectSettings { fast_open: FastOpen::On, ..settings.connect.clone() }).ok()?;
    let mut early = InSyn::default();
    let mut plain = None;
    let before = our_address(server).and_then(|ours| remembered(ours, server).ok());
    for kind in ["34", "254"] {
        let (took, _) = answered(&connector, origin, within).await?;
        match state(&connector) {
            // It was there before we asked, so it has been used already.
            _ if connector.paths().tally().tried > 0 => {
                early.cookie = Some("held");
                break;
            }
            State::Granted => {
                (plain, early.cookie) = (Some(took), Some(granted(kind, before)));
                break;
            }
            State::Unknown => {}
            _ => break,
        }
    }
    if early.cookie.is_some() {
        let (took, connected) = answered(&connector, origin, within).await?;
        let info = connected.io.tcp_info();
        early.data_accepted = info.map(|info| info.syn_data_accepted);
        early.saved_ms = plain.map(|plain| (plain.as_secs_f64() - took.as_secs_f64()) * 1000.0);
        let rtt = info.map(|info| info.min_rtt.unwrap_or(info.rtt).as_secs_f64() * 1000.0);
        early.early_reply =
            early.saved_ms.zip(rtt).map(|(saved, rtt)| early.data_accepted == Some(true) && saved > rtt / 2.0);
    }
    early.breaks = breaks(early, connector.paths().tally());
    Some(early)
}

/// Connects, and waits for the first answer: that of TLS, or that to a request. How long both took together.
async fn answered(connector: &Connector, origin: &Origin, within: Duration) -> Option<(Duration, Connected)> {
    let begin = Instant::now();
    let mut connected = connector.connect(origin, Offer::Http1, within).await.ok()?;
    let lookup = connected.facts.lookup;
    if connected.facts.tls.is_none() {
        connected.io.repeatable(true);
        let request =
            format!("OPTIONS * HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n\r\n", origin.host(), origin.port());
        let answer = async {
            connected.io.write_all(request.as_bytes()).await?;
            connected.io.read(&mut [0; 1]).await
        };
        timeout(within, answer).await.ok()?.ok()?;
    }
    Some((begin.elapsed().saturating_sub(lookup), connected))
}

/// How a cookie was got that the kernel holds after a request, the first of which would have the option of kind 34 if
/// the kernel remembered nothing `before`.
fn granted(kind: &'static str, before: Option<Remembered>) -> &'static str {
    match before {
        Some(Remembered::Nothing) => kind,
        Some(Remembered::Cookie) => "held",
        Some(Remembered::Asked) | None => "granted",
    }
}

/// Our address on the way to a server, without sending anything.
fn our_address(server: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr =
        if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|ours| ours.ip())
}

/// What the connector knows of the only way it went.
fn state(connector: &Connector) -> State {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    connector.paths().all().last().map(|(_, memory)| memory.state(now.as_secs_f64())).unwrap_or_default()
}

fn breaks(early: InSyn, tally: Tally) -> Option<&'static str> {
    Some(match (early.cookie, tally) {
        (None, Tally { unanswered: 1.., .. }) => "a SYN with a cookie request gets no answer",
        (None, _) => "no cookie: the server sends none, or a middlebox strips the option",
        (_, Tally { unanswered: 1.., .. }) => "a SYN with data gets no answer",
        (_, Tally { swallowed: 1.., .. }) => "a SYN with data is answered, but nothing follows",
        (_, Tally { ignored: 1.., .. }) => {
            "the data is not accepted: a middlebox strips it, NAT changes our address, or the servers do not share their \
             key"
        }
        _ => return None,
    })
}

/// For a person.
pub(super) fn text(early: Option<InSyn>) -> String {
    let Some(early) = early else { return "not tried".to_owned() };
    let cookie = match early.cookie {
        Some("held") => "cookie cached".to_owned(),
        Some("granted") => "cookie".to_owned(),
        Some(kind) => format!("cookie by option {kind}"),
        None => return format!("does not work: {}", early.breaks.unwrap_or_default()),
    };
    match (early.data_accepted, early.early_reply) {
        (Some(true), Some(true)) => {
            format!("works: {cookie}, response {:.1} ms earlier", early.saved_ms.unwrap_or_default())
        }
        (Some(true), _) => format!("works: {cookie}, data accepted in the SYN"),
        _ => format!("does not work: {cookie}, but {}", early.breaks.unwrap_or("the data is not accepted")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_probe_is_one_line() {
        let told = |cookie, accepted, tally: Tally| {
            let early = InSyn { cookie, data_accepted: accepted, ..InSyn::default() };
            text(Some(InSyn { breaks: breaks(early, tally), ..early }))
        };
        let unanswered = Tally { unanswered: 1, ..Tally::default() };
        assert!(told(None, None, Tally::default()).contains("no cookie:"));
        assert!(told(None, None, unanswered).contains("cookie request gets no answer"));
        assert!(
            told(Some("34"), Some(false), unanswered).ends_with("by option 34, but a SYN with data gets no answer")
        );
        assert!(told(Some("254"), Some(false), Tally { swallowed: 1, ..Tally::default() }).contains("nothing follows"));
        assert!(told(Some("34"), Some(false), Tally { ignored: 1, ..Tally::default() }).contains("share their key"));
        assert!(told(Some("34"), Some(true), Tally::default()).starts_with("works: cookie by option 34"));
        assert_eq!(text(None), "not tried");
    }
}
