//! `receive_window`: as much was outstanding as the receiver's window allowed.
//!
//! What was left of the window was less than a segment (RFC 9293 §3.8.6.2.1), until an acknowledgement moved it on. A
//! window is good for one window in each round trip.
//!
//! Fixes: Linux' `ip-sysctl`; Oracle's Solaris 11.2 Tunable Parameters Reference Manual (`max_buf`, `recv_buf`:
//! 128,000 bytes unless told) and illumos' ipadm(8); Microsoft's reference of `netsh interface` (`autotuninglevel`);
//! xnu's `tcp_input.c` (`autorcvbufmax`).

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, bytes, ms, rate_text};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ReceiveWindow, avoidable: true, title: "the receiver's small window", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(data) if data.window).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The receiver offers a window of {} at most, and the sender waits when it is full: no more than that in a round \
         trip of {} is {}.",
        bytes(evidence.window),
        ms(evidence.rtt),
        rate_text(evidence.window as f64 * 8e9 / evidence.rtt.max(1) as f64)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Linux receiver",
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'; let programs set no SO_RCVBUF",
            "more memory for each connection that needs it",
        ),
        Fix::new(
            "Windows receiver",
            "netsh int tcp set global autotuninglevel=normal",
            "old firewalls that do not know window scaling stall",
        ),
        Fix::new(
            "Solaris/illumos receiver",
            "ipadm set-prop -p max_buf=16777216 tcp; ipadm set-prop -p recv_buf=1048576 tcp",
            "memory for each connection",
        ),
        Fix::new(
            "macOS receiver",
            "sysctl -w net.inet.tcp.autorcvbufmax=16777216",
            "more memory for each connection that needs it",
        ),
    ]
}
