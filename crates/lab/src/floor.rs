//! The floor: the minimum time that physics allows a cell.
//!
//! Every result is also shown as a multiple of the floor, because "24 seconds" does not say whether there is anything
//! left to gain, and "81 times the floor" does.
//!
//! The floor is *round trips that nothing can save × RTT + bytes ÷ rate*, for an ideal client without open connections:
//!
//! | for | round trips |
//! |---|---|
//! | TCP handshake (RFC 9293, §3.5); the ACK that ends it already carries data | 1 |
//! | TLS 1.3 full handshake (RFC 8446, §2) | 1 |
//! | upload: everything is sent at once; the last byte takes half a round trip to arrive, its answer half to return | 1 |
//! | upload of a tree: the same; each folder is created just before its files, on their connection, and the server processes its requests in order (RFC 9112, §9.3.2) | 1 |
//! | download: everything is requested at once, by known names; half a round trip for the request, half for the last byte | 1 |
//! | an object after a page: its connections are open; half a round trip for the request, half for the last byte | 1 |
//! | listing: one request with `Depth: 1` (RFC 4918, §9.1) | 1 |
//! | saving in place: a save begins when the last one is confirmed | 1 each |
//! | a page's load: the longest chain of requests that wait for one another's responses | its depth |
//! | a chore in a mounted folder: as an upload, a download or a listing; done before, it needs nothing | 1 or 0 |
//! | looking a name up: a datagram there and one back, with no handshake | 1 each |
//!
//! *Not counted*, because settings and implementations can avoid it: slow start and windows, further connections, locks,
//! looking before writing, sequential requests, the server's own time, a browser's computation. *Not counted*, because it is small: headers of
//! HTTP, TLS, TCP and IP (some 4 % of the bytes at an MTU of 1500, so 1.04 × is the optimum for a large file). *Not
//! counted*, because it depends on server and request: the size of a listing's response. That is not small: at 0.4 to
//! 0.8 kB per entry, a thousand entries occupy a line of 100 Mbit/s for 30 to 65 ms, up to three round trips of the
//! article's 18 ms.
//!
//! *Counted*, although a client that has met the server before might save them: both handshakes (TCP Fast Open and TLS
//! early data avoid them), although HTTP/3 has only one. A mount that connected before the clock started has saved them
//! too, and may be below 1 ×; that is its real advantage. A page's floor has no handshake, since its experiments ask how
//! many can be saved.

use std::time::Duration;

use page::{Connections, IdealNetwork, replay::Protocol, schedule::INITIAL_WINDOW};

use crate::{experiment::Network, work::Work};

/// The floor of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Round trips that nothing can save.
    pub round_trips: u32,
    /// Bytes of files that must cross the link, one way.
    pub bytes: u64,
    /// The time that both take.
    pub time: Duration,
}

/// The floor of a task on a network, over TLS 1.3 or in plain text.
pub fn floor(work: &Work, network: &Network, tls: bool) -> Floor {
    if let Work::Load { page } = work {
        let time = page.sent().floor(network.rtt(), network.down());
        return Floor { round_trips: page.sent().depth() as u32, bytes: work.payload(), time };
    }
    if work.is_warm() {
        return Floor { round_trips: 0, bytes: 0, time: Duration::ZERO };
    }
    let handshakes = if let Work::Page { .. } | Work::LookUp { .. } = work { 0 } else { 1 + u32::from(tls) };
    let answers = if let Work::Edit { times, .. } | Work::LookUp { times } = work { *times } else { 1 };
    let round_trips = handshakes + answers;
    let bytes = work.payload();
    let rate = if work.reads() { network.down() } else { network.up() };
    let crossing = rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
    Floor { round_trips, bytes, time: network.rtt().saturating_mul(round_trips).saturating_add(crossing) }
}

/// The ideal time of a page over its recorded connections: its dependencies, the handshakes of the contender of this
/// name, slow start from the server's initial window, and the recorded computation and think times. None for other contenders and other work.
pub fn ideal(work: &Work, network: &Network, contender: &str) -> Option<Duration> {
    let Work::Load { page } = work else { return None };
    let protocol: Protocol = contender.parse().ok()?;
    let window = network.server.initial_window.map_or(INITIAL_WINDOW, |segments| u64::from(segments) * 1460);
    let connections = Connections::Recorded { handshake: protocol.handshakes()?, initial_window: Some(window) };
    let network = IdealNetwork { rtt: network.rtt(), rate: network.down(), connections, has_processing: true };
    Some(page.sent().schedule(&network).load)
}

impl Floor {
    /// How many times the floor `time` is; none if the network has neither delay nor limit.
    pub fn multiple(&self, time: Duration) -> Option<f64> {
        (!self.time.is_zero()).then(|| time.as_secs_f64() / self.time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Stack;
    use units::Size;

    fn network(rtt_ms: u64, rate: Option<u64>) -> Network {
        let rate = rate.map_or_else(String::new, |rate| format!("rate = \"{rate}bit\""));
        let link = toml::from_str(&format!("rtt = \"{rtt_ms}ms\"\n{rate}")).unwrap();
        Network { name: "test".into(), link, note: None, server: Stack::default(), variant_of: None }
    }

    #[test]
    fn upload_needs_three_round_trips_and_its_bytes() {
        let task = Work::Upload { files: 200, size: Size::bytes(10 * 1024) };
        let floor = floor(&task, &network(18, Some(100_000_000)), true);
        // 3 × 18 ms, and 2,048,000 bytes at 12.5 MB/s.
        assert_eq!((floor.round_trips, floor.time), (3, Duration::from_micros(54_000 + 163_840)));
        assert!((floor.multiple(Duration::from_micros(435_680)).unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn each_direction_has_its_own_rate() {
        let mut network = network(0, None);
        network.link = toml::from_str("rate = \"8mbit/80mbit\"").unwrap();
        let size = Size::bytes(1_000_000);
        let times = [Work::Upload { files: 1, size }, Work::Download { files: 1, size: vec![size] }]
            .map(|task| floor(&task, &network, true).time);
        assert_eq!(times, [1000, 100].map(Duration::from_millis));
    }

    #[test]
    fn object_after_page_needs_no_handshake() {
        let (objects, idle) = (vec![Size::bytes(1 << 21); 6], "2s".parse().unwrap());
        let task = Work::Page { objects, idle, size: Size::bytes(25_000) };
        let floor = floor(&task, &network(250, Some(20_000_000)), true);
        assert_eq!((floor.round_trips, floor.bytes, floor.time), (1, 25_000, Duration::from_millis(260)));
    }

    #[test]
    fn saves_are_sequential() {
        let task = Work::Edit { times: 20, size: Size::bytes(0) };
        let (tls, plain) = (floor(&task, &network(10, None), true), floor(&task, &network(10, None), false));
        assert_eq!((tls.time, plain.time), (Duration::from_millis(220), Duration::from_millis(210)));
    }

    #[test]
    fn zero_floor_has_no_multiple() {
        let floor = floor(&Work::List { entries: 1000 }, &network(0, None), true);
        assert_eq!((floor.bytes, floor.multiple(Duration::from_secs(1))), (0, None));
    }
}
