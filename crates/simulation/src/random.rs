//! Random numbers that a seed repeats (SplitMix64: Steele, Lea and Flood 2014).

use std::time::Duration;

/// A source of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own for a part of a run: what one part draws does not change what another one does.
    #[must_use]
    pub fn for_part(seed: u64, part: &str) -> Self {
        let mut random = Self(seed);
        for byte in part.bytes() {
            random.0 = random.next() ^ u64::from(byte);
        }
        Self(random.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// True with a probability in per cent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A time below `longest`: as often between 10 ms and 100 ms as between 10 s and 100 s.
    pub fn time(&mut self, longest: Duration) -> Duration {
        let most = longest.as_millis().max(2) as f64;
        Duration::from_millis(most.powf(self.below(1000) as f64 / 1000.0) as u64)
    }

    /// A length: mostly of a small file, at times one that is fetched and uploaded in another way.
    pub fn length(&mut self) -> usize {
        let limit = self.choose(&[10, 5000, 5000, 70_000, 300_000, 900_000]);
        self.below(limit)
    }
}

/// Bytes that no other step writes.
pub fn fill(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u32).wrapping_mul(2_654_435_761).rotate_left(9) as u8 ^ seed).collect()
}
