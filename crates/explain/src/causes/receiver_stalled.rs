//! `receiver_stalled`: the receiver's window was closed.
//!
//! The receiver offered less than a segment, because its program did not read what had come (RFC 9293 §3.8.6; less than
//! a segment is as good as nothing, §3.8.6.2.1), until it offered more.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ReceiverStalled, avoidable: true, title: "a receiver that did not read", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(data) = wait.end else { return None };
    data.closed
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The receiver closed its window: the program there did not read for {} in all, the longest time {}.",
        ms(evidence.total),
        ms(evidence.longest)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new("receiving software", "look at what it does in these times: disk, locks, a slower link behind it", ""),
        Fix::new(
            "Linux receiver",
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'",
            "a larger buffer only helps against short stalls, and takes memory",
        ),
    ]
}
