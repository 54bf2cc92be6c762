//! A tap: a capture at one end of a cable.
//!
//! The relays work at a scale of microseconds, and a disk may stall for milliseconds. So [`Tap::record`] only appends the
//! packet to a buffer, under a lock that is held for a memory copy, and the tap's own thread writes the buffer to disk.
//! That thread checks the buffer a hundred times a second: waking it would cost the relay more than recording.
//!
//! A packet that leaves its host has the time from which its delay on the cable counts, not that at which the relay read it,
//! which may be later. So the times at both ends of a cable never differ by less than its delay. A packet may thus be
//! recorded after later ones of the other direction; the tap's thread puts them in order ([`time_order`]). Times
//! are the wall clock's when the first tap was created, and follow a monotonic clock from then on. So they do not jump
//! when the machine's clock is set, and times of different taps can be compared.
//!
//! A capture that lacks packets in the middle would look like loss on the cable, so it may lack only its end. When the
//! disk fails, or falls 256 MiB behind, the capture stops: the file is truncated to complete packets, the cable
//! continues, and [`Tap::finish`] returns the error. Rejected for that reason: dropping packets until the disk has caught
//! up, as the kernel's capture does. Rejected too: waiting for the disk, since the capture would then change the traffic.

mod time_order;

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use capture::{
    Direction, LinkRates, LinkType,
    pcapng::{Writer, whole_blocks},
};

use time_order::{Block, TimeOrder};

/// Maximum time that a packet waits in memory while the disk is idle: 12 MB at 10 Gbit/s.
const PERIOD: Duration = Duration::from_millis(10);

/// How long a packet waits for those that were sent before it and recorded later: longer than relays are late on all but the
/// busiest machines. A packet that comes still later keeps its time, and is in the file after packets with later ones.
const SETTLED: Duration = Duration::from_millis(200);

/// Initial capacity of a buffer: one period at 1.6 Gbit/s. It grows if needed.
const CAPACITY: usize = 2 << 20;

/// Maximum number of bytes that wait for the disk.
const LIMIT: usize = 256 << 20;

/// The only interface of the file.
const INTERFACE: u32 = 0;

/// The same instant on the monotonic clock and on the wall clock (since 1970-01-01 00:00 UTC).
static EPOCH: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (Instant::now(), wall.unwrap_or_default())
});

/// A capture at one end of a cable, in a pcapng file. Dropping it finishes it, and logs an error.
pub struct Tap {
    shared: Arc<Shared>,
    path: PathBuf,
    /// `None` after it has ended.
    writer: Option<JoinHandle<Result<(), Failure>>>,
}

/// The content of a finished capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapSummary {
    /// Packets in the file.
    pub packets: u64,
    /// Sum of their lengths on the cable in bytes; a snaplen reduces what is in the file.
    pub bytes: u64,
}

/// Why a capture is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The file could not be created.
    #[error("cannot create the capture {}: {source}; choose a writable folder with free space", path.display())]
    Create {
        /// The capture.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be written.
    #[error(
        "the capture {} ends after {packets} packets, since writing failed: {source}; \
         free space or use a snaplen, and run again",
        path.display()
    )]
    Write {
        /// The capture.
        path: PathBuf,
        /// The packets in the file.
        packets: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The disk was too slow for the traffic.
    #[error(
        "the capture {} ends after {packets} packets, since the disk fell {} MiB behind; \
         use a faster disk or a snaplen, and run again",
        path.display(), LIMIT >> 20
    )]
    Behind {
        /// The capture.
        path: PathBuf,
        /// The packets in the file.
        packets: u64,
    },
}

/// Shared by the recording threads and the writing thread.
struct Shared {
    state: Mutex<State>,
    /// Signals the end.
    closed: Condvar,
    /// Maximum number of bytes that wait for the disk.
    limit: usize,
}

struct State {
    writer: Writer<Vec<u8>>,
    /// The packets in `writer`.
    blocks: Vec<Block>,
    /// Bytes that the tap's thread has taken and not yet written to disk, besides those in `writer`.
    in_progress: usize,
    recorded: TapSummary,
    /// False after the disk failed or fell behind.
    is_recording: bool,
    /// No more packets will be recorded.
    is_closing: bool,
}

/// Why writing ended early.
struct Failure {
    packets: u64,
    source: io::Error,
}

impl Tap {
    /// Starts a capture in a new file at `path`, replacing an existing one. `name` is the interface name in the file. Keeps
    /// the first `snaplen` bytes of each packet, or all.
    pub fn create(path: &Path, name: &str, snaplen: Option<u32>) -> Result<Self, TapError> {
        Self::on_link(path, name, snaplen, None)
    }

    /// The same on a link whose rates are known; the file says them to its readers.
    pub fn on_link(path: &Path, name: &str, snaplen: Option<u32>, rates: Option<LinkRates>) -> Result<Self, TapError> {
        Self::with_limit(path, name, snaplen, rates, LIMIT)
            .map_err(|source| TapError::Create { path: path.to_owned(), source })
    }

    fn with_limit(
        path: &Path,
        name: &str,
        snaplen: Option<u32>,
        rates: Option<LinkRates>,
        limit: usize,
    ) -> io::Result<Self> {
        let mut writer = Writer::new(buffer())?;
        let interface = match rates {
            Some(rates) => writer.emulated_interface(name, LinkType::RAW, snaplen, rates)?,
            None => writer.interface(name, LinkType::RAW, snaplen)?,
        };
        debug_assert_eq!(interface, INTERFACE);
        // With the header written, the file is a valid capture, and a full disk is reported before the experiment.
        let mut file = File::create(path)?;
        file.write_all(writer.output())?;
        let header = writer.output().len() as u64;
        writer.output().clear();

        LazyLock::force(&EPOCH);
        let recorded = TapSummary::default();
        let blocks = Vec::new();
        let state = State { writer, blocks, in_progress: 0, recorded, is_recording: true, is_closing: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), closed: Condvar::new(), limit });
        let writer = thread::Builder::new().name("tap".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.write_out(file, header)
        })?;
        Ok(Self { shared, path: path.to_owned(), writer: Some(writer) })
    }

    /// Records a packet, with the current time. Never waits for the disk; does nothing after the capture has stopped.
    pub fn record(&self, direction: Direction, bytes: &[u8]) {
        self.add(None, direction, bytes);
    }

    /// The same with the time at which the packet passed.
    pub fn record_at(&self, at: Instant, direction: Direction, bytes: &[u8]) {
        self.add(Some(at), direction, bytes);
    }

    fn add(&self, at: Option<Instant>, direction: Direction, bytes: &[u8]) {
        let mut state = self.shared.lock();
        if !state.is_recording {
            return;
        }
        // The current time is read under the lock, so that it is later than that of all packets before.
        let time = wall_clock(at.unwrap_or_else(Instant::now));
        let waiting = state.writer.output().len();
        if state.in_progress + waiting + bytes.len() > self.shared.limit {
            state.is_recording = false;
            return;
        }
        let written = state.writer.packet(INTERFACE, time, Some(direction), bytes);
        written.expect("the interface exists, and writing to memory cannot fail");
        let len = state.writer.output().len() - waiting;
        state.blocks.push(Block { time, len });
        state.recorded.packets += 1;
        state.recorded.bytes += bytes.len() as u64;
    }

    /// Writes the remaining packets, up to 256 MiB, and closes the file.
    pub fn finish(mut self) -> Result<TapSummary, TapError> {
        self.close()
    }

    fn close(&mut self) -> Result<TapSummary, TapError> {
        self.shared.lock().is_closing = true;
        self.shared.closed.notify_one();
        let path = self.path.clone();
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(Err(Failure { packets, source }))) => return Err(TapError::Write { path, packets, source }),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(Ok(()))) | None => {}
        }
        let state = self.shared.lock();
        if state.is_recording {
            Ok(state.recorded)
        } else {
            Err(TapError::Behind { path, packets: state.recorded.packets })
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.writer.is_some()
            && let Err(error) = self.close()
        {
            tracing::error!("{error}");
        }
    }
}

impl Shared {
    /// The state. It is always consistent, so a panicked thread does not matter.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Swaps the packets that were recorded with the empty `buffer` and `blocks`, and returns whether they are the last;
    /// `in_progress` is the number of bytes that the caller still has.
    fn take(&self, buffer: &mut Vec<u8>, blocks: &mut Vec<Block>, in_progress: usize) -> bool {
        let waited = self.closed.wait_timeout_while(self.lock(), PERIOD, |state| !state.is_closing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(state.writer.output(), buffer);
        std::mem::swap(&mut state.blocks, blocks);
        state.in_progress = in_progress + buffer.len();
        state.is_closing
    }

    /// Appends the recorded packets to `file`, which has `len` bytes, until the end or the first failure.
    fn write_out(&self, mut file: File, mut len: u64) -> Result<(), Failure> {
        let (mut buffer, mut blocks) = (buffer(), Vec::new());
        let (mut order, mut settled) = (TimeOrder::default(), Vec::new());
        let mut packets = 0;
        loop {
            let is_last = self.take(&mut buffer, &mut blocks, order.len());
            order.add(&buffer, blocks.drain(..));
            buffer.clear();
            // Room matters more than order.
            let has_no_room = order.len() > self.limit / 2;
            let until =
                if is_last || has_no_room { Duration::MAX } else { wall_clock(Instant::now()).saturating_sub(SETTLED) };
            let count = order.take(until, &mut settled);
            if let Err((written, source)) = write(&mut file, &settled) {
                self.lock().is_recording = false;
                let whole = whole_blocks(&settled[..written]);
                // If truncating fails, `file` is no regular file; readers still return all complete packets.
                let _ = file.set_len(len + whole.bytes as u64);
                return Err(Failure { packets: packets + whole.packets, source });
            }
            packets += count;
            len += settled.len() as u64;
            settled.clear();
            if is_last {
                return Ok(());
            }
        }
    }
}

/// The wall clock's time at an instant; see the module documentation.
fn wall_clock(at: Instant) -> Duration {
    EPOCH.1 + at.saturating_duration_since(EPOCH.0)
}

/// An empty buffer whose memory is already mapped: page faults cost more than filling it, and would delay the relay.
fn buffer() -> Vec<u8> {
    let mut buffer = vec![u8::MAX; CAPACITY];
    buffer.clear();
    buffer
}

/// Writes all of `bytes`; an error comes with the number of bytes written.
fn write(output: &mut impl Write, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match output.write(&bytes[written..]) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use capture::{Source, pcapng::Reader};
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn capture_ends_with_an_error_when_the_disk_falls_behind() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("slow.pcapng");
        mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        let begin = thread::spawn({
            let path = path.clone();
            move || Tap::with_limit(&path, "client", None, None, 4 << 20)
        });
        let mut pipe = File::open(&path).expect("the pipe");
        let tap = begin.join().expect("no panic").expect("a tap");
        for _ in 0..10_000 {
            tap.record(Direction::Outbound, &[0; 1500]);
        }
        // The pipe has no reader, so writing blocks, but recording does not.
        let drain = thread::spawn(move || {
            let mut file = Vec::new();
            pipe.read_to_end(&mut file).map(|_| file)
        });
        let error = tap.finish().expect_err("the pipe was too slow");
        let TapError::Behind { packets, .. } = error else { panic!("{error}") };
        assert!(error.to_string().contains(&format!("{} ends after {packets} packets", path.display())), "{error}");
        let file = drain.join().expect("no panic").expect("all that was written");
        let mut reader = Reader::new(&file[..], "slow.pcapng");
        let mut found = 0;
        while let Some(packet) = reader.next().expect("a whole capture") {
            assert_eq!(packet.bytes, [0; 1500]);
            found += 1;
        }
        assert_eq!(found, packets);
        assert!((2500..2800).contains(&packets), "4 MiB hold some 2700 packets, not {packets}");
    }

    #[test]
    fn failed_write_returns_the_number_of_bytes_written() {
        struct Short(Vec<io::Result<usize>>);
        impl Write for Short {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.pop().expect("no more writes").map(|len| len.min(bytes.len()))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let full = || Err(io::ErrorKind::StorageFull.into());
        let interrupted = || Err(io::ErrorKind::Interrupted.into());
        let outcome = |mut writes: Vec<_>| {
            writes.reverse();
            write(&mut Short(writes), &[0; 10]).map_err(|(written, error)| (written, error.kind()))
        };
        assert_eq!(outcome(vec![Ok(4), interrupted(), Ok(6)]), Ok(()));
        assert_eq!(outcome(vec![Ok(4), Ok(3), full()]), Err((7, io::ErrorKind::StorageFull)));
        assert_eq!(outcome(vec![Ok(4), Ok(0)]), Err((4, io::ErrorKind::WriteZero)));
    }
}
