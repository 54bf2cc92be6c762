//! One thread reads the capture, and as many as there are processors explain its connections.

use std::{
    iter,
    net::SocketAddr,
    panic,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, SyncSender},
    },
    thread,
};

use capture::{Error, Fragments, Source};

use crate::{
    analyse,
    collect::{CapturedConnection, Collector},
    explanation::{Coverage, Explanation},
    packet_store::PacketStore,
};

/// The maximum number of packets of a capture that are kept to pair it with another one, of 32 bytes each.
const MAX_PAIRING_PACKETS: usize = 4_000_000;

/// The maximum number of finished connections that wait for a thread to explain them.
const QUEUE: usize = 64;

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
pub fn explain(source: &mut (impl Source + ?Sized)) -> (Explanation, Option<Error>) {
    explain_keeping(source, KeepPackets::default())
}

/// Explains a capture like [`explain()`], and keeps packets.
pub fn explain_keeping(source: &mut (impl Source + ?Sized), keep: KeepPackets) -> (Explanation, Option<Error>) {
    let kept = AtomicUsize::new(0);
    let duplicates = AtomicU64::new(0);
    let explain_one = |connection: Box<CapturedConnection>| {
        duplicates.fetch_add(connection.duplicates.found, Ordering::Relaxed);
        let mut explained = analyse::explain(&connection, keep.for_page)?;
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
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let error = read(source, &mut explanation, keep.for_page.is_some(), &to_workers);
        drop(to_workers);
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

/// Reads a capture and hands over its connections as they finish.
fn read(
    source: &mut (impl Source + ?Sized),
    explanation: &mut Explanation,
    keep_sacks: bool,
    to_workers: &SyncSender<Box<CapturedConnection>>,
) -> Option<Error> {
    let mut collector = Collector::new(keep_sacks);
    let mut fragments = Fragments::default();
    // Sending fails only if all workers have panicked; joining them resumes the panic.
    let hand_over = |collector: &mut Collector| {
        collector.finished.drain(..).for_each(|connection| drop(to_workers.send(connection)));
    };
    let error = loop {
        match source.next() {
            Ok(Some(packet)) => {
                if explanation.packets == 0 {
                    explanation.start = packet.time;
                }
                explanation.packets += 1;
                let Some(packet) = fragments.reassemble(packet) else { continue };
                collector.add(&packet);
                hand_over(&mut collector);
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
    hand_over(&mut collector);
    error
}
