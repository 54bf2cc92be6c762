//! `receiver_stalled`: the receive window was closed.
//!
//! The receiver offered less than a segment, because its program did not read the data (RFC 9293 §3.8.6; a window smaller
//! than a segment counts as closed, §3.8.6.2.1), until it offered more. A program that reads slowly keeps it small: the
//! window was full, and less than half of what it had been.

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, ms};

pub(super) const RULE: Rule = Rule {
    cause: Cause::ReceiverStalled,
    avoidable: true,
    title: "receiver not reading",
    switch: None,
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(context) = wait.end else { return None };
    let window = context.receive_window;
    window.closed.or_else(|| (window.is_limiting && window.is_shrunk).then_some((wait.from, wait.to)))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The receiver closed its window or made it small, because its program did not read: {} in total, at most {} at a \
         time.",
        ms(evidence.total),
        ms(evidence.longest)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "receiving software",
            "find out what it does at these times: disk, locks, a slower downstream link",
            "",
        ),
        Fix::on(
            System::Linux,
            Role::Receiver,
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'",
            "a larger buffer only covers short stalls, and takes memory",
        ),
    ]
}
