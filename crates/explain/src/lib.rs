//! From packets to causes: what the time of a transfer was spent on, and how long it would take otherwise.
//!
//! Somebody has a slow transfer and a capture of it. Packet analysers flag events, a retransmission here, a full
//! window there; none says what the time was spent on. This room answers that question, for any capture, from any
//! place, and to the nanosecond: every instant of a transfer belongs to exactly one cause, and they add up.
//!
//! ```text
//! capture ─> collect ─> Connection: events of 32 bytes, and what read could read of HTTP, TLS, DNS
//!                │
//!                ├─> vantage    where it was captured: how far it is to each end
//!                ├─> exchange   which bytes are a request, which its response
//!                ├─> facts      MSS, path rate, chunks of the sender's writes      (seat, a first time)
//!                │              talk: what is no message, and HTTP/2's window in TLS
//!                ▼
//!          walk, timeline       along the chain of packets                         (seat, a second time)
//!                │   wait       what let this packet go?
//!                │   causes     whose is which part of the wait?
//!                ▼
//!             report            transfers, their times and findings    pages: those that make a whole
//!                │                                                          ends, ways: both ends' captures
//!                ▼
//!             whatif ─> replica how long otherwise?
//!                │
//!                ▼
//!       text, json, view       for a terminal, for programs, for a page
//! ```
//!
//! # The critical path
//!
//! Barford and Crovella (SIGCOMM 2000) took a transfer for a graph of packets, each let go by an earlier one, and
//! asked only what lies on the path from the last byte back to the first cause: what happens beside it costs nothing.
//! Their graph needs captures from both ends. Here one is enough, as the sender's seat ([`seat`]) is reached by
//! moving acknowledgements in time; what is between two links of the chain is a [`wait`], and each cause claims its
//! part of it ([`causes`]). A window that is full while the path is busy anyway is no cause, because the path's
//! narrowest link is followed as well: what it needs for the transfer's own bytes is set apart first.
//!
//! # What if
//!
//! To subtract what a cause has cost would be wrong: without it the packets would go at other times, and other causes
//! would show. So the transfer is run again ([`replica`]), from what was inferred of it.

mod acks;
mod causes;
mod collect;
mod ends;
mod event;
mod exchange;
mod facts;
mod finding;
pub mod json;
mod pages;
mod read;
pub mod replica;
mod report;
mod seat;
mod story;
mod talk;
pub mod text;
mod timeline;
mod vantage;
pub mod view;
mod wait;
mod walk;
mod ways;
mod whatif;

use std::{
    iter,
    net::SocketAddr,
    panic,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, SyncSender},
    },
    thread,
    time::Duration,
};

use capture::{Error, Fragments, Source};

pub use acks::AckHabit;
pub use causes::{Cause, Times};
pub use ends::{Seen, match_ends};
pub use event::Side;
pub use finding::{Finding, Fix, bytes, rate_text, time_text};
pub use pages::{Page, Step, pages};
pub use report::{Connection, Direction, Transfer};
pub use vantage::Vantage;
pub use ways::{Way, Ways};
pub use whatif::Predicted;

/// A capture explained.
#[derive(Debug, Default)]
pub struct Explanation {
    /// How many packets it has.
    pub packets: u64,
    /// When the first packet passed, since the epoch.
    pub start: Duration,
    /// Its connections, in the order of their first packets.
    pub connections: Vec<Connection>,
}

/// How many packets of a capture are kept at most, of 32 bytes each.
const KEPT: usize = 4_000_000;

/// How many finished connections may wait to be explained.
const WAITING: usize = 64;

/// Explains a capture: one thread reads it, and as many as there are processors explain the connections that are
/// over. Where it breaks off, what was whole is explained, and the error says where that was.
pub fn explain(source: &mut (impl Source + ?Sized)) -> (Explanation, Option<Error>) {
    explain_keeping(source, Keep::default())
}

/// What is kept of packets when they are explained, which is otherwise nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keep<'a> {
    /// For [`match_ends`] to tell the way between captures of the same connections: the first four million.
    pub for_ends: bool,
    /// For a page that shows them.
    pub for_page: Option<&'a view::Keeper>,
}

/// Explains a capture like [`explain()`], and keeps packets.
pub fn explain_keeping(source: &mut (impl Source + ?Sized), keep: Keep) -> (Explanation, Option<Error>) {
    let kept = AtomicUsize::new(0);
    let one = |connection: Box<collect::Connection>| {
        let mut explained = Connection::explain(&connection, keep.for_page)?;
        let events = connection.events;
        if keep.for_ends && kept.fetch_add(events.len(), Ordering::Relaxed) + events.len() <= KEPT {
            explained.events = events;
        }
        Some(explained)
    };
    let mut explanation = Explanation::default();
    let (finished, waiting) = mpsc::sync_channel::<Box<collect::Connection>>(WAITING);
    let waiting = Mutex::new(waiting);
    let next = || waiting.lock().ok()?.recv().ok();
    let work = || iter::from_fn(next).filter_map(&one).collect::<Vec<_>>();
    let broken = thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let broken = collect(source, &mut explanation, keep.for_page.is_some(), &finished);
        drop(finished);
        for worker in workers {
            let explained = worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            explanation.connections.extend(explained);
        }
        broken
    });
    explanation.connections.sort_by_key(|connection| (connection.packet, connection.start));
    for connection in &mut explanation.connections {
        let name = |end: SocketAddr| source.name(end.ip()).map(str::to_owned);
        connection.names = [name(connection.client), name(connection.server)];
    }
    (explanation, broken)
}

/// Reads a capture and hands its connections out when they are over. What nobody takes, nobody is left to explain.
fn collect(
    source: &mut (impl Source + ?Sized),
    explanation: &mut Explanation,
    keeps: bool,
    finished: &SyncSender<Box<collect::Connection>>,
) -> Option<Error> {
    let mut collector = collect::Collector::keeping(keeps);
    let mut fragments = Fragments::default();
    let broken = loop {
        match source.next() {
            Ok(Some(packet)) => {
                if explanation.packets == 0 {
                    explanation.start = packet.time;
                }
                explanation.packets += 1;
                let Some(packet) = fragments.whole(packet) else { continue };
                collector.add(&packet);
                collector.finished.drain(..).for_each(|one| drop(finished.send(one)));
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    collector.finish();
    collector.finished.drain(..).for_each(|one| drop(finished.send(one)));
    broken
}
