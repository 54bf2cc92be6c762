//! `slow_start`: the congestion window was still growing.
//!
//! Nothing was lost yet, and the data in flight grows by a quarter or more per round trip (RFC 5681 §3.1): the sender waits
//! for acknowledgements because it does not know yet how much the path carries.
//!
//! Sources of the fixes: ip-route(8); Linux's `ip-sysctl`; Microsoft's reference of `netsh interface` (`icw`: 2 to 64
//! segments); illumos's `tcp_tunables.c` and `tcp_impl.h` (`_slow_start_initial`: by default as RFC 3390, at most 16;
//! Solaris 11.2 uses 10 and allows no more).

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule = Rule { cause: Cause::SlowStart, avoidable: true, title: "slow start", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(context) if context.flight.is_growing).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let trips = evidence.round_trips(evidence.total);
    let initial = match evidence.initial_window {
        Some(segments) => {
            format!("congestion window of {} (RFC 6928 allows 10)", plural(segments, "segment"))
        }
        None => "small congestion window".to_owned(),
    };
    format!(
        "The sender started with a {initial} and doubled it once per RTT ({}). That cost {}.",
        ms(evidence.rtt),
        plural(trips, "round trip")
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "client software",
            "reuse a connection that has already carried much data",
            "idle connections occupy the server",
        ),
        Fix::new(
            "Linux sender",
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
            "a burst after a pause, on a path that may have changed",
        ),
        Fix::new(
            "Linux sender",
            "ip route change default via GATEWAY initcwnd 40",
            "a burst of 40 segments, which a short queue may drop",
        ),
        Fix::new(
            "Windows sender",
            "netsh int tcp set supplemental template=internet icw=40",
            "a burst that a short queue may drop",
        ),
        Fix::new(
            "illumos sender",
            "ipadm set-prop -p _slow_start_initial=10 tcp",
            "a burst that a short queue may drop",
        ),
    ]
}
