//! A random number generator that a seed repeats (xorshift64).

use std::time::{Duration, SystemTime};

#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Of `CRASH_SEED`, or of the time; prints the seed.
    pub(crate) fn of_run() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let seed = crate::variable("CRASH_SEED").unwrap_or(now as u64 % 1_000_000_000).max(1);
        println!("CRASH_SEED={seed}");
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Another one, for another thread.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.below(u64::MAX - 1) + 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Up to so long.
    pub(crate) fn time(&mut self, limit: Duration) -> Duration {
        Duration::from_millis(self.below(limit.as_millis() as u64 + 1))
    }
}
