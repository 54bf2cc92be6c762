//! One thread reads the capture, and as many as there are processors explain its connections. To start them takes longer
//! than to explain a small capture, so they start when it turns out to be large.

use std::{
    iter,
    net::SocketAddr,
    panic,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use capture::{Error, Fragments, Source};

use crate::{
    analyse,
    collect::{CapturedConnection, Collector},
    explanation::{Coverage, Explanation},
    known_link::KnownLink,
    packet_store::PacketStore,
};

/// The maximum number of packets of a capture that are kept to pair it with another one, of 32 bytes each.
const MAX_PAIRING_PACKETS: usize = 4_000_000;

/// The maximum number of finished connections that wait for a thread to explain them.
const QUEUE: usize = 64;

/// The number of packets of which the reading thread explains the connections itself, if there are no more.
const SMALL_CAPTURE: u64 = 10_000;

/// Which packets to keep after they are explained; by default none.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepPackets<'a> {
    /// For [`pair_captures`](crate::pair_captures), which computes one-way delays between captures of the same
    /// connections; at most four million packets of a capture.
    pub for_pairing: bool,
    /// For a page that shows them.
    pub for_page: Option<&'a PacketStore>,
}

/// Explains a capture.
///
/// If the capture breaks off, the part before is explained and the error says where it ended.
///
/// The source is no type parameter, so that this is compiled, and optimised, here.
pub fn explain(source: &mut dyn Source) -> (Explanation, Option<Error>) {
    explain_keeping(source, KeepPackets::default())
}

/// Explains a capture like [`explain()`], and keeps packets.
pub fn explain_keeping(source: &mut dyn Source, keep: KeepPackets) -> (Explanation, Option<Error>) {
    explain_on(None, source, keep)
}

/// Explains a capture like [`explain_keeping`], of a link that is known. Without one, the link is that which the capture says
/// ([`Source::link_rates`]), if it does.
pub fn explain_on(link: Option<KnownLink>, source: &mut dyn Source, keep: KeepPackets) -> (Explanation, Option<Error>) {
    let kept = AtomicUsize::new(0);
    let duplicates = AtomicU64::new(0);
    let explain_one = |mut connection: Box<CapturedConnection>| {
        duplicates.fetch_add(connection.duplicates.found, Ordering::Relaxed);
        let mut explained = analyse::explain(&mut connection, link, keep.for_page)?;
        let segments = connection.segments;
        if keep.for_pairing && kept.fetch_add(segments.len(), Ordering::Relaxed) + segments.len() <= MAX_PAIRING_PACKETS
        {
            explained.segments = segments;
        }
        Some(explained)
    };
    let mut explanation = Explanation::default();
    let (to_workers, queue) = mpsc::sync_channel::<Box<CapturedConnection>>(QUEUE);
    let queue = Mutex::new(queue);
    let next = || queue.lock().ok()?.recv().ok();
    let work = || iter::from_fn(next).filter_map(&explain_one).collect::<Vec<_>>();
    let error = thread::scope(|scope| {
        let (mut workers, mut waiting) = (Vec::new(), Vec::new());
        let error = read(source, &mut explanation, keep.for_page.is_some(), |connection, packets| {
            if packets <= SMALL_CAPTURE {
                waiting.push(connection);
                return;
            }
            if workers.is_empty() {
                let count = thread::available_parallelism().map_or(1, usize::from);
                workers.extend((0..count).map(|_| scope.spawn(work)));
            }
            // Sending fails only if all workers have panicked; joining them resumes the panic.
            waiting.drain(..).chain([connection]).for_each(|connection| drop(to_workers.send(connection)));
        });
        drop(to_workers);
        explanation.connections.extend(waiting.into_iter().filter_map(&explain_one));
        for worker in workers {
            let explained = worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            explanation.connections.extend(explained);
        }
        error
    });
    explanation.coverage = Coverage { drops: source.drops(), duplicates: duplicates.into_inner() };
    explanation.connections.sort_by_key(|connection| (connection.packet, connection.start));
    for connection in &mut explanation.connections {
        let name = |end: SocketAddr| source.name(end.ip()).map(str::to_owned);
        connection.names = [name(connection.client), name(connection.server)];
    }
    (explanation, error)
}

/// Reads a capture and hands over its connections as they finish, with the number of packets read so far.
fn read(
    source: &mut dyn Source,
    explanation: &mut Explanation,
    keep_sacks: bool,
    mut hand_over: impl FnMut(Box<CapturedConnection>, u64),
) -> Option<Error> {
    let mut collector = Collector::new(keep_sacks);
    let mut fragments = Fragments::default();
    let error = loop {
        match source.next() {
            Ok(Some(packet)) => {
                if explanation.packets == 0 {
                    explanation.start = packet.time;
                }
                explanation.packets += 1;
                let Some(packet) = fragments.reassemble(packet) else { continue };
                collector.add(&packet);
                for mut connection in collector.take_finished() {
                    connection.link_rates = source.link_rates();
                    hand_over(connection, explanation.packets);
                }
            }
            Ok(None) => break None,
            Err(error) => {
                if matches!(error, Error::LinkType { .. } | Error::Encrypted { .. }) {
                    // Nothing of them could be read.
                    explanation.packets = 0;
                }
                break Some(error);
            }
        }
    };
    collector.finish();
    for mut connection in collector.take_finished() {
        connection.link_rates = source.link_rates();
        hand_over(connection, explanation.packets);
    }
    error
}
