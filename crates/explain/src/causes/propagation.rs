//! `propagation`: packets were on their way, at the speed of light and of routers.
//!
//! A request that travels to the server and its answer that comes back, and the last byte's arrival: no setting of the
//! connection removes them, only fewer turns or a shorter way. So is a round trip that a sender waited for an
//! acknowledgement, where too little of the connection was seen to say which window it waited for.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Propagation, avoidable: false, title: "the way itself", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    match wait.end {
        // Behind the time that the link was busy.
        WaitEnd::Turn { travel, .. } => Some((wait.from, wait.busy_until.clamp(wait.from, wait.to) + travel)),
        WaitEnd::Arrival | WaitEnd::Data(_) => Some((wait.from, wait.to)),
        _ => None,
    }
}

fn why(evidence: &Evidence) -> String {
    format!("Packets were on their way: a round trip takes {}.", ms(evidence.rtt))
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    Vec::new()
}
