//! `slow_start`: the congestion window was still growing.
//!
//! Nothing was lost yet, and the data in flight grows by a quarter or more per round trip (RFC 5681 §3.1): the sender waits
//! for acknowledgements because it does not know yet how much the path carries.
//!
//! Sources of the fixes: ip-route(8); Linux's `ip-sysctl`; Microsoft's reference of `netsh interface` (`icw`: 2 to 64
//! segments); illumos's `tcp_tunables.c` and `tcp_impl.h` (`_slow_start_initial`: by default as RFC 3390, at most 16;
//! Solaris 11.2 uses 10 and allows no more); FreeBSD's tcp(4).

use std::cmp::Ordering;

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, evidence::RFC_6928, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::SlowStart, avoidable: true, title: "slow start", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(context) if context.flight.is_growing).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let trips = evidence.round_trips(evidence.total);
    let initial = match evidence.situation.initial_window {
        Some(segments) => {
            let allowed = match segments.cmp(&RFC_6928) {
                Ordering::Less => "fewer than the 10 that RFC 6928 allows",
                Ordering::Equal => "which is what RFC 6928 allows",
                Ordering::Greater => "more than the 10 that RFC 6928 allows",
            };
            format!("congestion window of {}, {allowed},", plural(segments, "segment"))
        }
        None => "small congestion window".to_owned(),
    };
    format!(
        "The sender started with a {initial} and doubled it once per RTT ({}). That cost {}.",
        ms(evidence.rtt),
        plural(trips, "round trip")
    )
}

fn fixes(situation: &Situation) -> Vec<Fix> {
    let reuse = Fix::new(
        "client software",
        "reuse a connection that has already carried much data",
        "idle connections occupy the server",
    );
    let mut fixes = Vec::new();
    if situation.was_idle {
        fixes.push(Fix::on(
            System::Linux,
            Role::Sender,
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
            "a burst after a pause, on a path that may have changed",
        ));
    } else {
        fixes.push(reuse);
    }
    fixes.extend([
        Fix::on(
            System::Linux,
            Role::Sender,
            "ip route change default via GATEWAY initcwnd 40",
            "more than RFC 6928 allows: a burst of 40 segments, which a short queue may drop",
        ),
        Fix::on(
            System::Windows,
            Role::Sender,
            "netsh int tcp set supplemental template=internet icw=40",
            "more than RFC 6928 allows: a burst that a short queue may drop",
        ),
        Fix::on(
            System::FreeBsd,
            Role::Sender,
            "sysctl net.inet.tcp.initcwnd_segments=40",
            "more than RFC 6928 allows: a burst that a short queue may drop",
        ),
    ]);
    // By default it is that of RFC 3390; Solaris has 10 and allows no more.
    if situation.initial_window.is_none_or(|segments| segments < RFC_6928) {
        fixes.push(Fix::on(
            System::Solaris,
            Role::Sender,
            "on illumos: ipadm set-prop -p _slow_start_initial=10 tcp",
            "a burst that a short queue may drop",
        ));
    }
    fixes
}
