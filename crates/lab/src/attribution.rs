//! Attributing a sample's time to causes.
//!
//! `explain` attributes the time of each transfer by itself. A contender may have many transfers in flight, on many
//! connections, and then their times add up to more than the sample's. So every instant of the sample is divided
//! evenly among the transfers in flight, and the share of a transfer is divided among its causes in proportion to their
//! totals. When none is in flight, the link is idle: the client computes, or waits for its disk or a timer. This way
//! all parts add up to the sample's time, and nothing counts twice.
//!
//! Rejected: following the one critical transfer back from the end. Of sixteen parallel transfers none is more critical
//! than the others, and any choice hides their common causes behind one transfer's accidents.
//!
//! While a client could send a request but does not, nothing is in flight. `explain` adds this time to the next
//! transfer, since it must not leave a gap. Here it is removed from the transfer, and counts as idle only if no other
//! transfer used it. In the first transfer of a connection, where handshakes precede it, its position is unknown; there
//! it counts as idle.
//!
//! A capture does not tell a server that computes from one that waits for a processor, nor a client. But the machine's
//! share was measured ([`disturbance`](crate::disturbance)), so it is taken from the causes that it looks like, and
//! counts as the machine's.
//!
//! A transfer that begins before the clock, such as one on a connection opened during the preparation, is cut as if its
//! causes were spread evenly over it.

mod remedy;
mod sentence;

use std::{collections::BTreeMap, time::Duration};

use explain::{Cause, Explanation};

use crate::disturbance::Delays;

pub(crate) use remedy::{of as remedy_of, remedy};
pub(crate) use sentence::sentence;

/// The cause of time with nothing in flight, in addition to the names of [`Cause`]; includes [`Cause::ClientThink`].
pub(crate) const IDLE: &str = "idle";

/// The cause of time in which client, server or emulator waited for a processor.
pub(crate) const MACHINE: &str = "machine";

/// A transfer from its trigger until it ends, in seconds since the sample began.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transfer {
    from: f64,
    to: f64,
    /// Its time by cause, in any unit.
    times: Vec<(Cause, u64)>,
}

/// A sample's time by cause.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Account {
    /// Seconds by cause; they add up to the sample's.
    pub(crate) seconds: BTreeMap<&'static str, f64>,
    /// How many transfers overlap it.
    pub(crate) transfers: u64,
    /// How many were in flight at once, on average over the time in which any was.
    pub(crate) at_once: f64,
}

/// All transfers of a capture, for a sample that began at `began` (since the epoch).
pub(crate) fn transfers(explanation: &Explanation, began: Duration) -> Vec<Transfer> {
    let each = |connection: &'_ explain::Connection| -> Vec<Transfer> {
        let numbered = connection.transfers.iter().enumerate();
        numbered.map(|(index, transfer)| Transfer::of(transfer, index == 0, began)).collect()
    };
    explanation.connections.iter().flat_map(each).collect()
}

impl Transfer {
    fn of(transfer: &explain::Transfer, first: bool, began: Duration) -> Self {
        let since =
            |time: Duration| time.saturating_sub(began).as_secs_f64() - began.saturating_sub(time).as_secs_f64();
        let (start, end) = (since(transfer.start), since(transfer.start + transfer.duration));
        let mut times = transfer.times.of_all_connections();
        let mut off = 0;
        if !first || transfer.bytes == 0 {
            std::mem::swap(&mut off, &mut times[Cause::ClientThink]);
        }
        let off = Duration::from_nanos(off).as_secs_f64();
        // A connection without data waits after its handshake, any other before its request.
        let (from, to) = if transfer.bytes == 0 { (start, end - off) } else { (start + off, end) };
        Self { from, to, times: times.ranked() }
    }
}

/// Attributes the time of a sample of this many seconds.
pub(crate) fn account(transfers: &[Transfer], seconds: f64) -> Account {
    let cut = |transfer: &Transfer| (transfer.from.clamp(0.0, seconds), transfer.to.clamp(0.0, seconds));
    let mut edges: Vec<(f64, bool, usize)> = Vec::new();
    for (index, transfer) in transfers.iter().enumerate() {
        let (from, to) = cut(transfer);
        if from < to && !transfer.times.is_empty() {
            edges.extend([(from, true, index), (to, false, index)]);
        }
    }
    edges.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut account = Account { transfers: edges.len() as u64 / 2, ..Account::default() };
    // The share of a transfer that is in flight from the beginning on.
    let mut part = 0.0;
    let mut began = vec![0.0; transfers.len()];
    let (mut now, mut open, mut idle, mut sum) = (0.0, 0_u32, 0.0, 0.0);
    for (time, opens, index) in edges {
        if open > 0 {
            part += (time - now) / f64::from(open);
            sum += (time - now) * f64::from(open);
        } else {
            idle += time - now;
        }
        now = time;
        if opens {
            open += 1;
            began[index] = part;
            continue;
        }
        open -= 1;
        let times = &transfers[index].times;
        let whole = times.iter().map(|(_, time)| *time as f64).sum::<f64>();
        for (cause, time) in times {
            let name = if *cause == Cause::ClientThink { IDLE } else { cause.name() };
            *account.seconds.entry(name).or_default() += (part - began[index]) * *time as f64 / whole;
        }
    }
    idle += seconds - now;
    account.at_once = sum / (seconds - idle).max(f64::MIN_POSITIVE);
    if idle > 0.0 {
        *account.seconds.entry(IDLE).or_default() += idle;
    }
    account
}

/// The causes that a server's wait for a processor looks like in a capture, the likeliest first.
const OF_SERVER: [Cause; 2] = [Cause::ServerThink, Cause::SenderIdle];

/// The same for a client's wait, besides [`IDLE`].
const OF_CLIENT: [Cause; 4] = [Cause::SenderIdle, Cause::ReceiverStalled, Cause::DelayedAck, Cause::ReceiveWindow];

/// The same for late packets. A round trip longer than the shortest one looks like a queue or like a slow server.
const OF_EMULATOR: [Cause; 5] = [Cause::Queueing, Cause::ServerThink, Cause::Propagation, Cause::Connect, Cause::Tls];

impl Account {
    /// Charges the machine with the time that it took, instead of the causes that it looks like.
    pub(crate) fn charge_machine(&mut self, delays: Delays) {
        let names = |causes: &[Cause]| causes.iter().map(|cause| cause.name()).collect::<Vec<_>>();
        let of_client = [vec![IDLE], names(&OF_CLIENT)].concat();
        for (mut delay, causes) in
            [(delays.server, names(&OF_SERVER)), (delays.client, of_client), (delays.emulator, names(&OF_EMULATOR))]
        {
            for cause in causes {
                let Some(seconds) = self.seconds.get_mut(cause) else { continue };
                let taken = delay.min(*seconds);
                *seconds -= taken;
                delay -= taken;
                if taken > 0.0 {
                    *self.seconds.entry(MACHINE).or_default() += taken;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
