//! `congestion_window`: as much was outstanding as the congestion window allowed.
//!
//! The sender had data, the receiver's window had room, and an acknowledgement let it go on: the window that it keeps
//! itself was full (RFC 5681 §3.1), because of an earlier loss, or since it grows slowly on a long path.
//!
//! Fixes: Linux' `ip-sysctl`; Microsoft's reference of `netsh interface` (`congestionprovider`); illumos' ipadm(8);
//! Oracle's Administering TCP/IP Networks in Solaris 11.3, "Implementing Traffic Congestion Control".

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, bytes, ms};

pub(super) const RULE: Rule = Rule {
    cause: Cause::CongestionWindow,
    avoidable: true,
    title: "the sender's congestion window",
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(data) if data.known).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let lost = if evidence.has_loss { "After losses the" } else { "The" };
    format!(
        "{lost} sender's congestion window allowed {} at most, less than the path carries in a round trip of {}: it \
         waited for acknowledgements for {} in all.",
        bytes(evidence.max_in_flight),
        ms(evidence.rtt),
        ms(evidence.total)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Linux sender",
            "sysctl -w net.core.default_qdisc=fq net.ipv4.tcp_congestion_control=bbr",
            "takes little notice of losses, and may crowd out others in a shallow queue",
        ),
        Fix::new("Windows sender", "netsh int tcp set supplemental template=internet congestionprovider=cubic", ""),
        Fix::new(
            "Solaris/illumos sender",
            "ipadm set-prop -p congestion_control=cubic tcp; on Solaris 11: ipadm set-prop -p cong_enabled+=cubic tcp; \
             ipadm set-prop -p cong_default=cubic tcp",
            "",
        ),
        Fix::new("the path", "find where packets are lost: mtr, ethtool -S, the router's drop counters", ""),
    ]
}
