//! What failed: connections that were refused, unanswered or reset, and responses that are errors.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use crate::{Connection, Failure, PairedConnection};

/// The maximum number of sentences about connections. A port scan fails in thousands of ways.
const MAX_SENTENCES: usize = 4;

/// One sentence for each kind of failure and server, those of most connections first; responses with errors last.
pub(super) fn failures(connections: &[PairedConnection]) -> Vec<String> {
    let mut counts: HashMap<(Failure, IpAddr), usize> = HashMap::new();
    let mut groups: Vec<((Failure, IpAddr), &Connection)> = Vec::new();
    for connection in connections.iter().map(|paired| &paired.connection) {
        let Some(ending) = &connection.ending else { continue };
        let key = (ending.failure, connection.server.ip());
        let count = counts.entry(key).or_default();
        if *count == 0 {
            groups.push((key, connection));
        }
        *count += 1;
    }
    groups.sort_by_key(|(key, _)| Reverse(counts[key]));
    let sentence = |(key, connection): &((Failure, IpAddr), &Connection)| {
        let [_, server] = connection.end_names();
        let why = connection.ending.as_ref().map_or("", |ending| &ending.why);
        match counts[key] {
            1 => format!("The connection to {server} {why}."),
            count => format!("{count} connections to {} failed alike; the first, to {server}, {why}.", key.1),
        }
    };
    let more: usize = groups.iter().skip(MAX_SENTENCES).map(|(key, _)| counts[key]).sum();
    let rest = (more > 0).then(|| format!("{more} more connections to other servers failed."));
    groups.iter().take(MAX_SENTENCES).map(sentence).chain(rest).chain(errors(connections)).collect()
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
