//! A bandwidth limit for all request and response bodies of a client together.
//!
//! Each direction has a token bucket without a clock: it gets the time, and returns how long the next bytes have to
//! wait. A rate may change at any time, for example by a timetable.
//!
//! The limit delays the reading of a body, ours or the server's. A server stops sending when its windows are full, so
//! no more than those is in memory.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::{Body, Chunks};

/// The size of pieces: short pauses between small pieces disturb other traffic less than long ones.
const PIECE: usize = 16 * 1024;
/// The burst after a pause, as time at the full rate.
const BURST: Duration = Duration::from_millis(100);

/// Bytes per second; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// For uploads.
    pub up: Option<u64>,
    /// For downloads.
    pub down: Option<u64>,
}

/// A bandwidth limit.
pub struct BandwidthLimit {
    rates: Box<dyn Fn() -> Rates + Send + Sync>,
    begin: Instant,
    up: Mutex<Bucket>,
    down: Mutex<Bucket>,
}

/// When the bytes so far will have been sent, at their rate.
#[derive(Debug, Default)]
struct Bucket {
    free: Duration,
}

impl Bucket {
    /// How long `bytes` have to wait at `now`.
    fn take(&mut self, now: Duration, bytes: u64, rate: Option<u64>) -> Duration {
        let Some(rate) = rate else {
            self.free = now;
            return Duration::ZERO;
        };
        let begin = self.free.max(now.saturating_sub(BURST));
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        self.free = begin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        begin.saturating_sub(now)
    }
}

impl BandwidthLimit {
    /// A limit that calls `rates` for each piece.
    pub fn new(rates: impl Fn() -> Rates + Send + Sync + 'static) -> Self {
        Self { rates: Box::new(rates), begin: Instant::now(), up: Mutex::default(), down: Mutex::default() }
    }

    fn up(&self, bytes: usize) -> Duration {
        self.take(&self.up, bytes, (self.rates)().up)
    }

    pub(crate) fn down(&self, bytes: usize) -> Duration {
        self.take(&self.down, bytes, (self.rates)().down)
    }

    fn take(&self, bucket: &Mutex<Bucket>, bytes: usize, rate: Option<u64>) -> Duration {
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.take(self.begin.elapsed(), bytes as u64, rate)
    }

    /// The body, limited.
    pub(crate) fn body(self: &Arc<Self>, body: Body) -> Body {
        let bandwidth_limit = self.clone();
        body.wrapped(move |chunks| bandwidth_limit.clone().chunks(chunks))
    }

    fn chunks(self: Arc<Self>, chunks: Chunks) -> Chunks {
        let pieces = chunks.flat_map(|chunk| stream::iter(pieces(chunk)));
        Box::pin(pieces.then(move |piece| {
            let wait = piece.as_ref().map_or(Duration::ZERO, |piece| self.up(piece.len()));
            async move {
                if !wait.is_zero() {
                    sleep(wait).await;
                }
                piece
            }
        }))
    }
}

fn pieces(chunk: io::Result<Bytes>) -> Vec<io::Result<Bytes>> {
    match chunk {
        Ok(mut rest) if rest.len() > PIECE => {
            let mut pieces = Vec::with_capacity(rest.len() / PIECE + 1);
            while !rest.is_empty() {
                pieces.push(Ok(rest.split_to(rest.len().min(PIECE))));
            }
            pieces
        }
        chunk => vec![chunk],
    }
}

impl fmt::Debug for BandwidthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BandwidthLimit").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::body::{Incoming, Piece};

    #[test]
    fn token_bucket_keeps_its_rate_for_any_chunk_size() {
        for piece in [1, 700, 16_384, 1_000_000] {
            let (mut bucket, mut now, mut sent) = (Bucket::default(), Duration::ZERO, 0);
            while sent < 10_000_000 {
                now += bucket.take(now, piece, Some(1_000_000));
                sent += piece;
            }
            let took = now.as_secs_f64();
            let least = (sent - piece) as f64 / 1e6;
            assert!((least - 0.11..=least).contains(&took), "{piece}: {took} s for {sent} bytes");
        }
    }

    #[test]
    fn idle_bucket_saves_at_most_one_burst() {
        let (mut bucket, rate) = (Bucket::default(), Some(1000));
        let at = Duration::from_secs;
        bucket.take(at(0), 1000, rate);
        assert_eq!(bucket.take(at(100), 1000, rate), Duration::ZERO);
        assert_eq!(bucket.take(at(100), 1, rate), Duration::from_millis(900));
        assert_eq!(bucket.take(at(100), u64::MAX, None), Duration::ZERO);
        assert_eq!(bucket.take(at(100), 500, rate), Duration::ZERO, "another rate begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn all_bodies_of_a_direction_share_its_rate() {
        let bandwidth_limit = Arc::new(BandwidthLimit::new(|| Rates { up: Some(100_000), down: Some(50_000) }));
        let begin = Instant::now();
        let send = async |bytes: usize| {
            let mut body = bandwidth_limit.body(vec![7_u8; bytes].into());
            assert_eq!(body.length(), Some(bytes as u64));
            assert!(body.try_clone().is_some());
            body.open().unwrap().fold(0, |sum, piece| async move { sum + piece.unwrap().len() }).await
        };
        assert_eq!(tokio::join!(send(500_000), send(500_000)), (500_000, 500_000));
        let took = begin.elapsed().as_secs_f64();
        assert!((9.5..10.1).contains(&took), "{took}");

        let begin = Instant::now();
        let (sender, mut incoming) = Incoming::channel(None, 200);
        incoming.limit(bandwidth_limit.clone());
        for _ in 0..100 {
            sender.try_send(Piece::Data(vec![7; 10_000].into())).unwrap();
        }
        sender.try_send(Piece::End).unwrap();
        assert_eq!(incoming.collect().await.unwrap().to_bytes().len(), 1_000_000);
        let took = begin.elapsed().as_secs_f64();
        assert!((19.5..20.1).contains(&took), "{took}");
    }
}
