//! `tls`: the TLS handshake was waited for.
//!
//! From the end of the TCP handshake to the client's first record of application data (RFC 8446 §2): one round trip in
//! TLS 1.3, two in TLS 1.2, and what both ends compute.
//!
//! Fixes: Apache's `mod_ssl`, which keeps no sessions unless told; nginx's `ngx_http_ssl_module`, nor does it.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Tls, avoidable: true, title: "the TLS handshake", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    match wait.end {
        WaitEnd::Tls { over: false, .. } => Some((wait.from, wait.to)),
        WaitEnd::Tls { over: true, travel } => Some((wait.from, wait.busy_until + travel)),
        _ => None,
    }
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The TLS handshake took {}, about {} of {}.",
        ms(evidence.total),
        plural(evidence.round_trips(evidence.total), "round trip"),
        ms(evidence.rtt)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "nginx server",
            "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:10m;",
            "a session can be resumed for as long as it is kept",
        ),
        Fix::new(
            "Apache server",
            "SSLProtocol -all +TLSv1.2 +TLSv1.3; SSLSessionCache shmcb:/run/tls(512000)",
            "a session can be resumed for as long as it is kept; mod_socache_shmcb must be loaded",
        ),
        Fix::new(
            "client software",
            "keep connections alive; resume sessions",
            "an idle connection occupies the server",
        ),
    ]
}
