//! The answer in one sentence: what most of the time was spent on, and for round trips, which.

use std::collections::BTreeMap;

use explain::Cause;

use super::{Account, IDLE};

/// What is less than this part of the time is not worth a word.
const LEAST: f64 = 0.05;

/// How many causes are named.
const NAMED: usize = 3;

/// How many methods are named.
const METHODS: usize = 3;

/// `71 % round trips (200 LOCK, 200 PUT, 200 UNLOCK, one at a time), 12 % the server at work`. `methods` are the
/// requests of the sample, if a log saw them.
pub(crate) fn sentence(account: &Account, methods: Option<&BTreeMap<String, u64>>) -> String {
    let whole: f64 = account.seconds.values().sum();
    let mut ranked: Vec<(&str, f64)> = account.seconds.iter().map(|(cause, time)| (*cause, time / whole)).collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let worth = ranked.iter().enumerate().filter(|(place, (_, share))| *place == 0 || *share >= LEAST);
    let parts = worth.take(NAMED).map(|(_, (cause, share))| {
        let said = format!("{:.0} % {}", 100.0 * share, words(cause));
        match methods.filter(|_| *cause == Cause::Propagation.name()) {
            Some(methods) => said + &which(account, methods),
            None => said,
        }
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// What a cause is called in a race; a name that is not known stays what it is.
fn words(name: &str) -> &str {
    let Some(cause) = Cause::all().find(|cause| cause.name() == name) else {
        return if name == IDLE { "link idle" } else { name };
    };
    match cause {
        Cause::Connect => "TCP handshakes",
        Cause::Tls => "TLS handshakes",
        Cause::Propagation => "round trips",
        Cause::PathRate => "link busy",
        Cause::ServerThink => "server at work",
        Cause::SenderIdle => "sender without data",
        Cause::SlowStart => "window still opening",
        Cause::CongestionWindow => "congestion window full",
        Cause::SendBuffer => "writes waiting for ACKs",
        Cause::DelayedAck => "ACKs held back",
        Cause::ReceiverStalled => "receiver not reading",
        Cause::ReceiveWindow => "receive window full",
        Cause::HttpFlowControl => "HTTP/2's window full",
        Cause::RetransmissionTimeout => "retransmission timeouts",
        Cause::FastRecovery => "repairing losses",
        cause => cause.title(),
    }
}

/// Which requests the round trips are for, and how many were under way at once. Where there were many more requests
/// than were told apart, several went in one turn, and nobody knows how many.
fn which(account: &Account, methods: &BTreeMap<String, u64>) -> String {
    let mut ranked: Vec<(&String, u64)> =
        methods.iter().map(|(method, count)| (method, *count)).filter(|(_, count)| *count > 0).collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let requests: u64 = ranked.iter().map(|(_, count)| count).sum();
    if requests < 2 {
        return String::new();
    }
    // One more can be named where the rest would be.
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
