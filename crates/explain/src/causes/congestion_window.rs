//! `congestion_window`: the congestion window was full.
//!
//! The sender had data, the receive window had room, and an acknowledgement released the next segment: the sender's own
//! window was full (RFC 5681 §3.1), because of an earlier loss, or because it grows slowly on a long path.
//!
//! Sources of the fixes: Linux's `ip-sysctl`; Microsoft's reference of `netsh interface` (`congestionprovider`); illumos's
//! ipadm(8); Oracle's Administering TCP/IP Networks in Solaris 11.3, "Implementing Traffic Congestion Control".

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, bytes, ms};

pub(super) const RULE: Rule = Rule {
    cause: Cause::CongestionWindow,
    avoidable: true,
    title: "congestion window full",
    switch: None,
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(context) if context.flight.is_known).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let after_loss = if evidence.has_loss { "After packet loss, the" } else { "The" };
    format!(
        "{after_loss} sender's congestion window stayed at or below {}, which is less than the path carries in one RTT \
         ({}). The sender spent {} waiting for acknowledgements.{}",
        bytes(evidence.max_in_flight),
        ms(evidence.rtt),
        ms(evidence.total),
        evidence.situation.loss_response()
    )
}

fn fixes(situation: &Situation) -> Vec<Fix> {
    if situation.ignores_losses {
        return vec![Fix::lossy_hop()];
    }
    vec![
        Fix::bbr(),
        Fix::on(
            System::Windows,
            Role::Sender,
            "netsh int tcp set supplemental template=internet congestionprovider=cubic",
            "",
        ),
        Fix::on(
            System::Solaris,
            Role::Sender,
            "ipadm set-prop -p congestion_control=cubic tcp; on Solaris 11: ipadm set-prop -p cong_enabled+=cubic tcp; \
             ipadm set-prop -p cong_default=cubic tcp",
            "",
        ),
        Fix::lossy_hop(),
    ]
}
