//! What failed: connections that were refused, unanswered or reset, and responses that are errors.

use std::collections::BTreeMap;

use crate::{Connection, Failure, PairedConnection};

/// One sentence for each kind of failure and server, the worst first; responses with errors last.
pub(super) fn failures(connections: &[PairedConnection]) -> Vec<String> {
    let mut groups: Vec<(&Connection, Failure, usize)> = Vec::new();
    for connection in connections.iter().map(|paired| &paired.connection) {
        let Some(ending) = &connection.ending else { continue };
        let is_same = |(other, failure, _): &&mut (&Connection, Failure, usize)| {
            *failure == ending.failure && other.server == connection.server
        };
        match groups.iter_mut().find(is_same) {
            Some((_, _, count)) => *count += 1,
            None => groups.push((connection, ending.failure, 1)),
        }
    }
    let sentence = |(connection, _, count): (&Connection, Failure, usize)| {
        let [_, server] = connection.end_names();
        let why = connection.ending.as_ref().map_or("", |ending| &ending.why);
        match count {
            1 => format!("The connection to {server} {why}."),
            _ => format!("{count} connections to {server} failed alike; the first {why}."),
        }
    };
    groups.into_iter().map(sentence).chain(errors(connections)).collect()
}

/// The responses that are errors, by status.
fn errors(connections: &[PairedConnection]) -> Option<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut all, mut wrong) = (0_u64, 0);
    for transfer in connections.iter().flat_map(|paired| &paired.connection.transfers) {
        all += u64::from(!transfer.status.is_empty());
        if transfer.status.len() == 3 && transfer.status.starts_with(['4', '5']) {
            *counts.entry(&transfer.status).or_default() += 1;
            wrong += 1;
        }
    }
    let each: Vec<String> = counts.into_iter().map(|(status, count)| format!("{count} × {status}")).collect();
    if all == 1 && wrong == 1 {
        return Some(format!("The only response is an error: {}.", each[0].trim_start_matches("1 × ")));
    }
    let verb = if wrong == 1 { "is an error" } else { "are errors" };
    (wrong > 0).then(|| format!("{wrong} of {all} responses {verb}: {}.", each.join(", ")))
}
