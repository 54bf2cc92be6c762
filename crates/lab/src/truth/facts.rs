//! What a capture says of the measured connections, without `explain`.
//!
//! The duration comes from the packets, not from the clock around the client: starting Python takes as long as ten round
//! trips. It lasts from the first SYN to the last packet with data; the FINs of a kept-alive connection do not count. Nor
//! do iperf3's agreements before and after the transfer, on a connection of their own: no knob is turned for them.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use capture::tcp::{Flags, Segment};
use serde::{Deserialize, Serialize};

use super::{measure::MeasureError, programs::PORT};

/// What a capture at the client says of the measured connections.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// From the first SYN to the last packet with data, in seconds.
    pub duration_s: f64,
    /// The bytes of data in both directions, without retransmissions.
    pub bytes: u64,
    /// The connections.
    pub connections: u64,
    /// The packets.
    pub packets: u64,
    /// Whether the client reported success.
    pub is_complete: bool,
    /// The packets that the emulator lost because it was too slow.
    pub emulator_drops: u64,
}

/// Which connections to the measured port count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// All.
    All,
    /// The one with most packets.
    Largest,
}

/// One direction of a connection: its initial sequence number, and the end of its data relative to that.
#[derive(Default)]
struct Flow {
    first: Option<u32>,
    end: u32,
}

#[derive(Default)]
struct Connection {
    up: Flow,
    down: Flow,
    packets: u64,
    /// The first SYN or packet with data, and the last.
    times: Option<(Duration, Duration)>,
}

/// What a capture says of the connections to the measured port; none if there is none.
pub(crate) fn facts(file: &Path, counted: Counted) -> Result<Option<Facts>, MeasureError> {
    let mut reader = capture::open(file, None)?;
    let mut connections: BTreeMap<(SocketAddr, SocketAddr), Connection> = BTreeMap::new();
    while let Some(packet) = reader.next()? {
        let Some(segment) = Segment::of(&packet) else { continue };
        let is_up = segment.to.port() == PORT;
        let ends = if is_up { (segment.from, segment.to) } else { (segment.to, segment.from) };
        if ends.1.port() == PORT {
            connections.entry(ends).or_default().add(&segment, is_up, packet.time);
        }
    }
    let mut counted: Vec<Connection> = match counted {
        Counted::All => connections.into_values().collect(),
        Counted::Largest => connections.into_values().max_by_key(|one| one.packets).into_iter().collect(),
    };
    let packets = counted.iter().map(|one| one.packets).sum();
    counted.retain(|one| one.times.is_some());
    let begin = counted.iter().filter_map(|one| Some(one.times?.0)).min();
    let end = counted.iter().filter_map(|one| Some(one.times?.1)).max();
    Ok(begin.zip(end).map(|(begin, end)| Facts {
        duration_s: end.saturating_sub(begin).as_secs_f64(),
        bytes: counted.iter().map(|one| u64::from(one.up.end) + u64::from(one.down.end)).sum(),
        connections: counted.len() as u64,
        packets,
        ..Facts::default()
    }))
}

impl Connection {
    fn add(&mut self, segment: &Segment, is_up: bool, time: Duration) {
        self.packets += 1;
        let is_syn = segment.flags.has(Flags::SYN);
        let flow = if is_up { &mut self.up } else { &mut self.down };
        let first = *flow.first.get_or_insert(segment.sequence.wrapping_add(u32::from(is_syn)));
        let end = segment.sequence.wrapping_add(segment.data).wrapping_sub(first);
        // Half of the space of sequence numbers is before the first byte.
        if segment.data > 0 && end < 1 << 31 {
            flow.end = flow.end.max(end);
        }
        if segment.data > 0 || is_syn || segment.flags.has(Flags::RST) {
            let begin = self.times.map_or(time, |(begin, _)| begin);
            self.times = Some((begin, time));
        }
    }
}
