//! The server's think times, from what a client measured.
//!
//! A client sees the time between its request and the response's first byte: a round trip and the think time. The least
//! TCP handshake to the host is its round trip; if no handshake was seen, as with a connection of another host's, the
//! least wait is. So the fastest response of such a host has no think time.

use std::{collections::HashMap, time::Duration};

use super::{Observed, dependencies::rounded};

/// Shorter times are those of the client and of the way, not of the server's work.
const LEAST: Duration = Duration::from_millis(1);

/// The round trip to each host.
pub(super) fn round_trips(seen: &[&Observed]) -> HashMap<String, Duration> {
    let mut found = HashMap::new();
    for known in [|one: &Observed| one.handshake, |one: &Observed| one.wait] {
        let mut least: HashMap<String, Duration> = HashMap::new();
        for (one, time) in seen.iter().filter_map(|one| Some((one, known(one)?))) {
            let host = one.url.host_str().unwrap_or_default().to_owned();
            let known = least.entry(host).or_insert(time);
            *known = time.min(*known);
        }
        for (host, time) in least {
            found.entry(host).or_insert(time);
        }
    }
    found
}

/// The think time before a response; zero if it is not known.
pub(super) fn time(one: &Observed, round_trips: &HashMap<String, Duration>) -> Duration {
    let round_trip = one.url.host_str().and_then(|host| round_trips.get(host));
    let thought = one.wait.zip(round_trip).map_or(Duration::ZERO, |(wait, trip)| wait.saturating_sub(*trip));
    if thought < LEAST { Duration::ZERO } else { rounded(thought) }
}
