//! File contents.

use std::{iter, sync::LazyLock};

/// The period of `SEQUENCE`.
const PERIOD: usize = 1 << 21;

static SEQUENCE: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..PERIOD).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect());

/// Returns bytes that differ between places and between files, so that a mix-up shows.
pub fn noise(seed: usize, length: usize) -> Vec<u8> {
    let first = &SEQUENCE[seed.wrapping_mul(977) % PERIOD..];
    let mut bytes = Vec::with_capacity(length);
    for piece in iter::once(first).chain(iter::repeat(&SEQUENCE[..])) {
        bytes.extend_from_slice(&piece[..piece.len().min(length - bytes.len())]);
        if bytes.len() == length {
            break;
        }
    }
    bytes
}
