//! `tls`: the TLS handshake.
//!
//! From the end of the TCP handshake to the client's first record of application data (RFC 8446 §2): one round trip in
//! TLS 1.3, two in TLS 1.2, and the computation at both ends.
//!
//! Sources of the fixes: Apache's `mod_ssl` and nginx's `ngx_http_ssl_module`, which keep no sessions by default.

use super::{Cause, Evidence, Fix, Rule, Situation, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Tls, avoidable: true, title: "TLS handshakes", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    match wait.end {
        WaitEnd::Tls { over: false, .. } => Some((wait.from, wait.to)),
        WaitEnd::Tls { over: true, travel } => Some((wait.from, wait.busy_until + travel)),
        _ => None,
    }
}

fn why(evidence: &Evidence) -> String {
    // More than the round trips of the protocol is computation, at either end.
    format!(
        "The TLS handshake took {}. A round trip takes {}; a full handshake needs one in TLS 1.3, and two in TLS 1.2.",
        ms(evidence.total),
        ms(evidence.rtt)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "nginx server",
            "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:10m;",
            "sessions can be resumed for as long as they are cached",
        ),
        Fix::new(
            "Apache server",
            "SSLProtocol -all +TLSv1.2 +TLSv1.3; SSLSessionCache shmcb:/run/tls(512000)",
            "sessions can be resumed for as long as they are cached; mod_socache_shmcb must be loaded",
        ),
        Fix::new(
            "client software",
            "reuse persistent connections; resume TLS sessions",
            "idle connections occupy the server",
        ),
    ]
}
