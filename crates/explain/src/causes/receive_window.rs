//! `receive_window`: the receive window was full.
//!
//! Less than a segment was left of the window (RFC 9293 §3.8.6.2.1) until an acknowledgement moved it on. Throughput cannot
//! exceed one window per round trip.
//!
//! Sources of the fixes: Linux's `ip-sysctl`; Oracle's Solaris 11.2 Tunable Parameters Reference Manual (`max_buf`,
//! `recv_buf`: default 128,000 bytes) and illumos's ipadm(8); Microsoft's reference of `netsh interface`
//! (`autotuninglevel`); xnu's `tcp_input.c` (`autorcvbufmax`); FreeBSD's tcp(4).

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, bytes, ms, rate_text};

pub(super) const RULE: Rule = Rule {
    cause: Cause::ReceiveWindow,
    avoidable: true,
    title: "receive window full",
    switch: None,
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(context) if context.receive_window.is_limiting).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The receiver's window never exceeded {}, and the sender waited whenever it was full. One window per RTT ({}) \
         limits the rate to {}.",
        bytes(evidence.window),
        ms(evidence.rtt),
        rate_text(evidence.window as f64 * 8e9 / evidence.rtt.max(1) as f64)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::on(
            System::Linux,
            Role::Receiver,
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'; programs must not set SO_RCVBUF",
            "more memory per connection, as needed",
        ),
        Fix::on(
            System::Windows,
            Role::Receiver,
            "netsh int tcp set global autotuninglevel=normal",
            "old firewalls without window scaling stall connections",
        ),
        Fix::on(
            System::Solaris,
            Role::Receiver,
            "ipadm set-prop -p max_buf=16777216 tcp; ipadm set-prop -p recv_buf=1048576 tcp",
            "memory per connection",
        ),
        Fix::on(
            System::Apple,
            Role::Receiver,
            "sysctl -w net.inet.tcp.autorcvbufmax=16777216",
            "more memory per connection, as needed",
        ),
        Fix::on(
            System::FreeBsd,
            Role::Receiver,
            "sysctl net.inet.tcp.recvbuf_max=16777216",
            "more memory per connection, as needed",
        ),
    ]
}
