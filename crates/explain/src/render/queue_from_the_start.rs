//! A queue that was full when the capture began looks like a long path.
//!
//! The shortest round trip of a capture counts as the path's. If a queue was full all the time, nothing in the packets says so:
//! the transfer waited for round trips, and they were long. All that can be said is that the RTT is longer than that of nearly
//! any path, or that others kept the link busy meanwhile; and how to find out.

use std::time::Duration;

use crate::{
    Cause, PairedConnection, Transfer,
    combine::neighbours::{self, Neighbourhood},
    time_text,
};

/// An RTT that nearly no path has but one over a satellite; the longest between cities over fibre are about 300 ms.
const LONG: Duration = Duration::from_millis(400);

/// The shortest RTT that may be a queue's for the greater part, if others keep the link busy.
const SUSPICIOUS: Duration = Duration::from_millis(80);

/// The bytes that others must have moved meanwhile, in bits per second: as much as a slow link carries.
const MIN_RATE: f64 = 1e6;

/// What each round trip makes longer.
const PER_ROUND_TRIP: [Cause; 7] = [
    Cause::Connect,
    Cause::Tls,
    Cause::SendBuffer,
    Cause::ReceiveWindow,
    Cause::SlowStart,
    Cause::CongestionWindow,
    Cause::Propagation,
];

/// A hint, if the transfer that lost most did so round trip by round trip, and its RTT may be a queue's.
pub(super) fn queue_from_the_start(
    connections: &[PairedConnection],
    transfers: &[(usize, &Transfer)],
) -> Option<String> {
    let (index, transfer) = *transfers.first()?;
    let connection = &connections[index].connection;
    let (rtt, total) = (connection.rtt, transfer.times.sum());
    let by_round_trip: u64 = PER_ROUND_TRIP.iter().map(|cause| transfer.times[*cause]).sum();
    if rtt < SUSPICIOUS || by_round_trip * 2 < total {
        return None;
    }
    let others = Neighbourhood::of(connections).beside(connections, index, transfer);
    let bytes: u64 = others.iter().map(|neighbour| neighbour.bytes).sum();
    let is_busy = bytes as f64 * 8.0 >= MIN_RATE * transfer.duration.as_secs_f64() && bytes > transfer.bytes;
    let rtt_text = time_text(rtt);
    let what = match (rtt >= LONG, is_busy) {
        (true, _) => format!(
            "An RTT of {rtt_text} is that of a satellite link, or of a queue that was full when the capture began: it contains \
             no shorter round trip that would tell."
        ),
        (false, true) => format!(
            "No round trip took less than {rtt_text}, but other connections of this client were busy meanwhile: a part of that may be their queue."
        ),
        (false, false) => return None,
    };
    let who = if is_busy { neighbours::sentence(&others, transfer.direction) } else { String::new() };
    Some(format!("{what}{who} `ping` shows the path's RTT when nothing else is sent."))
}
