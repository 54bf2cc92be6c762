//! Page loads: the work of one client over several connections.
//!
//! A browser loads a page, a program synchronises many files: the user does not wait for one transfer, but for the last of
//! many. So transfers of one client that follow each other without a silence, over more than one connection, form a page
//! load. Its time is that of its critical path: from the transfer that ended last back to the one that had to end before
//! that one was requested, and so to the first. What happened beside the path cost nothing, as within a transfer (Barford
//! and Crovella, SIGCOMM 2000), and so the causes along it add up to the page load's duration.
//!
//! Packets do not say which transfer had to end. A client goes on when something has arrived, so it is taken to be the
//! transfer that ended last before the request. A client that requests more while a response is still arriving, as
//! browsers may, seems to think since the end before. A connection that was opened early and then waited is no part of
//! the path before it was used (as in WProf, NSDI 2013: what is ready and not needed costs nothing).

use std::{net::IpAddr, time::Duration};

use super::pair_captures::PairedConnection;
use crate::causes::{Cause, CauseTimes, LEAD};

/// The longest silence within a page load, in nanoseconds: scripts may run that long.
const MAX_SILENCE: u64 = 1_000_000_000;

/// A client with a shorter think time has not waited for anything, in nanoseconds.
const MIN_THINK_TIME: u64 = 1_000_000;

/// The maximum number of transfers among which the one is looked for that a silent connection waits for: those that end
/// first. There may be very many, and very many silences.
const MAX_OTHERS: usize = 64;

/// The work of one client over several connections.
#[derive(Debug, Clone)]
pub struct PageLoad {
    /// The client's address.
    pub client: IpAddr,
    /// When it began, since the epoch.
    pub start: Duration,
    /// Until its last transfer ended.
    pub duration: Duration,
    /// The number of connections.
    pub connections: usize,
    /// The number of transfers.
    pub transfers: usize,
    /// Bytes of data, in both directions.
    pub bytes: u64,
    /// The time along the critical path by cause; adds up to `duration`.
    pub times: CauseTimes,
    /// The transfers on the critical path, in order.
    pub path: Vec<PageStep>,
}

/// A transfer on the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageStep {
    /// The index of its connection.
    pub connection: usize,
    /// Its index among the connection's transfers.
    pub transfer: usize,
    /// When the transfer before it on the path had ended, since the epoch.
    pub start: Duration,
    /// From then until its end.
    pub duration: Duration,
}

/// A transfer; times are in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy)]
struct TimedTransfer {
    connection: usize,
    transfer: usize,
    start: u64,
    /// When its connection was ready for the request.
    ready: u64,
    /// When the request was sent.
    requested: u64,
    end: u64,
    /// The round-trip time between capture point and client.
    rtt_to_client: u64,
    bytes: u64,
    times: CauseTimes,
}

impl TimedTransfer {
    /// When its first packet was sent: it opens its connection, or requests over an open one.
    fn begins(&self) -> u64 {
        if self.transfer == 0 { self.start } else { self.requested }
    }
}

/// The page loads of connections, in the order in which they began.
pub fn page_loads(connections: &[PairedConnection]) -> Vec<PageLoad> {
    // The clocks of different captures differ.
    let client_of = |index: &usize| (connections[*index].capture, connections[*index].connection.client.ip());
    let mut sorted: Vec<usize> = (0..connections.len()).collect();
    sorted.sort_by_key(client_of);
    let mut page_loads = Vec::new();
    for indices in sorted.chunk_by(|one, other| client_of(one) == client_of(other)).filter(|own| own.len() > 1) {
        let (_, client) = client_of(&indices[0]);
        let transfers = indices.iter().flat_map(|index| timed_transfers(*index, &connections[*index]));
        let mut transfers: Vec<TimedTransfer> = transfers.collect();
        transfers.sort_by_key(TimedTransfer::begins);
        let mut until = 0;
        let mut current: Vec<TimedTransfer> = Vec::new();
        for transfer in transfers {
            if transfer.begins() > until + MAX_SILENCE {
                page_loads.extend(PageLoad::of(client, std::mem::take(&mut current)));
            }
            until = until.max(transfer.end);
            current.push(transfer);
        }
        page_loads.extend(PageLoad::of(client, current));
    }
    page_loads.sort_by_key(|page_load| (page_load.start, page_load.client));
    page_loads
}

/// The transfers of a connection that carried data.
fn timed_transfers(connection: usize, paired: &PairedConnection) -> impl Iterator<Item = TimedTransfer> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let rtt_to_client = nanos(paired.connection.rtt_to_client);
    let with_data = paired.connection.transfers.iter().enumerate().filter(|(_, transfer)| transfer.bytes > 0);
    with_data.map(move |(index, transfer)| {
        let start = nanos(transfer.start);
        let lead: u64 = LEAD.iter().map(|cause| transfer.times[*cause]).sum();
        TimedTransfer {
            connection,
            transfer: index,
            start,
            ready: start + lead,
            requested: start + lead + transfer.times[Cause::ClientThink],
            end: start + nanos(transfer.duration),
            rtt_to_client,
            bytes: transfer.bytes,
            times: transfer.times.of_all_connections(),
        }
    })
}

impl PageLoad {
    /// The page load of these transfers; none if they used a single connection.
    fn of(client: IpAddr, mut transfers: Vec<TimedTransfer>) -> Option<Self> {
        let begin = transfers.iter().map(TimedTransfer::begins).min()?;
        let mut connections: Vec<usize> = transfers.iter().map(|transfer| transfer.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        if connections.len() < 2 {
            return None;
        }
        transfers.sort_by_key(|transfer| (transfer.end, transfer.start));
        let (mut times, mut path) = (CauseTimes::default(), Vec::new());
        let mut index = transfers.len() - 1;
        loop {
            let transfer = &transfers[index];
            let predecessor = predecessor(&transfers[..index], transfer);
            let from = predecessor.map_or(begin, |predecessor| transfers[predecessor].end);
            add_times_since(from, transfer, &mut times);
            spend_think_time(from, transfer, &transfers, &mut times);
            path.push(PageStep {
                connection: transfer.connection,
                transfer: transfer.transfer,
                start: Duration::from_nanos(from),
                duration: Duration::from_nanos(transfer.end - from),
            });
            let Some(predecessor) = predecessor else { break };
            index = predecessor;
        }
        path.reverse();
        Some(Self {
            client,
            start: Duration::from_nanos(begin),
            duration: Duration::from_nanos(transfers.last().map_or(0, |last| last.end) - begin),
            connections: connections.len(),
            transfers: transfers.len(),
            bytes: transfers.iter().map(|transfer| transfer.bytes).sum(),
            times,
            path,
        })
    }
}

/// The index of the transfer that had to end before this one was requested. `ended` are those that ended before it, in
/// that order.
fn predecessor(ended: &[TimedTransfer], transfer: &TimedTransfer) -> Option<usize> {
    let last_until = |limit: u64| ended.partition_point(|other| other.end <= limit).checked_sub(1);
    // A client that thought although its connection was ready waited for another transfer.
    let has_waited = transfer.requested - transfer.ready >= MIN_THINK_TIME;
    let late = last_until(transfer.requested).filter(|index| has_waited && ended[*index].end > transfer.ready);
    let early = || {
        let last = last_until(transfer.start)?;
        // Of several that ended then, the one on its own connection.
        let same_end = (0..=last).rev().take_while(|index| ended[*index].end == ended[last].end);
        Some({ same_end }.find(|index| ended[*index].connection == transfer.connection).unwrap_or(last))
    };
    late.or_else(early)
}

/// A client that seems to think on one connection while it is busy on another does not think: a control connection is
/// silent during the transfer that it controls. That part of the think time is spent as the other transfer spent it.
fn spend_think_time(from: u64, transfer: &TimedTransfer, all: &[TimedTransfer], times: &mut CauseTimes) {
    let thinks_from = transfer.ready.max(from);
    if transfer.requested < thinks_from + MIN_THINK_TIME {
        return;
    }
    let overlap = |other: &TimedTransfer| {
        transfer.requested.min(other.end).saturating_sub(thinks_from.max(other.requested.max(other.start)))
    };
    // In the order of their ends: those before have no part in it.
    let begin = all.partition_point(|other| other.end <= thinks_from);
    let is_other =
        |other: &&TimedTransfer| (other.connection, other.transfer) != (transfer.connection, transfer.transfer);
    let others = all[begin..].iter().take(MAX_OTHERS).filter(is_other);
    let Some(other) = others.max_by_key(|other| overlap(other)) else { return };
    let mut left = overlap(other).min(times[Cause::ClientThink]);
    times[Cause::ClientThink] -= left;
    let spent =
        other.times.ranked().into_iter().filter(|(cause, _)| !LEAD.contains(cause) && *cause != Cause::ClientThink);
    let spent: Vec<_> = spent.collect();
    let (all, overlapped) = (spent.iter().map(|(_, time)| time).sum::<u64>().max(1), left);
    for (cause, time) in &spent {
        let part = (u128::from(overlapped) * u128::from(*time) / u128::from(all)) as u64;
        times[*cause] += part;
        left -= part;
    }
    // What division left over.
    times[spent.first().map_or(Cause::ClientThink, |(cause, _)| *cause)] += left;
}

/// Adds the times of a transfer since `from`.
fn add_times_since(from: u64, transfer: &TimedTransfer, times: &mut CauseTimes) {
    let mut own = transfer.times;
    if from < transfer.start {
        // The client had received the response, and took its time to open a connection.
        let travel = (transfer.start - from).min(transfer.rtt_to_client);
        own[Cause::Propagation] += travel;
        own[Cause::ClientThink] += transfer.start - from - travel;
    }
    let mut surplus = from.saturating_sub(transfer.start);
    let ranked = transfer.times.ranked().into_iter().map(|(cause, _)| cause);
    for cause in LEAD.into_iter().chain([Cause::ClientThink]).chain(ranked) {
        let taken = own[cause].min(surplus);
        own[cause] -= taken;
        surplus -= taken;
    }
    for (cause, time) in own.ranked() {
        times[cause] += time;
    }
}
