//! `retransmission_timeout`: the sender heard nothing, and waited for its timer before it sent again.
//!
//! From the last packet to the one that is sent again after a silence: the RTO of RFC 6298, or a tail loss probe (RFC
//! 8985 §7). What the sender may send until all that was lost is repaired belongs here too: it begins anew with a
//! window of one segment (RFC 5681 §3.1).
//!
//! Fixes: ip-route(8); Linux' `ip-sysctl`; Microsoft's reference of `netsh interface` (`minrto`: 20 to 300 ms, more
//! than `delayedacktimeout`; `rack` and `taillossprobe`, best together); illumos' `tcp_tunables.c`
//! (`_rexmit_interval_min`: 400 ms unless told), which Oracle's manual names too, under "Additional Cautions".

use super::{Cause, Chunk, Evidence, Fix, RetransmitTrigger, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule = Rule {
    cause: Cause::RetransmissionTimeout,
    avoidable: true,
    title: "waiting for the retransmission timer",
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let timer = match wait.end {
        WaitEnd::Retransmission(by) => by == RetransmitTrigger::Timer,
        WaitEnd::Data(data) => data.recovers == Some(RetransmitTrigger::Timer),
        _ => false,
    };
    timer.then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "Packets were lost and nothing told the sender so: it waited for its retransmission timer, {} in all, the \
         longest time {}. That happens when the last packets of a message are lost, or very many.",
        ms(evidence.total),
        ms(evidence.longest)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Linux sender",
            "sysctl -w net.ipv4.tcp_recovery=1 net.ipv4.tcp_early_retrans=3 net.ipv4.tcp_sack=1",
            "tail loss probes and RACK; they are the defaults",
        ),
        Fix::new(
            "Linux sender",
            "ip route change default via GATEWAY rto_min 50ms",
            "needless repetitions where a receiver defers acknowledgements for longer",
        ),
        Fix::new(
            "Windows sender",
            "netsh int tcp set supplemental template=internet rack=enabled taillossprobe=enabled",
            "",
        ),
        Fix::new(
            "Windows sender",
            "netsh int tcp set supplemental template=internet minrto=100",
            "needless repetitions where acknowledgements are deferred for longer",
        ),
        Fix::new(
            "Solaris/illumos sender",
            "ipadm set-prop -p _rexmit_interval_min=200 tcp",
            "needless repetitions on a path that varies",
        ),
        Fix::new("the path", "find where packets are lost: mtr, ethtool -S, the router's drop counters", ""),
    ]
}
