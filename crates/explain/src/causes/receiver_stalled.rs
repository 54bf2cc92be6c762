//! `receiver_stalled`: the receive window was closed.
//!
//! The receiver offered less than a segment, because its program did not read the data (RFC 9293 §3.8.6; a window smaller
//! than a segment counts as closed, §3.8.6.2.1), until it offered more.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ReceiverStalled, avoidable: true, title: "a receiver that did not read", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(context) = wait.end else { return None };
    context.receive_window.closed
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The receiver closed its window, because its program did not read for {} in total, at most {} at a time.",
        ms(evidence.total),
        ms(evidence.longest)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "receiving software",
            "find out what it does at these times: disk, locks, a slower downstream link",
            "",
        ),
        Fix::new(
            "Linux receiver",
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'",
            "a larger buffer only covers short stalls, and takes memory",
        ),
    ]
}
