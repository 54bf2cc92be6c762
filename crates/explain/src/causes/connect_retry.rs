//! `connect_retry`: a SYN was lost or ignored, and its sender waited before it tried again.
//!
//! From each SYN to its repetition (RFC 6298 §2.1: one second, then two, four, …).
//!
//! Fixes: Linux' `ip-sysctl` (`somaxconn`, 128 before 5.4); Apache's `mpm_common` and nginx's `ngx_http_core_module`,
//! both 511 unless told; Microsoft's reference of `netsh interface` (`initialrto`, 3000 ms unless told); Oracle's
//! Solaris 11 Tunable Parameters Reference Manual (`_conn_req_max_q`, 128 unless told) and illumos' `tcp_tunables.c`.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ConnectRetry, avoidable: true, title: "a lost SYN", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::SynRetry).then_some((wait.from, wait.to))
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
            "more memory for connections that wait; the default since Linux 5.4, and the server must ask for as many",
        ),
        Fix::new("Apache server", "ListenBacklog 4096", "more memory for connections that wait; a restart is needed"),
        Fix::new("nginx server", "listen 443 ssl backlog=4096;", "more memory for connections that wait"),
        Fix::new("Windows client", "netsh int tcp set global initialrto=1000", "asks again sooner on all connections"),
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
