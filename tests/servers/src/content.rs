//! What files hold.

/// Bytes in which no two places, and no two files, look alike.
pub fn noise(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| ((at + seed * 977).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
