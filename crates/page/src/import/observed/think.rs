//! The server's think times, from what a client measured.
//!
//! A client sees the time between its request and the response's first byte: a round trip and the think time. The round trip
//! to a host is at most its quickest TCP handshake, which may have tried another address first, and at most its quickest
//! response, which may have been thought about.

use std::{collections::HashMap, time::Duration};

use super::{Observed, dependencies::rounded};

/// Shorter times are those of the client and of the way, not of the server's work.
const LEAST: Duration = Duration::from_millis(1);

/// The round trip to each host.
pub(super) fn round_trips(seen: &[&Observed]) -> HashMap<String, Duration> {
    let mut found: HashMap<String, Duration> = HashMap::new();
    for one in seen {
        let Some(time) = [one.handshake, one.wait].into_iter().flatten().min() else { continue };
        let least = found.entry(one.url.host_str().unwrap_or_default().to_owned()).or_insert(time);
        *least = time.min(*least);
    }
    found
}

/// The think time before a response; zero if it is not known.
pub(super) fn time(one: &Observed, round_trips: &HashMap<String, Duration>) -> Duration {
    let round_trip = one.url.host_str().and_then(|host| round_trips.get(host));
    let thought = one.wait.zip(round_trip).map_or(Duration::ZERO, |(wait, trip)| wait.saturating_sub(*trip));
    if thought < LEAST { Duration::ZERO } else { rounded(thought) }
}
