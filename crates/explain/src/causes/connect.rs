//! `connect`: the TCP handshake was waited for.
//!
//! From the SYN that was answered to the client's acknowledgement (RFC 9293 §3.5): one round trip, before any data.
//!
//! Fixes: Apache's `core` (5 s unless told) and nginx's `ngx_http_core_module` (75 s); Linux' `ip-sysctl`.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Connect, avoidable: true, title: "opening the connection", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Connect).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "A new connection was opened for this transfer; its handshake took {}, about {} of {}.",
        ms(evidence.total),
        plural(evidence.round_trips(evidence.total), "round trip"),
        ms(evidence.rtt)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "client software",
            "keep connections alive and use them again",
            "an idle connection occupies the server",
        ),
        Fix::new(
            "Apache server",
            "KeepAlive On; KeepAliveTimeout 60",
            "idle connections occupy workers; use the event MPM",
        ),
        Fix::new("nginx server", "keepalive_timeout 300s;", "idle connections occupy memory"),
        Fix::new(
            "Linux, both ends",
            "sysctl -w net.ipv4.tcp_fastopen=3",
            "both programs must ask for it (TCP_FASTOPEN); the request must bear to be done twice; some middleboxes drop it",
        ),
    ]
}
