//! `connect`: the TCP handshake.
//!
//! From the SYN that was answered to the client's acknowledgement (RFC 9293 §3.5): one round trip, before any data.
//!
//! Sources of the fixes: Apache's `core` (default 5 s) and nginx's `ngx_http_core_module` (default 75 s); Linux's
//! `ip-sysctl`.

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Connect, avoidable: true, title: "TCP handshakes", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Connect).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The client opened a new connection for this transfer. The TCP handshake took {}: {} of {}.",
        ms(evidence.total),
        plural(evidence.round_trips(evidence.total), "round trip"),
        ms(evidence.rtt)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new("client software", "reuse persistent connections", "idle connections occupy the server"),
        Fix::new(
            "Apache server",
            "KeepAlive On; KeepAliveTimeout 60",
            "idle connections occupy workers; use the event MPM",
        ),
        Fix::new("nginx server", "keepalive_timeout 300s;", "idle connections occupy memory"),
        Fix::on(
            System::Linux,
            Role::Both,
            "sysctl -w net.ipv4.tcp_fastopen=3",
            "both programs must request it (TCP_FASTOPEN); the request must be idempotent; some middleboxes drop it",
        ),
    ]
}
