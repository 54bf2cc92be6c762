//! Trees moved to and from a server that goes wrong.
//!
//! After every fault each file is whole on the right side, or as it was before and named as failed with its reason;
//! nothing is doubled, mixed or left behind; and the next run, with the fault gone, completes the work.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod chunks;
mod digest_headers;
mod downloads;
mod early_requests;
mod hidden;
mod locks;
mod lost_answers;
mod misleading_answers;
mod property;
mod ranges;
mod sync_reports;
mod uploads;

use futures_util::{StreamExt, stream};

/// Runs a test on each of these, some at a time: most of it is waiting.
pub(crate) async fn on_each<T>(cases: impl IntoIterator<Item = T>, test: impl AsyncFn(T)) {
    stream::iter(cases).for_each_concurrent(4, |case| test(case)).await;
}

/// Every pair of one with the other.
pub(crate) fn pairs<A: Clone, B: Clone>(first: impl IntoIterator<Item = A>, second: &[B]) -> Vec<(A, B)> {
    let with_each = |one: A| second.iter().cloned().map(move |other| (one.clone(), other)).collect::<Vec<_>>();
    first.into_iter().flat_map(with_each).collect()
}
