//! By how many bits a window field is shifted (RFC 7323 §2.2).
//!
//! The SYNs announce it. Where a SYN was captured without its options, it still has a window, which is not scaled, and the next
//! packet of that end announces the same one scaled. Where no SYN was captured, two things bound the shift:
//!
//! - All data that was sent was allowed: with a shift that is too small, data would be beyond the window.
//! - A receiver does not take back what it has allowed (RFC 9293 §3.8.6). While its program does not read, each segment takes
//!   its length off the window, so with a shift that is too large, the window's end would move back.
//!
//! If the bounds agree, the shift is known. Otherwise the least one is taken, and whether the window ever held the sender back
//! is seen only if the sender repeatedly stops at its end; [`crate::infer::survey`] decides that.

use std::{collections::VecDeque, ops::RangeInclusive};

use capture::tcp::Flags;

use super::vantage::VantagePoint;
use crate::{
    collect::{CapturedConnection, Syn},
    side::Side,
    stream_offset::{ORIGIN, StreamOffsets},
};

/// The largest shift (RFC 7323 §2.3).
const MAX_SHIFT: u8 = 14;
const SHIFTS: usize = MAX_SHIFT as usize + 1;

/// How often the end of the window must move back to exclude a shift. Some receivers take a little back at times.
const MIN_RETREATS: u32 = 3;

/// The shift of a side's window field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WindowScale {
    /// If it is not known, the least that is possible.
    pub(crate) shift: u8,
    pub(crate) is_known: bool,
    /// What is possible.
    pub(crate) bounds: RangeInclusive<u8>,
}

impl WindowScale {
    /// The shift of the windows that `side` announces.
    pub(crate) fn of(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Self {
        // Without the whole header, a missing option may have been there.
        let says = |syn: &Syn| syn.scale.is_some() || !syn.is_cut;
        match (connection.syn[side].filter(says), connection.syn[!side].filter(says)) {
            (Some(own), Some(other)) => Self::known(own.scale.filter(|_| other.scale.is_some()).unwrap_or(0)),
            (Some(Syn { scale: Some(shift), .. }), None) => Self::known(shift),
            // Without the option in both SYNs, nothing is scaled.
            (Some(Syn { scale: None, .. }), None) | (None, Some(Syn { scale: None, .. })) => Self::known(0),
            (None, _) => match first_windows(connection, side) {
                Some(shift) => Self::known(shift),
                None => Self::within(bounds(connection, vantage, side)),
            },
        }
    }

    fn known(shift: u8) -> Self {
        Self { shift, is_known: true, bounds: shift..=shift }
    }

    fn within(bounds: RangeInclusive<u8>) -> Self {
        Self { shift: *bounds.start(), is_known: bounds.start() == bounds.end(), bounds }
    }
}

/// The shift between the window of a side's SYN and that of its next packet, which is the same, rounded up (Linux:
/// `tcp_select_window`).
fn first_windows(connection: &CapturedConnection, side: Side) -> Option<u8> {
    let mut own = connection.segments.iter().filter(|segment| segment.from() == side);
    let syn = own.next().filter(|first| first.has(Flags::SYN))?;
    let next = own.find(|segment| !segment.has(Flags::SYN) && segment.has(Flags::ACK))?;
    let (unscaled, scaled) = (u32::from(syn.window), u32::from(next.window));
    (0..=MAX_SHIFT).find(|shift| scaled > 0 && unscaled.div_ceil(1 << shift) == scaled)
}

/// The least shift with which no data exceeded the window, and the largest with which the window's end did not move back.
fn bounds(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> RangeInclusive<u8> {
    let Some(mut offsets) = connection.offsets[!side].map(StreamOffsets::rewound) else { return 0..=MAX_SHIFT };
    // What passes the capture point later than this may have been sent upon a window that passed before.
    let travel = if vantage.is_at(!side) { 0 } else { vantage.rtt_to[!side] / 10 * 9 };
    let mut underway: VecDeque<(u64, u64, u16)> = VecDeque::new();
    let (mut least, mut latest) = (0, 0);
    let mut allowed = Edges::default();
    // How far each shift has allowed the other side to send, and how often it took that back.
    let mut announced = Edges::default();
    let mut retreats = [0_u32; SHIFTS];
    for segment in &connection.segments {
        if segment.from() == side {
            if segment.has(Flags::ACK) && !segment.has(Flags::SYN) && !segment.has(Flags::RST) {
                let ack = offsets.near(segment.ack);
                underway.push_back((segment.time + travel, ack, segment.window));
                let is_late = ack < latest;
                latest = ack.max(latest);
                for (shift, count) in retreats.iter_mut().enumerate() {
                    // Rounding alone may take up to a unit.
                    let end = ack + (u64::from(segment.window) << shift) + (1 << shift);
                    *count += u32::from(!is_late && end < announced.0[shift]);
                }
                announced.add(ack, segment.window);
            }
        } else if segment.len > 1
            && let Some(start) = offsets.of(segment.seq)
            && start >= ORIGIN
        {
            while let Some((_, ack, window)) = underway.pop_front_if(|(arrives, ..)| *arrives <= segment.time) {
                allowed.add(ack, window);
            }
            // What was allowed before the capture began is allowed by the first acknowledgement in it too.
            let end = start + u64::from(segment.len);
            while least < MAX_SHIFT && allowed.0[0] > 0 && allowed.0[usize::from(least)] < end {
                least += 1;
            }
        }
    }
    let excluded = retreats.iter().position(|count| *count >= MIN_RETREATS);
    let most = excluded.map_or(MAX_SHIFT, |shift| (shift as u8).saturating_sub(1));
    least..=most.max(least)
}

/// The byte up to which data is allowed, for each shift.
#[derive(Debug, Default)]
struct Edges([u64; SHIFTS]);

impl Edges {
    fn add(&mut self, ack: u64, window: u16) {
        for (shift, edge) in self.0.iter_mut().enumerate() {
            *edge = (*edge).max(ack + (u64::from(window) << shift));
        }
    }
}
