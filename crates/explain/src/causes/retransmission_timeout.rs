//! `retransmission_timeout`: the sender received no acknowledgements, and waited for its timer before it retransmitted.
//!
//! From the last packet to the retransmission after a silence: the RTO of RFC 6298, or a tail loss probe (RFC 8985 §7). The
//! sender's waits until all losses are repaired belong here too: after a timeout it starts again with a window of one
//! segment (RFC 5681 §3.1).
//!
//! Sources of the fixes: ip-route(8); Linux's `ip-sysctl`; Microsoft's reference of `netsh interface` (`minrto`: 20 to
//! 300 ms, more than `delayedacktimeout`; `rack` and `taillossprobe`, best together); illumos's `tcp_tunables.c`
//! (`_rexmit_interval_min`: default 400 ms), which Oracle's manual mentions under "Additional Cautions". Of the least
//! timeouts: `TCP_RTO_MIN` in Linux's `tcp.h`; FreeBSD's tcp(4) (`rexmit_min`).

use super::{Cause, Evidence, Fix, RetransmitTrigger, Role, Rule, Situation, System, Timer, Wait, WaitEnd, ms};

pub(super) const RULE: Rule = Rule {
    cause: Cause::RetransmissionTimeout,
    avoidable: true,
    title: "retransmission timeouts",
    switch: None,
    claim,
    why,
    fixes,
};

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
    let Situation { sender, systems, timer, .. } = evidence.situation;
    let (total, longest) = (ms(evidence.total), ms(evidence.longest));
    let (what, when) = match (timer, systems[sender]) {
        (Timer::Rto, _) => (
            "its retransmission timer",
            "This happens when the last packets of a message are lost, or very many at once.",
        ),
        (Timer::Either, _) => (
            "its retransmission timer or a tail loss probe",
            "At this RTT, both take about as long (RFC 8985 §7; Linux: at least 200 ms more than an RTT). This happens when \
             the last packets of a message are lost.",
        ),
        (Timer::Probe, Some(System::FreeBsd)) => (
            "its retransmission timer",
            "On FreeBSD, that is at least 30 ms. This happens when the last packets of a message are lost.",
        ),
        (Timer::Probe, Some(System::Linux | System::Windows)) => (
            "a tail loss probe",
            "A probe is sent about two RTTs after the last packet (RFC 8985 §7), long before a retransmission timer would \
             fire. This happens when the last packets of a message are lost.",
        ),
        (Timer::Probe, _) => (
            "a timer",
            "That is less than most retransmission timers take (RFC 6298: 1 s; Linux: 200 ms): it was a tail loss probe \
             (RFC 8985 §7), which is sent about two RTTs after the last packet, or a system with a shorter timer.",
        ),
        (Timer::Reordering, _) => (
            "a timer",
            "No retransmission timer, and no tail loss probe, fires that soon: the sender waited a moment for packets that \
             might only have been reordered (RACK, RFC 8985 §6.2), or retransmitted without need.",
        ),
    };
    if let Some(bytes) = evidence.situation.too_large {
        return format!(
            "No packet of {bytes} bytes arrived, although smaller ones did; the sender repeated them by its timer: {total} in \
             total, at most {longest} at a time. A link on the path carries less, and the ICMP messages that say so are \
             dropped (a path MTU black hole, RFC 2923)."
        );
    }
    let unreported = if timer == Timer::Reordering { "" } else { ", and no ACK reported it" };
    format!(
        "Packets were lost{unreported}. The sender waited for {what}: {total} in total, at most {longest} at a \
         time. {when}"
    )
}

fn fixes(situation: &Situation) -> Vec<Fix> {
    if situation.too_large.is_some() {
        return vec![
            Fix::new(
                "router or VPN gateway in front of the link",
                "let ICMP “fragmentation needed” and “packet too big” pass, or clamp the MSS: iptables -t mangle -A FORWARD -p tcp \
                 --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
                "",
            ),
            Fix::on(
                System::Linux,
                Role::Sender,
                "sysctl -w net.ipv4.tcp_mtu_probing=1",
                "it waits for several timeouts before it tries smaller packets",
            ),
        ];
    }
    let mut fixes = Vec::new();
    // Who sends probes has them on, and never waited for the timer.
    if situation.timer == Timer::Rto {
        fixes.extend([
            Fix::on(
                System::Linux,
                Role::Sender,
                "ip route change default via GATEWAY rto_min 50ms",
                "spurious retransmissions if a receiver delays ACKs for longer",
            ),
            Fix::on(
                System::Linux,
                Role::Sender,
                "sysctl -w net.ipv4.tcp_recovery=1 net.ipv4.tcp_early_retrans=3 net.ipv4.tcp_sack=1",
                "tail loss probes and RACK are on by default: only if somebody disabled them",
            ),
            Fix::on(
                System::Windows,
                Role::Sender,
                "netsh int tcp set supplemental template=internet rack=enabled taillossprobe=enabled",
                "",
            ),
            Fix::on(
                System::Windows,
                Role::Sender,
                "netsh int tcp set supplemental template=internet minrto=100",
                "spurious retransmissions if a receiver delays ACKs for longer",
            ),
            Fix::on(
                System::Solaris,
                Role::Sender,
                "ipadm set-prop -p _rexmit_interval_min=200 tcp",
                "spurious retransmissions on a path with variable delay",
            ),
        ]);
    }
    fixes.push(Fix::lossy_hop());
    fixes
}
