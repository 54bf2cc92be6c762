//! What a sample's time was spent on.
//!
//! `explain` accounts for each transfer by itself: all of its time has a cause. A contender may have many under way
//! at once, on many connections, and then their times add up to more than the sample's. So every instant of the
//! sample is divided evenly among the transfers that are under way at it, and each spends its part on its causes in
//! the proportion in which it spent all of its time. Where none is under way, the link is idle: the client works,
//! waits for its disk or for a timer. Thus all adds up to the sample's time, and nothing is counted twice.
//!
//! (To follow one critical transfer back from the end was rejected: of sixteen that run side by side none is more
//! critical than the others, and whichever is taken hides what they have in common behind what it had by chance.)
//!
//! A client that could ask and does not yet has nothing under way. `explain` gives that to the transfer that comes,
//! as it must not leave a gap; here it is taken off, and is idle time only if nobody else used it. In a connection's
//! first transfer, where handshakes come before it, nobody knows when it was; there it is idle time as it stands.
//!
//! A transfer that begins before the clock does, as one of a connection that was opened in the preparation may, is cut
//! as if its causes had been spread evenly over it.

mod remedy;
mod sentence;

use std::{collections::BTreeMap, time::Duration};

use explain::{Cause, Explanation};

pub(crate) use remedy::{of as remedy_of, remedy};
pub(crate) use sentence::sentence;

/// The time in which nothing was under way, beside the names of [`Cause`]; [`Cause::ClientThink`] is part of it.
pub(crate) const IDLE: &str = "idle";

/// A transfer from when it is under way until it ends, in seconds since the sample began.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transfer {
    from: f64,
    to: f64,
    /// What its time was spent on, in any unit.
    times: Vec<(Cause, u64)>,
}

/// A sample's time, accounted for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Account {
    /// Seconds by cause; they add up to the sample's.
    pub(crate) seconds: BTreeMap<&'static str, f64>,
    /// How many transfers were under way in it.
    pub(crate) transfers: u64,
    /// How many were under way at once, on average over the time in which any was.
    pub(crate) at_once: f64,
}

/// All transfers of a capture, for a sample that began then (since the epoch).
pub(crate) fn transfers(explanation: &Explanation, began: Duration) -> Vec<Transfer> {
    let each = |connection: &'_ explain::Connection| -> Vec<Transfer> {
        let numbered = connection.transfers.iter().enumerate();
        numbered.map(|(place, transfer)| Transfer::of(transfer, place == 0, began)).collect()
    };
    explanation.connections.iter().flat_map(each).collect()
}

impl Transfer {
    fn of(transfer: &explain::Transfer, first: bool, began: Duration) -> Self {
        let since =
            |time: Duration| time.saturating_sub(began).as_secs_f64() - began.saturating_sub(time).as_secs_f64();
        let (start, end) = (since(transfer.start), since(transfer.start + transfer.duration));
        let mut times = transfer.times;
        let mut off = 0;
        if !first || transfer.bytes == 0 {
            std::mem::swap(&mut off, &mut times[Cause::ClientThink]);
        }
        let off = Duration::from_nanos(off).as_secs_f64();
        // A connection that carries nothing waits after its handshake, any other before it asks.
        let (from, to) = if transfer.bytes == 0 { (start, end - off) } else { (start + off, end) };
        Self { from, to, times: times.ranked() }
    }
}

/// Divides the time of a sample that took so many seconds.
pub(crate) fn account(transfers: &[Transfer], seconds: f64) -> Account {
    let cut = |transfer: &Transfer| (transfer.from.clamp(0.0, seconds), transfer.to.clamp(0.0, seconds));
    let mut edges: Vec<(f64, bool, usize)> = Vec::new();
    for (place, transfer) in transfers.iter().enumerate() {
        let (from, to) = cut(transfer);
        if from < to && !transfer.times.is_empty() {
            edges.extend([(from, true, place), (to, false, place)]);
        }
    }
    edges.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut account = Account { transfers: edges.len() as u64 / 2, ..Account::default() };
    // What a transfer would have got that was under way from the beginning on.
    let mut part = 0.0;
    let mut began = vec![0.0; transfers.len()];
    let (mut now, mut open, mut idle, mut sum) = (0.0, 0_u32, 0.0, 0.0);
    for (time, opens, place) in edges {
        if open > 0 {
            part += (time - now) / f64::from(open);
            sum += (time - now) * f64::from(open);
        } else {
            idle += time - now;
        }
        now = time;
        if opens {
            open += 1;
            began[place] = part;
            continue;
        }
        open -= 1;
        let times = &transfers[place].times;
        let whole = times.iter().map(|(_, time)| *time as f64).sum::<f64>();
        for (cause, time) in times {
            let name = if *cause == Cause::ClientThink { IDLE } else { cause.name() };
            *account.seconds.entry(name).or_default() += (part - began[place]) * *time as f64 / whole;
        }
    }
    idle += seconds - now;
    account.at_once = sum / (seconds - idle).max(f64::MIN_POSITIVE);
    if idle > 0.0 {
        *account.seconds.entry(IDLE).or_default() += idle;
    }
    account
}

#[cfg(test)]
mod tests;
