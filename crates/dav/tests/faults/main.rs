//! Transfers to and from a faulty server.
//!
//! After every fault each file is complete at the target, or unchanged and reported as failed with its reason. Nothing
//! is duplicated, mixed or left behind, and the next run without the fault completes the transfer.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod chunks;
mod digest_headers;
mod downloads;
mod hidden_files;
mod locks;
mod lost_answers;
mod misleading_answers;
mod moves;
mod optimistic_requests;
mod random_faults;
mod ranges;
mod sync_reports;
mod uploads;

use futures_util::{StreamExt, stream};

/// Runs a test on each case, several at a time, because they mostly wait.
pub(crate) async fn on_each<T>(cases: impl IntoIterator<Item = T>, test: impl AsyncFn(T)) {
    stream::iter(cases).for_each_concurrent(4, |case| test(case)).await;
}

/// Every pair of one with the other.
pub(crate) fn pairs<A: Clone, B: Clone>(first: impl IntoIterator<Item = A>, second: &[B]) -> Vec<(A, B)> {
    let with_each = |one: A| second.iter().cloned().map(move |other| (one.clone(), other)).collect::<Vec<_>>();
    first.into_iter().flat_map(with_each).collect()
}
