//! `path_rate`: the bottleneck was busy with the transfer's own bytes.
//!
//! Each packet occupies the bottleneck for its length divided by the bottleneck's rate. The rate is inferred from the spacing
//! of packets that were sent back to back (packet-train dispersion; Dovrolis et al., INFOCOM 2001). A wait for an
//! acknowledgement belongs here too while at least a bandwidth-delay product is in flight: then the link, not the window,
//! limits the rate.
//!
//! From outside, a shaper in the sender's host looks the same. Only a capture there tells it apart ([`super::pacing`]), or
//! an initial window that arrived faster.

use super::{Cause, Evidence, Fix, Rule, Situation, Wait, WaitEnd, ms, rate_text};

pub(super) const RULE: Rule =
    Rule { cause: Cause::PathRate, avoidable: false, title: "link saturated", switch: None, claim, why, fixes };

#[allow(clippy::unnecessary_wraps, reason = "the signature of a claim")]
fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let is_full = matches!(
        wait.end,
        WaitEnd::Data(context)
            if !wait.is_shared && context.flight.fills_path && context.recovery.is_none() && context.receive_window.closed.is_none()
    );
    Some((wait.from, if is_full { wait.to } else { wait.busy_until }))
}

fn why(evidence: &Evidence) -> String {
    let rate = evidence.properties.rate.map(|rate| format!(" of {}", rate_text(rate))).unwrap_or_default();
    format!("The path's bottleneck{rate} was busy with this transfer for {}.", ms(evidence.total))
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![Fix::new(
        "both ends",
        "send fewer bytes (compression, differences), or use a faster link",
        "compression costs CPU time at both ends",
    )]
}
