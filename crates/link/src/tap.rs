//! A tap: a capture at one end of a cable.
//!
//! The threads that relay packets are measured in microseconds, and a disk stalls for milliseconds
//! whenever it likes. So [`Tap::record`] only encodes the packet at the end of a buffer, under a lock
//! that is held for a memory copy, and a thread of the tap's own carries the buffer to the disk. That
//! thread looks by itself, a hundred times a second: to wake it would cost the relay more than to
//! record.
//!
//! The time of a packet is taken under that lock. Thus the packets of both directions stand in the
//! file in the order of their times, whoever recorded them. Times are the wall clock's when the first
//! tap was made and a monotonic clock's from there on: they do not jump when the machine's clock is
//! set, and the distance between two packets is true, also from one tap's to another's.
//!
//! A capture that lacks packets in its midst would be taken for loss on the cable, so it may only lack
//! its end. When the disk fails, or falls 256 MiB behind, the capture stops there: the file is cut to
//! whole packets, the cable goes on undisturbed, and [`Tap::finish`] says what happened. Throwing
//! packets away until the disk has caught up, as a kernel's capture does, was rejected for that reason;
//! so was waiting for the disk, since the capture would then shape the traffic it is to show.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use capture::{
    Direction, LinkType,
    pcapng::{Writer, whole_blocks},
};

/// How long a packet waits for the disk at most, if the disk is idle: at 10 Gbit/s, 12 MB.
const PERIOD: Duration = Duration::from_millis(10);

/// The room that a buffer begins with: a period at 1.6 Gbit/s. Where more comes it grows, and stays so.
const ROOM: usize = 2 << 20;

/// The most bytes that may wait for the disk.
const LIMIT: usize = 256 << 20;

/// The one interface of the file.
const INTERFACE: u32 = 0;

/// One instant on the monotonic clock and, since 1970-01-01 00:00 UTC, on the wall clock.
static BEGAN: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (Instant::now(), wall.unwrap_or_default())
});

/// A capture at one end of a cable, in a pcapng file. Dropping it is finishing it, with its error in
/// the log.
pub struct Tap {
    shared: Arc<Shared>,
    path: PathBuf,
    /// `None` once it has ended.
    disk: Option<JoinHandle<Result<(), Failure>>>,
}

/// What a finished capture holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapSummary {
    /// Packets in the file.
    pub packets: u64,
    /// Their lengths on the cable in bytes, added up; with a snaplen, fewer are in the file.
    pub bytes: u64,
}

/// Why a capture is not there, or not whole.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The capture cannot begin.
    #[error("cannot begin the capture {}: {source}; choose a folder that can be written and has room", path.display())]
    Create {
        /// The capture.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk took no more.
    #[error(
        "the capture {} ends after {packets} packets because it could not be written: {source}; \
         make room or give a snaplen, and run again",
        path.display()
    )]
    Write {
        /// The capture.
        path: PathBuf,
        /// The packets in the file.
        packets: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The disk was slower than the cable for too long.
    #[error(
        "the capture {} ends after {packets} packets because the disk fell {} MiB behind; \
         use a faster one or give a snaplen, and run again",
        path.display(), LIMIT >> 20
    )]
    Behind {
        /// The capture.
        path: PathBuf,
        /// The packets in the file.
        packets: u64,
    },
}

/// What the threads that record and the one that writes have in common.
struct Shared {
    state: Mutex<State>,
    /// Rings at the end.
    closed: Condvar,
    /// The most bytes that may wait for the disk.
    limit: usize,
}

struct State {
    writer: Writer<Vec<u8>>,
    /// Bytes on their way to the disk, beside those in the writer.
    leaving: usize,
    recorded: TapSummary,
    /// Until the disk fails or falls behind.
    recording: bool,
    /// No packet will come any more.
    closing: bool,
}

/// How writing ended early.
struct Failure {
    packets: u64,
    source: io::Error,
}

impl Tap {
    /// Begins a capture in a new file at `path`, in the place of any that is there, and calls the end
    /// of the cable `name`. Of each packet the first `snaplen` bytes are kept, or all.
    pub fn create(path: &Path, name: &str, snaplen: Option<u32>) -> Result<Self, TapError> {
        Self::with_limit(path, name, snaplen, LIMIT)
            .map_err(|source| TapError::Create { path: path.to_owned(), source })
    }

    fn with_limit(path: &Path, name: &str, snaplen: Option<u32>, limit: usize) -> io::Result<Self> {
        let mut writer = Writer::new(buffer())?;
        let interface = writer.interface(name, LinkType::RAW, snaplen)?;
        debug_assert_eq!(interface, INTERFACE);
        // From here on the file is a capture, and a full disk is told before the experiment.
        let mut file = File::create(path)?;
        file.write_all(writer.output())?;
        let header = writer.output().len() as u64;
        writer.output().clear();

        LazyLock::force(&BEGAN);
        let recorded = TapSummary::default();
        let state = State { writer, leaving: 0, recorded, recording: true, closing: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), closed: Condvar::new(), limit });
        let disk = thread::Builder::new().name("tap".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.carry(file, header)
        })?;
        Ok(Self { shared, path: path.to_owned(), disk: Some(disk) })
    }

    /// Records that a packet passes now. Never waits for the disk; once the capture has stopped, it
    /// does nothing.
    pub fn record(&self, direction: Direction, bytes: &[u8]) {
        let mut state = self.shared.lock();
        if !state.recording {
            return;
        }
        let time = BEGAN.1 + BEGAN.0.elapsed();
        let waiting = state.writer.output().len();
        if state.leaving + waiting + bytes.len() > self.shared.limit {
            state.recording = false;
            return;
        }
        let written = state.writer.packet(INTERFACE, time, Some(direction), bytes);
        written.expect("the interface is described, and memory takes all");
        state.recorded.packets += 1;
        state.recorded.bytes += bytes.len() as u64;
    }

    /// Writes what is recorded and closes the file. It waits as long as the disk takes for that, which
    /// is 256 MiB at most.
    pub fn finish(mut self) -> Result<TapSummary, TapError> {
        self.close()
    }

    fn close(&mut self) -> Result<TapSummary, TapError> {
        self.shared.lock().closing = true;
        self.shared.closed.notify_one();
        let path = self.path.clone();
        match self.disk.take().map(JoinHandle::join) {
            Some(Ok(Err(Failure { packets, source }))) => return Err(TapError::Write { path, packets, source }),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(Ok(()))) | None => {}
        }
        let state = self.shared.lock();
        if state.recording {
            Ok(state.recorded)
        } else {
            Err(TapError::Behind { path, packets: state.recorded.packets })
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.disk.is_some()
            && let Err(error) = self.close()
        {
            tracing::error!("{error}");
        }
    }
}

impl Shared {
    /// The state. Nobody leaves it half changed, so a thread that panicked does not matter.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all that waits for the disk in exchange for the empty `buffer`, and tells how many packets
    /// were recorded up to its end; `None` when nothing more will come.
    fn take(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        let waited = self.closed.wait_timeout_while(self.lock(), PERIOD, |state| !state.closing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(state.writer.output(), buffer);
        state.leaving = buffer.len();
        (!buffer.is_empty() || !state.closing).then_some(state.recorded.packets)
    }

    /// Carries to `file`, which has `len` bytes, what is recorded, until the end or the first failure.
    fn carry(&self, mut file: File, mut len: u64) -> Result<(), Failure> {
        let mut buffer = buffer();
        let mut packets = 0;
        while let Some(recorded) = self.take(&mut buffer) {
            if let Err((written, source)) = write(&mut file, &buffer) {
                self.lock().recording = false;
                let whole = whole_blocks(&buffer[..written]);
                // What cannot be cut is no file, and a reader gives all packets before a broken one.
                let _ = file.set_len(len + whole.bytes as u64);
                return Err(Failure { packets: packets + whole.packets, source });
            }
            packets = recorded;
            len += buffer.len() as u64;
            buffer.clear();
        }
        Ok(())
    }
}

/// An empty buffer whose memory is there: to touch it for the first time costs more than to fill it,
/// and the relay should not have to.
fn buffer() -> Vec<u8> {
    let mut buffer = vec![u8::MAX; ROOM];
    buffer.clear();
    buffer
}

/// Writes all of `bytes`, or tells how many were written and why no more.
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
    fn a_disk_that_falls_behind_ends_the_capture_and_says_so() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("slow.pcapng");
        mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        let begin = thread::spawn({
            let path = path.clone();
            move || Tap::with_limit(&path, "client", None, 4 << 20)
        });
        let mut pipe = File::open(&path).expect("the pipe");
        let tap = begin.join().expect("no panic").expect("a tap");
        for _ in 0..10_000 {
            tap.record(Direction::Outbound, &[0; 1500]);
        }
        // Nobody has read yet, and the pipe holds little: the disk is stuck, and this is not.
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
    fn a_write_that_fails_tells_how_far_it_came() {
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
