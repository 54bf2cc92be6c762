//! `slow_start`: the congestion window was still opening.
//!
//! Nothing was lost yet, and what is outstanding grows by a quarter or more in each round trip (RFC 5681 §3.1): the
//! sender waits for acknowledgements because it does not know yet how much the path carries.
//!
//! Fixes: ip-route(8); Linux' `ip-sysctl`; Microsoft's reference of `netsh interface` (`icw`: 2 to 64 segments);
//! illumos' `tcp_tunables.c` and `tcp_impl.h` (`_slow_start_initial`: RFC 3390's unless told, 16 at most; Solaris
//! 11.2 has 10 by itself and allows no more).

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::SlowStart, avoidable: true, title: "a window that was still opening", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(data) if data.grows).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let trips = evidence.round_trips(evidence.total);
    let small = match evidence.initial_window {
        Some(segments) => format!("congestion window of {}, where RFC 6928 allows 10,", plural(segments, "segment")),
        None => "small congestion window".to_owned(),
    };
    format!(
        "The sender began with a {small} and doubled it once in each round trip of {}: {} {} spent waiting for that.",
        ms(evidence.rtt),
        plural(trips, "round trip"),
        if trips == 1 { "was" } else { "were" }
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "client software",
            "use a connection again that has carried much already",
            "an idle connection occupies the server",
        ),
        Fix::new(
            "Linux sender",
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
            "a burst after a pause, on a path that may have changed",
        ),
        Fix::new(
            "Linux sender",
            "ip route change default via GATEWAY initcwnd 40",
            "a burst of 40 segments into a queue that may be short",
        ),
        Fix::new(
            "Windows sender",
            "netsh int tcp set supplemental template=internet icw=40",
            "a burst into a queue that may be short",
        ),
        Fix::new(
            "illumos sender",
            "ipadm set-prop -p _slow_start_initial=10 tcp",
            "a burst into a queue that may be short",
        ),
    ]
}
