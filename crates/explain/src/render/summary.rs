//! What all forms of the explanation share: the ranking of transfers, and the answer in a sentence or two.

use std::{fmt::Write as _, time::Duration};

use super::{failures::failures, notes};
use crate::{Cause, PairedConnection, Transfer, number_format::plural, time_text};

/// All transfers with the index of their connection, those that lost most first.
pub(super) fn ranked(connections: &[PairedConnection]) -> Vec<(usize, &Transfer)> {
    let each = connections.iter().enumerate();
    let mut ranked: Vec<_> = each
        .flat_map(|(index, paired)| paired.connection.transfers.iter().map(move |transfer| (index, transfer)))
        .collect();
    // A stable sort: transfers that lost the same stay in their order.
    ranked.sort_by_key(|(_, transfer)| std::cmp::Reverse((transfer.avoidable(), transfer.duration)));
    ranked
}

/// The answer for ranked transfers, in a sentence or two.
pub(super) fn answer(connections: &[PairedConnection], transfers: &[(usize, &Transfer)], packets: u64) -> String {
    let mut sentences = failures(connections);
    if sentences.is_empty() || transfers.iter().any(|(_, transfer)| transfer.bytes > 0) {
        sentences.push(cost(connections, transfers, packets));
    }
    sentences.join(" ")
}

/// What cost most.
fn cost(connections: &[PairedConnection], transfers: &[(usize, &Transfer)], packets: u64) -> String {
    let Some((index, worst)) = transfers.first() else {
        let why = match packets {
            0 => "the capture contains no packets; check its filter and its interface".to_owned(),
            _ => format!(
                "no TCP connection carries data in {}; UDP, and so HTTP/3, is not explained",
                plural(packets, "packet")
            ),
        };
        return format!("Nothing to explain: {why}.");
    };
    let is_one_sided = |index: usize| connections[index].connection.only_from.is_some();
    if is_one_sided(*index) && worst.findings.is_empty() {
        let Some(other) = transfers.iter().position(|(index, _)| !is_one_sided(*index)) else {
            return format!("Nothing to explain: {}", notes::one_direction(connections.len() as u64));
        };
        return answer(connections, &transfers[other..=other], packets);
    }
    let Some(finding) = worst.findings.first() else {
        let (cause, time) = worst.times.ranked().first().copied().unwrap_or((Cause::Propagation, 0));
        return format!(
            "Healthy: nothing is worth a change. The longest transfer took {}, of which {} were {}. The RTT is {}.",
            time_text(worst.duration),
            time_text(Duration::from_nanos(time)),
            cause.title(),
            time_text(connections[*index].connection.rtt)
        );
    };
    let healthy = transfers.iter().filter(|(_, transfer)| transfer.findings.is_empty()).count();
    let scope = match transfers.len() {
        1 => String::new(),
        all => format!(" in the worst of {all} transfers ({healthy} healthy)"),
    };
    let share = 100.0 * finding.cost.as_secs_f64() / worst.duration.as_secs_f64().max(1e-9);
    let mut text = format!(
        "{} of {} ({share:.0} %) were lost to {}{scope}.",
        time_text(finding.cost),
        time_text(worst.duration),
        finding.cause.title()
    );
    if let Some(what_if) = &finding.what_if
        && let Some(predicted) = worst.without(finding)
    {
        let _ = write!(text, " With {what_if}, it would take {}.", time_text(predicted.duration));
    }
    text
}
