//! What a message went through, as far as a replica of it has to know.

use crate::{seat::Acked, wait::Data};

/// How many losses, pauses and stalls of a message are kept.
const KEPT: usize = 1000;

/// What a message went through that is none of the sender's or receiver's rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    /// What the congestion window was at least when it began, in bytes; none for the connection's first.
    pub(crate) warm: Option<u64>,
    /// Which bytes were sent again, from the message's first one on, and how often.
    pub(crate) lost: Vec<(u64, u64, u32)>,
    /// Before which byte the program paused, and for how long, in nanoseconds.
    pub(crate) pauses: Vec<(u64, u64)>,
    /// After which byte the receiving program stopped to read, and for how long its window was closed.
    pub(crate) stalls: Vec<(u64, u64)>,
    /// How much of it was sent before an acknowledgement could tell anything of it, in bytes.
    pub(crate) burst: u64,
    /// How often a small segment of it was held by Nagle's algorithm.
    pub(crate) naggled: u64,
}

/// When a message was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Its first byte.
    pub(crate) first: Option<u64>,
    /// Its last packet, and any that repeated one.
    pub(crate) last: u64,
    /// When all of it was acknowledged, without what the receiver held that back.
    pub(crate) acked: Option<u64>,
    /// How many of its bytes passed.
    pub(crate) bytes: u64,
    pub(crate) story: Story,
}

/// What is counted of each direction, for whoever judges it afterwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Packets with data.
    pub(crate) packets: u64,
    /// Packets sent again.
    pub(crate) again: u64,
    /// The most that was outstanding, in bytes.
    pub(crate) peak: u64,
    /// The largest window that the receiver offered, and its first, in bytes.
    pub(crate) window: u64,
    pub(crate) first_window: u64,
    /// Acknowledgements.
    pub(crate) acks: Vec<Acked>,
}

impl Story {
    /// New data went at this offset of the message, after a wait.
    pub(crate) fn pass(&mut self, data: &Data, at: u64, waited: u64) {
        if data.idle && at > 0 && self.pauses.len() < KEPT {
            self.pauses.push((at, waited));
        }
        let held = data.small && data.room.is_some() && !data.window;
        self.naggled += u64::from(held && data.released.is_some_and(|release| release.all));
        if let Some((from, to)) = data.closed
            && self.stalls.len() < KEPT
        {
            self.stalls.push((at, to.saturating_sub(from)));
        }
    }

    /// Data was sent again.
    pub(crate) fn repeat(&mut self, from: u64, to: u64) {
        let room = self.lost.len() < KEPT;
        match self.lost.iter_mut().find(|lost| lost.0 == from) {
            Some(lost) => lost.2 += 1,
            None if room => self.lost.push((from, to, 1)),
            None => {}
        }
    }
}
