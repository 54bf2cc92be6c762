//! `retransmission_timeout`: the sender received no acknowledgements, and waited for its timer before it retransmitted.
//!
//! From the last packet to the retransmission after a silence: the RTO of RFC 6298, or a tail loss probe (RFC 8985 §7). The
//! sender's waits until all losses are repaired belong here too: after a timeout it starts again with a window of one
//! segment (RFC 5681 §3.1).
//!
//! Sources of the fixes: ip-route(8); Linux's `ip-sysctl`; Microsoft's reference of `netsh interface` (`minrto`: 20 to
//! 300 ms, more than `delayedacktimeout`; `rack` and `taillossprobe`, best together); illumos's `tcp_tunables.c`
//! (`_rexmit_interval_min`: default 400 ms), which Oracle's manual mentions under "Additional Cautions".

use super::{Cause, Chunk, Evidence, Fix, RetransmitTrigger, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::RetransmissionTimeout, avoidable: true, title: "retransmission timeouts", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let timed_out = match wait.end {
        WaitEnd::Retransmission(trigger) => trigger == RetransmitTrigger::Timer,
        // What others' packets held up is no repair.
        WaitEnd::Data(context) => context.recovery == Some(RetransmitTrigger::Timer) && !wait.is_shared,
        _ => false,
    };
    timed_out.then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "Packets were lost, and no ACK reported it. The sender waited for its retransmission timer: {} in total, at most \
         {} at a time. This happens when the last packets of a message are lost, or very many at once.",
        ms(evidence.total),
        ms(evidence.longest)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Linux sender",
            "sysctl -w net.ipv4.tcp_recovery=1 net.ipv4.tcp_early_retrans=3 net.ipv4.tcp_sack=1",
            "enables tail loss probes and RACK, which are the defaults",
        ),
        Fix::new(
            "Linux sender",
            "ip route change default via GATEWAY rto_min 50ms",
            "spurious retransmissions if a receiver delays ACKs for longer",
        ),
        Fix::new(
            "Windows sender",
            "netsh int tcp set supplemental template=internet rack=enabled taillossprobe=enabled",
            "",
        ),
        Fix::new(
            "Windows sender",
            "netsh int tcp set supplemental template=internet minrto=100",
            "spurious retransmissions if a receiver delays ACKs for longer",
        ),
        Fix::new(
            "Solaris/illumos sender",
            "ipadm set-prop -p _rexmit_interval_min=200 tcp",
            "spurious retransmissions on a path with variable delay",
        ),
        Fix::new("the path", "find the hop that drops packets: mtr, ethtool -S, the router's drop counters", ""),
    ]
}
