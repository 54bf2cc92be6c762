//! The time that a person waited: at the client.
//!
//! Of captures at both ends, the one at the sender's end shows best why data waited. But for a download that is the server,
//! which does not see what happened before the first SYN arrived: a lookup, a SYN that was lost on the way. So the time until
//! the connection was ready, and the whole time, are taken from the client's capture. What else differs is travel.

use std::time::Duration;

use crate::{
    causes::{Cause, LEAD},
    explanation::{Connection, Transfer},
    infer::vantage::Vantage,
};

/// Takes the times of a connection that was explained from another place than the client from the client's own capture.
pub(super) fn take(explained: &mut Connection, at_client: &Connection) {
    let is_usable = at_client.vantage == Vantage::Client && at_client.only_from.is_none() && !at_client.is_rtt_unknown;
    let is_same = |(one, other): (&Transfer, &Transfer)| one.request == other.request && other.bytes > 0;
    let pairs = || explained.transfers.iter().zip(&at_client.transfers);
    let is_alike = explained.transfers.len() == at_client.transfers.len() && pairs().all(is_same);
    if explained.vantage == Vantage::Client || !is_usable || !is_alike {
        return;
    }
    for (transfer, seen) in explained.transfers.iter_mut().zip(&at_client.transfers) {
        take_transfer(transfer, seen);
    }
}

fn take_transfer(transfer: &mut Transfer, seen: &Transfer) {
    let lead = |transfer: &Transfer| LEAD.iter().map(|cause| transfer.times[*cause]).sum::<u64>();
    let (before, after) = (lead(transfer), lead(seen));
    for cause in LEAD {
        transfer.times[cause] = seen.times[cause];
    }
    let duration = seen.times.sum();
    transfer.times[Cause::Propagation] += duration.saturating_sub(transfer.times.sum());
    let mut surplus = transfer.times.sum() - duration;
    let ranked = transfer.times.ranked().into_iter().map(|(cause, _)| cause).filter(|cause| !LEAD.contains(cause));
    for cause in [Cause::Propagation, Cause::ClientThink].into_iter().chain(ranked.collect::<Vec<_>>()) {
        let taken = transfer.times[cause].min(surplus);
        transfer.times[cause] -= taken;
        surplus -= taken;
    }
    // On the clock of the other transfers.
    transfer.start = (transfer.start + transfer.duration).saturating_sub(seen.duration);
    transfer.duration = seen.duration;
    transfer.phases = seen.phases;
    transfer.findings.retain(|finding| !LEAD.contains(&finding.cause));
    let found = seen.findings.iter().filter(|finding| LEAD.contains(&finding.cause)).cloned();
    transfer.findings.extend(found.map(|mut finding| {
        finding.packets.clear();
        finding.why += " The client's capture shows it.";
        finding
    }));
    transfer.findings.sort_by_key(|finding| std::cmp::Reverse(finding.cost));
    transfer.cause = transfer.times.ranked().into_iter().map(|(cause, _)| cause).find(|cause| cause.is_avoidable());
    if let Some(recorded) = &mut transfer.recorded {
        recorded.add_lead(&seen.times, Duration::from_nanos(after.saturating_sub(before)));
    }
}
