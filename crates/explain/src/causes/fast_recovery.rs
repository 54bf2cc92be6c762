//! `fast_recovery`: lost packets were being repaired as acknowledgements told of them.
//!
//! Retransmissions that follow duplicate or selective acknowledgements (RFC 5681 §3.2, RFC 6675), and what the sender
//! waits for until everything that was outstanding at the loss is acknowledged.
//!
//! Fixes: Linux' `ip-sysctl`; Microsoft's reference of `netsh interface` (`congestionprovider`, `loopbacklargemtu`);
//! since which release there is BBR2, and that it stalls loopback, only users say.

use super::{Cause, Chunk, Evidence, Fix, RetransmitTrigger, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::FastRecovery, avoidable: true, title: "repairing losses", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let repairs = match wait.end {
        WaitEnd::Retransmission(by) => by == RetransmitTrigger::Acks,
        WaitEnd::Data(data) => data.recovers == Some(RetransmitTrigger::Acks),
        _ => false,
    };
    repairs.then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!("Packets were lost; until they were repaired the sender was held back, {} in all.", ms(evidence.total))
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Linux sender",
            "sysctl -w net.core.default_qdisc=fq net.ipv4.tcp_congestion_control=bbr",
            "takes little notice of losses, and may crowd out others in a shallow queue",
        ),
        Fix::new(
            "Windows sender",
            "netsh int tcp set supplemental template=internet congestionprovider=bbr2",
            "Windows 11 22H2 or newer; programs that talk over loopback may stall until: netsh int ipv4 set global \
             loopbacklargemtu=disabled",
        ),
        Fix::new("both ends", "allow selective acknowledgements: sysctl -w net.ipv4.tcp_sack=1", ""),
        Fix::new("the path", "find where packets are lost: mtr, ethtool -S, the router's drop counters", ""),
    ]
}
