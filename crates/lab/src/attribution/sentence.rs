//! The attribution in one sentence: the largest causes, and for round trips, their requests.

use std::collections::BTreeMap;

use explain::Cause;

use super::{Account, IDLE, MACHINE};

/// Causes below this share are not mentioned.
const LEAST: f64 = 0.05;

/// The maximum number of causes.
const NAMED: usize = 3;

/// The maximum number of methods.
const METHODS: usize = 3;

/// `71 % round trips (200 LOCK, 200 PUT, 200 UNLOCK, one at a time), 12 % server at work`. `methods` are the requests
/// of the sample, if the server logged them.
pub(crate) fn sentence(account: &Account, methods: Option<&BTreeMap<String, u64>>) -> String {
    let whole: f64 = account.seconds.values().sum();
    let mut ranked: Vec<(&str, f64)> = account.seconds.iter().map(|(cause, time)| (*cause, time / whole)).collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let worth = ranked.iter().enumerate().filter(|(index, (_, share))| *index == 0 || *share >= LEAST);
    let parts = worth.take(NAMED).map(|(_, (cause, share))| {
        let said = format!("{:.0} % {}", 100.0 * share, title(cause));
        match methods.filter(|_| *cause == Cause::Propagation.name()) {
            Some(methods) => said + &which(account, methods),
            None => said,
        }
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// The name of a cause in tables; an unknown name stays as it is.
fn title(name: &str) -> &str {
    match name {
        IDLE => "link idle",
        MACHINE => "machine busy",
        _ => match Cause::all().find(|cause| cause.name() == name) {
            Some(cause) => cause.title(),
            None => name,
        },
    }
}

/// The requests behind the round trips, and how many were in flight at once. If there are many more requests than
/// transfers, several shared a round trip, and their concurrency is unknown.
fn which(account: &Account, methods: &BTreeMap<String, u64>) -> String {
    let mut ranked: Vec<(&String, u64)> =
        methods.iter().map(|(method, count)| (method, *count)).filter(|(_, count)| *count > 0).collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let requests: u64 = ranked.iter().map(|(_, count)| count).sum();
    if requests < 2 {
        return String::new();
    }
    // A single remaining method takes no more room than "1 more".
    let named = if ranked.len() == METHODS + 1 { METHODS + 1 } else { METHODS };
    let mut said: Vec<String> = ranked.iter().take(named).map(|(method, count)| format!("{count} {method}")).collect();
    let rest: u64 = ranked.iter().skip(named).map(|(_, count)| count).sum();
    said.extend((rest > 0).then(|| format!("{rest} more")));
    if requests * 4 <= account.transfers * 5 {
        said.extend(match account.at_once {
            few if few < 1.2 => Some("one at a time".to_owned()),
            many if many >= 1.5 => Some(format!("about {many:.0} at a time")),
            _ => None,
        });
    }
    format!(" ({})", said.join(", "))
}
