//! `connect_retry`: a SYN was lost or ignored, and its sender waited before it tried again.
//!
//! From each SYN to its repetition (RFC 6298 §2.1: one second, then two, four, …).
//!
//! Fixes: Linux' `ip-sysctl`; Microsoft's reference of `Set-NetTCPSetting` (`InitialRtoMs`); Oracle's Solaris Tunable
//! Parameters Reference Manual (`_conn_req_max_q`).

use super::{Cause, Chunk, End, Evidence, Fix, Rule, Wait, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ConnectRetry, avoidable: true, title: "a lost SYN", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, End::SynAgain).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "{} not answered, and the client waited {} before trying again. The packet was lost, or the server's queue \
         of new connections was full, or a firewall dropped it.",
        if evidence.count == 1 { "A SYN was".to_owned() } else { format!("{} SYNs were", evidence.count) },
        ms(evidence.total)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Linux server",
            "nstat -az TcpExtListenDrops; sysctl -w net.core.somaxconn=4096",
            "more memory for connections that wait",
        ),
        Fix::new("Windows client", "netsh int tcp set global initialRto=1000", "asks again sooner on all connections"),
        Fix::new(
            "Solaris/illumos server",
            "ipadm set-prop -p _conn_req_max_q=1024 tcp",
            "more memory for connections that wait",
        ),
        Fix::new(
            "client software",
            "try the next address after 250 ms (RFC 8305)",
            "some more connections are opened and closed",
        ),
    ]
}
