//! By how many bits a window field is shifted (RFC 7323 §2.2): as the SYNs announced, or, where they were not captured, at
//! least as many as make all data legal that was sent.
//!
//! The least shift is not always the right one. Whether the window ever held the sender back is seen only if the sender
//! repeatedly stops at its end; [`crate::infer::survey`] decides that.

use capture::tcp::Flags;

use crate::{
    collect::{CapturedConnection, Syn},
    side::Side,
    stream_offset::ORIGIN,
};

/// The largest shift (RFC 7323 §2.3).
const MAX_SHIFT: u8 = 14;

/// The shift of a side's window field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowScale {
    pub(crate) shift: u8,
    /// Whether the handshake announced it; otherwise it is the least that is possible.
    pub(crate) is_known: bool,
}

impl WindowScale {
    /// The shift of the windows that `side` announces.
    pub(crate) fn of(connection: &CapturedConnection, side: Side) -> Self {
        let known = |shift| Self { shift, is_known: true };
        match (connection.syn[side], connection.syn[!side]) {
            (Some(own), Some(other)) => known(own.scale.filter(|_| other.scale.is_some()).unwrap_or(0)),
            (Some(Syn { scale: Some(shift), .. }), None) => known(shift),
            // Without the option in both SYNs, nothing is scaled.
            (Some(Syn { scale: None, .. }), None) | (None, Some(Syn { scale: None, .. })) => known(0),
            (None, _) => Self { shift: least_shift(connection, side), is_known: false },
        }
    }
}

/// The least shift with which no data exceeded the window. Windows do not shrink (RFC 9293 §3.8.6), so what was allowed
/// before the capture began is allowed by the first acknowledgement in it too.
fn least_shift(connection: &CapturedConnection, side: Side) -> u8 {
    let Some(mut offsets) = connection.offsets[!side].map(crate::stream_offset::StreamOffsets::rewound) else {
        return 0;
    };
    let mut shift = 0;
    // The highest byte that each shift allows.
    let mut edges = [0_u64; MAX_SHIFT as usize + 1];
    for segment in &connection.segments {
        if segment.from() == side {
            if segment.has(Flags::ACK) {
                let ack = offsets.near(segment.ack);
                for (shift, edge) in edges.iter_mut().enumerate() {
                    *edge = (*edge).max(ack + (u64::from(segment.window) << shift));
                }
            }
        } else if segment.len > 1
            && edges[0] > 0
            && let Some(start) = offsets.of(segment.seq)
            && start >= ORIGIN
        {
            let end = start + u64::from(segment.len);
            while shift < MAX_SHIFT && edges[usize::from(shift)] < end {
                shift += 1;
            }
        }
    }
    shift
}
