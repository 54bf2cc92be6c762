//! What failed: connections that were refused, unanswered or reset, and responses that are errors.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::Duration,
};

use crate::{Connection, Failure, PairedConnection, time_text};

/// The maximum number of sentences about connections. A port scan fails in thousands of ways.
const MAX_SENTENCES: usize = 4;

/// One sentence for each kind of failure and server, those of most connections first; responses with errors last.
///
/// Attempts in `tried` are left out: [`fallbacks`].
pub(super) fn failures(connections: &[PairedConnection], tried: &HashMap<usize, usize>) -> Vec<String> {
    let mut counts: HashMap<(Failure, IpAddr), usize> = HashMap::new();
    let mut groups: Vec<((Failure, IpAddr), &Connection)> = Vec::new();
    let all = connections.iter().enumerate().filter(|(index, _)| !tried.contains_key(index));
    for connection in all.map(|(_, paired)| &paired.connection) {
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

/// The longest time between a failed attempt and the one over the other IP version (RFC 8305 §5: at most 2 s).
const MAX_FALLBACK: Duration = Duration::from_secs(2);

/// Connections that were tried and failed before the client went on over the other IP version (Happy Eyeballs, RFC 8305), with
/// those that followed. Most users have both versions, and notice little of it.
pub(super) fn fallbacks(connections: &[PairedConnection]) -> HashMap<usize, usize> {
    let has_failed =
        |connection: &Connection| connection.ending.as_ref().is_some_and(|ending| is_attempt(ending.failure));
    let mut followed: HashMap<(usize, u16, bool), Vec<(Duration, usize)>> = HashMap::new();
    for (index, paired) in connections.iter().enumerate().filter(|(_, paired)| !has_failed(&paired.connection)) {
        let server = paired.connection.server;
        let key = (paired.capture, server.port(), server.is_ipv6());
        followed.entry(key).or_default().push((paired.connection.start, index));
    }
    for starts in followed.values_mut() {
        starts.sort_unstable();
    }
    let follows = |(index, paired): (usize, &PairedConnection)| {
        let failed = &paired.connection;
        let after = failed.ending.as_ref().filter(|_| has_failed(failed))?.after;
        let starts = followed.get(&(paired.capture, failed.server.port(), !failed.server.is_ipv6()))?;
        let next = starts.partition_point(|(start, _)| *start < failed.start);
        let (start, other) = *starts.get(next)?;
        (start <= failed.start + after + MAX_FALLBACK).then_some((index, other))
    };
    connections.iter().enumerate().filter_map(follows).collect()
}

/// Whether it is the failure of an attempt to connect.
fn is_attempt(failure: Failure) -> bool {
    matches!(failure, Failure::Refused | Failure::Unanswered | Failure::Undelivered)
}

/// A sentence about the attempts that others followed.
pub(super) fn tried_first(connections: &[PairedConnection], tried: &HashMap<usize, usize>) -> Option<String> {
    let (index, other) = tried.iter().min()?;
    let (first, next) = (&connections[*index].connection, &connections[*other].connection);
    let cost = time_text(next.start.saturating_sub(first.start));
    let [_, server] = first.end_names();
    let how = match first.ending.as_ref()?.failure {
        Failure::Refused => "refused",
        Failure::Unanswered => "not answered",
        _ => "not delivered",
    };
    let version = if next.server.is_ipv6() { "IPv6" } else { "IPv4" };
    Some(match tried.len() {
        1 => format!("Before, {server} was tried and {how}; the client went on over {version} after {cost}."),
        count => format!(
            "Before, {count} attempts over the other IP version failed; the first, to {server}, was {how}, and the client \
             went on over {version} after {cost}."
        ),
    })
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
