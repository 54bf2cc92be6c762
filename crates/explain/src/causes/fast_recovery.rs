//! `fast_recovery`: the sender was repairing losses that acknowledgements reported.
//!
//! Retransmissions that follow duplicate or selective acknowledgements (RFC 5681 §3.2, RFC 6675), and the sender's waits
//! until everything that was in flight at the loss is acknowledged.
//!
//! Sources of the fixes: Linux's `ip-sysctl`; Microsoft's reference of `netsh interface` (`congestionprovider`,
//! `loopbacklargemtu`). The first release with BBR2, and that it stalls loopback, are known from users' reports only.

use super::{Cause, Evidence, Fix, RetransmitTrigger, Role, Rule, Situation, System, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::FastRecovery, avoidable: true, title: "fast recovery", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let recovers = match wait.end {
        WaitEnd::Retransmission(trigger) => trigger == RetransmitTrigger::Acks,
        WaitEnd::Data(context) => context.recovery == Some(RetransmitTrigger::Acks),
        _ => false,
    };
    recovers.then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    if let Some(count) = evidence.situation.needless_retransmissions {
        return format!(
            "Packets overtook each other, and the sender took those that were late for lost: it retransmitted {}, of which \
             the receiver had most already (duplicate SACKs). Recovery held it back for {} in total.",
            plural(count, "packet"),
            ms(evidence.total)
        );
    }
    format!(
        "Packets were lost. The sender noticed from duplicate or selective ACKs, and recovery held it back for {} in \
         total.{}",
        ms(evidence.total),
        evidence.situation.loss_response()
    )
}

fn fixes(situation: &Situation) -> Vec<Fix> {
    if situation.needless_retransmissions.is_some() {
        return vec![Fix::new(
            "the path",
            "find what reorders packets: load balancing by packet instead of flow, bonded links (balance-rr), parallel tunnels",
            "",
        )];
    }
    let mut fixes = Vec::new();
    if !situation.ignores_losses {
        fixes.extend([
            Fix::bbr(),
            Fix::on(
                System::Windows,
                Role::Sender,
                "netsh int tcp set supplemental template=internet congestionprovider=bbr2",
                "Windows 11 22H2 or newer; loopback connections may stall unless: netsh int ipv4 set global \
                 loopbacklargemtu=disabled",
            ),
        ]);
    }
    fixes.push(Fix::lossy_hop());
    if !situation.has_sack {
        fixes.push(Fix::on(System::Linux, Role::Both, "enable SACK: sysctl -w net.ipv4.tcp_sack=1", ""));
    }
    fixes
}
