//! `connect_retry`: a SYN was lost or ignored, and its sender waited before it tried again.
//!
//! From each SYN to its retransmission (RFC 6298 §2.1: one second, then two, four, …).
//!
//! Sources of the fixes: Linux's `ip-sysctl` (`somaxconn`, 128 before 5.4); Apache's `mpm_common` and nginx's
//! `ngx_http_core_module` (both 511 by default); Microsoft's reference of `netsh interface` (`initialrto`, default 3000 ms);
//! Oracle's Solaris 11 Tunable Parameters Reference Manual (`_conn_req_max_q`, default 128) and illumos's
//! `tcp_tunables.c`.

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ConnectRetry, avoidable: true, title: "connection retries", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::SynRetry).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let unanswered =
        if evidence.count == 1 { "One SYN was".to_owned() } else { format!("{} SYNs were", evidence.count) };
    format!(
        "{unanswered} not answered, and the client waited {} in total before it retried. Either the packet was lost, or \
         the server's listen backlog was full, or a firewall dropped it.",
        ms(evidence.total)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::on(
            System::Linux,
            Role::Server,
            "nstat -az TcpExtListenDrops; sysctl -w net.core.somaxconn=4096",
            "more memory for pending connections; the default since Linux 5.4; the server must request the same backlog",
        ),
        Fix::new("Apache server", "ListenBacklog 4096", "more memory for pending connections; needs a restart"),
        Fix::new("nginx server", "listen 443 ssl backlog=4096;", "more memory for pending connections"),
        Fix::on(
            System::Windows,
            Role::Client,
            "netsh int tcp set global initialrto=1000",
            "retries sooner on all connections",
        ),
        Fix::on(
            System::Solaris,
            Role::Server,
            "ipadm set-prop -p _conn_req_max_q=1024 tcp",
            "more memory for pending connections",
        ),
        Fix::new(
            "client software",
            "try the next address after 250 ms (Happy Eyeballs, RFC 8305)",
            "opens and closes a few more connections",
        ),
    ]
}
