//! Pages: what a client did over several connections, seen as one.
//!
//! A browser loads a page, a program brings many files up to date: nobody waits for one transfer, but for the last of
//! many. So transfers of one client that follow each other without a silence, over more than one connection, are a
//! page. What its time was spent on is told along its critical path: from the transfer that ended last back to the one
//! that had to end before that one was asked for, and so to the first. What happened beside the path cost nothing, as
//! within a transfer (Barford and Crovella, SIGCOMM 2000), and so the causes along it add up to the page's duration.
//!
//! Which transfer had to end is not written in packets. A client goes on when something has come, so it is the one that
//! ended last before the request; a client that asks for more while an answer is still coming, as browsers may, is
//! taken to have thought since the end before. A connection that was opened early and then waited is no part of the
//! path before it was used (WProf, NSDI 2013, calls it the same: what is ready and not needed costs nothing).

use std::{net::IpAddr, time::Duration};

use super::pair_captures::PairedConnection;
use crate::causes::{Cause, CauseTimes};

/// The longest silence within a page, in nanoseconds: scripts may think for so long.
const SILENCE: u64 = 1_000_000_000;

/// A client that thinks for less has not waited for anything, in nanoseconds.
const THOUGHT: u64 = 1_000_000;

/// What is over before a request can go, in its order.
const LEAD: [Cause; 4] = [Cause::NameLookup, Cause::ConnectRetry, Cause::Connect, Cause::Tls];

/// What a client did over several connections.
#[derive(Debug, Clone)]
pub struct PageLoad {
    /// Who.
    pub client: IpAddr,
    /// When it began, since the epoch.
    pub start: Duration,
    /// Until its last transfer ended.
    pub duration: Duration,
    /// Over how many connections.
    pub connections: usize,
    /// How many transfers it had.
    pub transfers: usize,
    /// Their bytes of data, both ways.
    pub bytes: u64,
    /// What the time along the critical path was spent on; adds up to `duration`.
    pub times: CauseTimes,
    /// The transfers that waited for one another, in order.
    pub path: Vec<PageStep>,
}

/// A transfer on the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageStep {
    /// Its connection's index in the list.
    pub connection: usize,
    /// Its index among the connection's transfers.
    pub transfer: usize,
    /// When what it waited for had ended, since the epoch.
    pub start: Duration,
    /// From then until its end.
    pub duration: Duration,
}

/// A transfer in time: nanoseconds since the epoch.
#[derive(Debug, Clone, Copy)]
struct One {
    connection: usize,
    transfer: usize,
    start: u64,
    /// When its connection was ready for the request.
    ready: u64,
    /// When the request went.
    asked: u64,
    end: u64,
    /// How far the client is from the capture and back.
    away: u64,
    bytes: u64,
    times: CauseTimes,
}

impl One {
    /// When it is first seen to be about it: it opens its connection, or asks over one.
    fn begins(&self) -> u64 {
        if self.transfer == 0 { self.start } else { self.asked }
    }
}

/// The pages of connections, in the order in which they began.
pub fn page_loads(seen: &[PairedConnection]) -> Vec<PageLoad> {
    // Clocks of different captures are not the same.
    let whose = |connection: &usize| (seen[*connection].capture, seen[*connection].connection.client.ip());
    let mut sorted: Vec<usize> = (0..seen.len()).collect();
    sorted.sort_by_key(whose);
    let mut pages = Vec::new();
    for connections in sorted.chunk_by(|one, other| whose(one) == whose(other)).filter(|own| own.len() > 1) {
        let (_, client) = whose(&connections[0]);
        let mut all: Vec<One> = connections.iter().flat_map(|one| ones(*one, &seen[*one])).collect();
        all.sort_by_key(One::begins);
        let mut until = 0;
        let mut page: Vec<One> = Vec::new();
        for one in all {
            if one.begins() > until + SILENCE {
                pages.extend(PageLoad::of(client, std::mem::take(&mut page)));
            }
            until = until.max(one.end);
            page.push(one);
        }
        pages.extend(PageLoad::of(client, page));
    }
    pages.sort_by_key(|page| (page.start, page.client));
    pages
}

/// The transfers of a connection that carried anything.
fn ones(connection: usize, seen: &PairedConnection) -> impl Iterator<Item = One> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let away = nanos(seen.connection.rtt_to_client);
    seen.connection.transfers.iter().enumerate().filter(|(_, one)| one.bytes > 0).map(move |(transfer, one)| {
        let start = nanos(one.start);
        let lead: u64 = LEAD.iter().map(|cause| one.times[*cause]).sum();
        let asked = start + lead + one.times[Cause::ClientThink];
        One {
            connection,
            transfer,
            start,
            ready: start + lead,
            asked,
            end: start + nanos(one.duration),
            away,
            bytes: one.bytes,
            times: one.times,
        }
    })
}

impl PageLoad {
    /// The page of transfers, if they are one.
    fn of(client: IpAddr, mut all: Vec<One>) -> Option<Self> {
        let begin = all.iter().map(One::begins).min()?;
        let mut connections: Vec<usize> = all.iter().map(|one| one.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        if connections.len() < 2 {
            return None;
        }
        all.sort_by_key(|one| (one.end, one.start));
        let (mut times, mut path) = (CauseTimes::default(), Vec::new());
        let mut index = all.len() - 1;
        loop {
            let one = &all[index];
            let before = before(&all[..index], one);
            let from = before.map_or(begin, |before| all[before].end);
            step(one, from, &mut times);
            path.push(PageStep {
                connection: one.connection,
                transfer: one.transfer,
                start: Duration::from_nanos(from),
                duration: Duration::from_nanos(one.end - from),
            });
            let Some(before) = before else { break };
            index = before;
        }
        path.reverse();
        Some(Self {
            client,
            start: Duration::from_nanos(begin),
            duration: Duration::from_nanos(all.last().map_or(0, |last| last.end) - begin),
            connections: connections.len(),
            transfers: all.len(),
            bytes: all.iter().map(|one| one.bytes).sum(),
            times,
            path,
        })
    }
}

/// The transfer that had to end before this one was asked for, of those that ended before it.
fn before(ended: &[One], one: &One) -> Option<usize> {
    let until = |limit: u64| ended.partition_point(|other| other.end <= limit).checked_sub(1);
    // A client that thought although its connection was ready waited for something else.
    let waited = one.asked - one.ready >= THOUGHT;
    let late = until(one.asked).filter(|index| waited && ended[*index].end > one.ready);
    let early = || {
        let last = until(one.start)?;
        // Of several that ended then, the one before it on its own connection.
        let same = (0..=last).rev().take_while(|index| ended[*index].end == ended[last].end);
        Some({ same }.find(|index| ended[*index].connection == one.connection).unwrap_or(last))
    };
    late.or_else(early)
}

/// Adds what a transfer spent its time on since a moment.
fn step(one: &One, from: u64, times: &mut CauseTimes) {
    let mut own = one.times;
    if from < one.start {
        // The client had heard, and took its time to open a connection.
        let travel = (one.start - from).min(one.away);
        own[Cause::Propagation] += travel;
        own[Cause::ClientThink] += one.start - from - travel;
    }
    let mut surplus = from.saturating_sub(one.start);
    let ranked = one.times.ranked().into_iter().map(|(cause, _)| cause);
    for cause in LEAD.into_iter().chain([Cause::ClientThink]).chain(ranked) {
        let off = own[cause].min(surplus);
        own[cause] -= off;
        surplus -= off;
    }
    for (cause, time) in own.ranked() {
        times[cause] += time;
    }
}
