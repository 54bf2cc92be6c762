//! `propagation`: packets were on the path.
//!
//! A request that travels to the server, its response that comes back, and the arrival of the last byte. No setting removes
//! this time, only fewer round trips or a shorter path. A sender's wait for an acknowledgement counts too, where too little
//! of the connection was captured to say which window was full.

use super::{Cause, Evidence, Fix, Rule, Situation, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Propagation, avoidable: false, title: "round trips", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    match wait.end {
        // After the time that the bottleneck was busy.
        WaitEnd::Turn { travel, .. } => Some((wait.from, wait.busy_until.clamp(wait.from, wait.to) + travel)),
        WaitEnd::Arrival | WaitEnd::Data(_) => Some((wait.from, wait.to)),
        _ => None,
    }
}

fn why(evidence: &Evidence) -> String {
    format!("Packets were on the path; one round trip takes {}.", ms(evidence.rtt))
}

fn fixes(_: &Situation) -> Vec<Fix> {
    Vec::new()
}
