//! `path_rate`: the narrowest link was busy with the transfer's own bytes.
//!
//! Each packet occupies the narrowest link for its length divided by the link's rate; the rate is inferred from how
//! packets that were sent together come apart on the way (packet-train dispersion; Dovrolis et al., INFOCOM 2001). A
//! wait for an acknowledgement belongs here too while as much is outstanding as the path carries in a round trip: then
//! the link, not the window, sets the pace.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, rate_text};

pub(super) const RULE: Rule =
    Rule { cause: Cause::PathRate, avoidable: false, title: "the path was busy with it", claim, why, fixes };

#[allow(clippy::unnecessary_wraps, reason = "the form of a claim")]
fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let full = matches!(wait.end, WaitEnd::Data(data) if data.full && data.recovers.is_none() && data.closed.is_none());
    Some((wait.from, if full { wait.to } else { wait.busy_until }))
}

fn why(evidence: &Evidence) -> String {
    let rate = evidence.facts.rate.map(|rate| format!(" of {}", rate_text(rate))).unwrap_or_default();
    format!("The path's narrowest link{rate} was busy with this transfer for {}.", ms(evidence.total))
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![Fix::new(
        "both ends",
        "send fewer bytes: compress, send differences; or a faster link",
        "compression costs time at both ends",
    )]
}
