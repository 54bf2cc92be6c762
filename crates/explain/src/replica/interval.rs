//! How far predictions were from what was then measured.
//!
//! Learned from pairs: a transfer with a cause that was put there, and the same without it, between real programs over
//! emulated links (`haul lab run truth`, even seeds). The intervals hold the middle nine tenths of the ratios of measured and
//! predicted time.

use std::time::Duration;

use super::what_if::Change;

/// The 5th and the 95th percentile of measured time over predicted time, rounded outwards; none where no pairs were
/// measured.
fn ratios(change: Change) -> Option<[f64; 2]> {
    Some(match change {
        Change::NoDelay => [0.8, 1.15],
        Change::NoIdle => [0.65, 1.45],
        Change::NoLoss => [0.5, 1.3],
        Change::SendBuffer(_) => [0.65, 1.3],
        Change::NoPacing => [0.8, 1.5],
        Change::NoServerThink => [0.75, 2.0],
        Change::NoClientThink => [0.7, 2.7],
        Change::NoStalls => [0.28, 1.3],
        // Another limit often follows, which the small window had hidden.
        Change::ReceiveWindow(_) => [0.15, 1.4],
        Change::Http2Window(_) => [0.75, 1.7],
        Change::Alone => [0.5, 1.1],
        _ => return None,
    })
}

/// The interval that holds nine in ten measured times, if these are the changes.
pub(super) fn interval(changes: &[Change], predicted: Duration) -> Option<[Duration; 2]> {
    let [change] = changes else { return None };
    Some(ratios(*change)?.map(|ratio| predicted.mul_f64(ratio)))
}
