//! What clients make the server hold, and how it is bounded.
//!
//! A client may ask for a lot and read nothing of it. `hyper` takes the first piece of a response before it knows whether
//! the client has a window for it (RFC 9113 §5.2), and a second one as soon as the client allows a byte. With 200 streams
//! per connection, a fixed size of these pieces would be too large for a hostile client, or too small for all others. So
//! everything that is held for a client counts for its connection, for its address and for all:
//!
//! - **Pieces become smaller** as the budget is spent, down to [`MIN_PIECE`]. Then a body has one piece at a time. It need
//!   not wait for others: a client that reads one of its streams gets it, whatever it does with the rest.
//! - **Requests in flight have a limit.** Each has an open file, a task and a head. Beyond the limit, `admission` closes the
//!   connection that has most of them, of the same address.
//!
//! A piece counts until nobody has it any more: the kernel took it, or over QUIC, the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::activity::Activity;

/// The size of a piece of a body.
const MAX_PIECE: usize = 128 * 1024;
const MIN_PIECE: usize = 4 * 1024;

/// The largest part of what is left that one piece may take.
const SHARES: usize = 16;

/// Bytes in pieces: of a connection, of an address, and of all.
const OF_CONNECTION: usize = 8 * 1024 * 1024;
const OF_ADDRESS: usize = 16 * 1024 * 1024;
const OF_ALL: usize = 256 * 1024 * 1024;

/// Bytes that the kernel takes for a connection although the client has no window for them, and for those of an address.
const MIN_UNSENT: usize = 16 * 1024;
const MAX_UNSENT: usize = 128 * 1024;
const UNSENT_OF_ADDRESS: usize = 8 * 1024 * 1024;

/// Maximum size of a request's head.
pub(crate) const HEAD_SIZE: usize = 64 * 1024;

/// Buffers of HTTP/1.1, which hold a request's head, or what of its body was read at once: of a connection, and of those of
/// an address.
const MIN_BUFFER: usize = 16 * 1024;
const BUFFERS_OF_ADDRESS: usize = 6 * 1024 * 1024;

/// Web pages that list a folder, which `dav-server` holds whole, per address.
const PAGES: usize = 4;

/// What is held for one connection, one address or all.
#[derive(Debug)]
pub(crate) struct Held {
    limit: usize,
    bytes: AtomicUsize,
    /// Requests in flight; one with a large head counts for several.
    requests: AtomicUsize,
    /// Requests so far.
    begun: AtomicUsize,
    /// Those that a limit has refused.
    refused: AtomicUsize,
    pages: Arc<Semaphore>,
}

impl Held {
    fn new(limit: usize) -> Self {
        let (bytes, requests, begun, refused) = Default::default();
        Held { limit, bytes, requests, begun, refused, pages: Arc::new(Semaphore::new(PAGES)) }
    }

    /// For an address.
    pub(crate) fn of_address() -> Arc<Self> {
        Arc::new(Self::new(OF_ADDRESS))
    }

    /// For all.
    pub(crate) fn of_all() -> Arc<Self> {
        Arc::new(Self::new(OF_ALL))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }
}

/// A connection's budget.
#[derive(Debug)]
pub(crate) struct Budget {
    connection: Held,
    pub(crate) address: Arc<Held>,
    pub(crate) all: Arc<Held>,
}

impl Budget {
    pub(crate) fn new(address: Arc<Held>, all: Arc<Held>) -> Self {
        Budget { connection: Held::new(OF_CONNECTION), address, all }
    }

    /// Of a connection of its own address.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Self {
        Self::new(Held::of_address(), Held::of_all())
    }

    fn levels(&self) -> [&Held; 3] {
        [&self.connection, &self.address, &self.all]
    }

    /// The size of the next piece.
    pub(crate) fn piece(&self) -> usize {
        let left = self.levels().map(|held| held.limit.saturating_sub(held.bytes()));
        (left.into_iter().min().unwrap_or(0) / SHARES).clamp(MIN_PIECE, MAX_PIECE)
    }

    /// How many bytes the kernel may take that it cannot send (`TCP_NOTSENT_LOWAT` of tcp(7)). Without a limit it takes
    /// megabytes for each connection that asks and does not read.
    pub(crate) fn unsent(&self) -> usize {
        self.share(UNSENT_OF_ADDRESS).clamp(MIN_UNSENT, MAX_UNSENT)
    }

    /// The size of the buffers of HTTP/1.1.
    pub(crate) fn buffer(&self) -> usize {
        self.share(BUFFERS_OF_ADDRESS).clamp(MIN_BUFFER, HEAD_SIZE)
    }

    /// A connection's part of what its address may have.
    fn share(&self, of_address: usize) -> usize {
        // Each connection of the address has a reference to it.
        of_address / Arc::strong_count(&self.address)
    }

    /// Whether a body that has a piece waits with the next one.
    pub(crate) fn is_spent(&self) -> bool {
        self.piece() == MIN_PIECE
    }

    /// A request begins, which counts for so many.
    pub(crate) fn begin(&self, weight: usize) {
        for held in self.levels() {
            held.requests.fetch_add(weight, Ordering::Relaxed);
            held.begun.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It has ended.
    pub(crate) fn end(&self, weight: usize) {
        for held in self.levels() {
            held.requests.fetch_sub(weight, Ordering::Relaxed);
        }
    }

    /// A limit has refused a request.
    pub(crate) fn refuse(&self) {
        self.all.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests in flight on the connection.
    pub(crate) fn requests(&self) -> usize {
        self.connection.requests()
    }

    /// Waits for the permission to hold a whole web page.
    pub(crate) async fn page(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.address.pages).acquire_owned().await.ok()
    }
}

/// Bytes that are held for a client, until dropped.
pub(crate) struct Hold {
    activity: Arc<Activity>,
    bytes: usize,
}

impl Hold {
    pub(crate) fn new(activity: &Arc<Activity>, bytes: usize) -> Self {
        let mut hold = Hold { activity: Arc::clone(activity), bytes: 0 };
        hold.grow(bytes);
        hold
    }

    pub(crate) fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        for held in self.activity.budget.levels() {
            held.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        for held in self.activity.budget.levels() {
            held.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// So many are held now.
    pub(crate) fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.grow(more),
            None => self.shrink(self.bytes - bytes),
        }
    }

    /// The size of the next piece on this connection.
    pub(crate) fn piece(&self) -> usize {
        self.activity.budget.piece()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The pieces of one body that somebody still has.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    pieces: AtomicUsize,
    waiting: AtomicWaker,
}

impl Outstanding {
    /// Whether there is none; otherwise the task is woken when the last one has gone.
    pub(crate) fn is_none(&self, context: &std::task::Context<'_>) -> bool {
        if self.pieces.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.waiting.register(context.waker());
        self.pieces.load(Ordering::Acquire) == 0
    }

    /// The same bytes, which count until they are dropped.
    pub(crate) fn counted(self: &Arc<Self>, bytes: Bytes, activity: &Arc<Activity>) -> Bytes {
        if bytes.is_empty() {
            return bytes;
        }
        self.pieces.fetch_add(1, Ordering::AcqRel);
        let hold = Hold::new(activity, bytes.len());
        Bytes::from_owner(Piece { bytes, _hold: hold, of: Arc::clone(self) })
    }
}

struct Piece {
    bytes: Bytes,
    _hold: Hold,
    of: Arc<Outstanding>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.of.pieces.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.of.waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;

    use super::*;

    #[test]
    fn pieces_become_smaller_as_the_budget_is_spent() {
        let address = Held::of_address();
        let connect = || Activity::new(Budget::new(Arc::clone(&address), Held::of_all()));
        let (mut holds, connections) = (Vec::new(), [(); 8].map(|()| connect()));
        assert_eq!(connections[0].budget.piece(), MAX_PIECE);
        // Each asks for as many pieces as HTTP/2 allows, and reads none.
        for activity in &connections {
            for _ in 0..200 {
                holds.push(Hold::new(activity, activity.budget.piece()));
            }
        }
        let held = address.bytes.load(Ordering::Relaxed);
        assert!(held <= OF_ADDRESS + 8 * 200 * MIN_PIECE, "{held}");
        assert!(connections[7].budget.is_spent());
        assert_eq!(Activity::new(Budget::of_tests()).budget.piece(), MAX_PIECE);
        drop(holds);
        assert_eq!((address.bytes.load(Ordering::Relaxed), connections[7].budget.piece()), (0, MAX_PIECE));
    }

    #[test]
    fn a_piece_counts_until_its_last_copy_is_dropped() {
        let activity = Activity::new(Budget::of_tests());
        let (outstanding, waker) = (Arc::<Outstanding>::default(), noop_waker());
        let context = std::task::Context::from_waker(&waker);
        let mut piece = outstanding.counted(Bytes::from_static(b"0123456789"), &activity);
        let part = piece.split_to(3);
        drop(piece);
        assert!(!outstanding.is_none(&context) && activity.budget.all.bytes.load(Ordering::Relaxed) == 10);
        drop(part);
        assert!(outstanding.is_none(&context) && activity.budget.all.bytes.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn buffers_become_smaller_as_an_address_has_more_connections() {
        let address = Held::of_address();
        let connect = || Budget::new(Arc::clone(&address), Held::of_all());
        let first = connect();
        assert_eq!((first.buffer(), first.unsent()), (HEAD_SIZE, MAX_UNSENT));
        let budgets: Vec<_> = (0..750).map(|_| connect()).collect();
        assert_eq!((first.buffer(), first.unsent()), (MIN_BUFFER, MIN_UNSENT));
        drop(budgets);
        assert_eq!((first.buffer(), first.unsent()), (HEAD_SIZE, MAX_UNSENT));
    }

    #[test]
    fn a_hold_counts_what_it_was_set_to_until_it_is_dropped() {
        let activity = Activity::new(Budget::of_tests());
        let mut hold = Hold::new(&activity, 0);
        for bytes in [OF_CONNECTION, 10, 0, OF_CONNECTION] {
            hold.set(bytes);
            assert_eq!(activity.budget.all.bytes(), bytes);
        }
        assert_eq!(hold.piece(), MIN_PIECE);
        drop(hold);
        assert_eq!((activity.budget.all.bytes(), activity.budget.piece()), (0, MAX_PIECE));
    }
}
