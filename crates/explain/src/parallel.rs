//! Work on many items, shared by all processors.

use std::{
    iter, panic,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// The results for all items, in their order.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], result: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        Some((index, result(items.get(index)?)))
    };
    let work = || iter::from_fn(take).collect::<Vec<_>>();
    let mut results = thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from).min(items.len());
        let others: Vec<_> = (1..count).map(|_| scope.spawn(work)).collect();
        let mut results = work();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
