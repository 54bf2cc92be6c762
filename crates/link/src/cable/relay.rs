//! A relay: the thread that drives one direction of a cable.
//!
//! It owns the direction's [`Chain`] and does only I/O: it reads packets from one device, pushes them into the chain
//! with their time, writes the output to the other device when it is due, and sleeps until the next event. Packets that
//! a stage of the other direction sends back, changes of the stages and the end of the cable come through the relay's
//! mailbox.
//!
//! A change of stages goes to the relay "up" first, which passes it on to the relay "down" after all packets that it
//! sent back before. So "down" sees the change exactly between packets with indices of the old stages and packets with
//! indices of the new ones. In the other direction, "up" changes first, and translates the indices of packets from
//! "down" until "down" reports that it has changed too.
//!
//! Three things keep a relay on time: kernel timestamps of arriving packets ([`crate::tx_timestamps`]), waking up
//! before a packet is due ([`LONG_SLEEP`]), and real-time priority ([`realtime`]).

use std::{
    collections::VecDeque,
    io,
    os::fd::AsFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use capture::Direction;
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};

use super::Traffic;
use crate::{
    chain::{Chain, Output},
    lanes::Lane,
    mailbox::{Mailbox, Message, Sender},
    offload::{self, BufferPool},
    packet::{MAX_PACKET, Packet},
    realtime,
    tap::Tap,
    tun::Tun,
};

/// Packets read in a row before the relay looks at anything else.
const BATCH: usize = 64;

/// In a sleep of this length the processor goes idle too, and waking it takes tens of microseconds. So the relay wakes
/// early, by the time that waking has taken lately on this machine, and spins for the rest. For shorter sleeps it does
/// not spin, which would take processor time from the senders.
const LONG_SLEEP: Duration = Duration::from_micros(500);

/// Upper limit of waking early; see [`LONG_SLEEP`].
const MAX_EARLY: Duration = Duration::from_micros(250);

/// Why the relays of a cable failed, if they did.
pub(super) type Failure = Arc<OnceLock<String>>;

/// A relay's thread, seen from outside.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) mailbox: Sender,
    thread: Option<JoinHandle<Option<Traffic>>>,
}

impl Relay {
    pub(super) fn start(name: &'static str, mut driver: Driver, mailbox: Sender, failure: Failure) -> io::Result<Self> {
        let run = move || {
            let why = match catch_unwind(AssertUnwindSafe(|| driver.run())) {
                Ok(Ok(())) => return Some(driver.traffic),
                Ok(Err(error)) => format!("the relay `{name}` {error}"),
                Err(_) => format!("the relay `{name}` panicked; please report this bug"),
            };
            let _ = failure.set(why); // the other relay may have failed first
            driver.other.send(Message::Stop);
            None
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { mailbox, thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) -> Option<Traffic> {
        let thread = self.thread.take()?;
        self.mailbox.send(Message::Stop);
        thread.join().ok()?
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a relay failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot carry packets {direction} host `{host}`: its device is gone ({error})")]
struct RelayError {
    direction: &'static str,
    host: String,
    error: io::Error,
}

impl RelayError {
    fn new(direction: &'static str, tun: &Tun, error: io::Error) -> Self {
        Self { direction, host: tun.host().name().to_owned(), error }
    }
}

/// The I/O of one direction. Flat: each field is a part of its own, and the loop uses them all.
pub(super) struct Driver {
    from: Arc<Tun>,
    to: Arc<Tun>,
    near_tap: Option<Arc<Tap>>,
    far_tap: Option<Arc<Tap>>,
    chain: Chain,
    /// Old index to new index, for each change that the other direction has not made yet.
    translations: VecDeque<Vec<usize>>,
    back: Vec<usize>,
    mailbox: Mailbox,
    other: Sender,
    output: Output,
    traffic: Traffic,
    pool: BufferPool,
    /// When the near device was last seen empty, if nothing was read since.
    empty_at: Option<Instant>,
    /// How early the relay wakes; see [`LONG_SLEEP`].
    early: Duration,
}

impl Driver {
    /// For the direction from the first device to the second, with their taps.
    pub(super) fn new(
        [from, to]: [&Arc<Tun>; 2],
        [near, far]: [&Option<Arc<Tap>>; 2],
        lane: Lane,
        mailbox: Mailbox,
        other: &Sender,
    ) -> Self {
        Self {
            from: from.clone(),
            to: to.clone(),
            near_tap: near.clone(),
            far_tap: far.clone(),
            chain: Chain::new(lane.stages),
            translations: VecDeque::new(),
            back: lane.back,
            mailbox,
            other: other.clone(),
            output: Output::default(),
            traffic: Traffic::default(),
            pool: BufferPool::default(),
            empty_at: None,
            early: MAX_EARLY / 2,
        }
    }

    pub(super) fn passes_unsplit(&self) -> bool {
        self.near_tap.is_none() && self.far_tap.is_none() && self.chain.passes_segments_unsplit()
    }

    /// Carries packets until [`Message::Stop`].
    fn run(&mut self) -> Result<(), RelayError> {
        self.traffic.real_time = realtime::request();
        let mut buffer = vec![0; MAX_PACKET];
        loop {
            self.advance()?;
            let (has_packet, has_message) = self.sleep()?;
            if has_message && !self.handle_messages()? {
                let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
                self.traffic.processor_time = time.unwrap_or(TimeSpec::new(0, 0)).into();
                return Ok(());
            }
            if has_packet {
                self.read_packets(&mut buffer)?;
            }
        }
    }

    /// Runs the chain up to now, and returns that time.
    fn advance(&mut self) -> Result<Instant, RelayError> {
        let now = Instant::now();
        self.chain.run(now, &mut self.output);
        self.deliver()?;
        Ok(now)
    }

    /// Sleeps until the next event of the chain, a packet or a message: (packet, message).
    fn sleep(&mut self) -> Result<(bool, bool), RelayError> {
        let Some(at) = self.chain.wake() else { return Ok(self.poll(None)) };
        let left = at.saturating_duration_since(Instant::now());
        if left < LONG_SLEEP {
            return Ok(self.poll(Some(left)));
        }
        let ready = self.poll(Some(left.saturating_sub(self.early)));
        if ready == (false, false) {
            let overslept = (Instant::now() + self.early).saturating_duration_since(at);
            // 1.5 times the moving average covers most wake-ups.
            self.early = ((self.early * 7 + overslept * 3 / 2) / 8).min(MAX_EARLY);
            self.to.warm_up();
            while Instant::now() < at {
                self.advance()?; // nothing is due yet, but this keeps the code in the processor's caches
            }
        }
        Ok(ready)
    }

    /// Waits for a packet or a message: (packet, message).
    fn poll(&self, timeout: Option<Duration>) -> (bool, bool) {
        let mut files = [
            PollFd::new(self.from.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.mailbox.wakeup.as_fd(), PollFlags::POLLIN),
        ];
        let _ = ppoll(&mut files, timeout.map(TimeSpec::from_duration), None);
        let [packet, message] = files.map(|file| file.any().unwrap_or(false));
        (packet, message)
    }

    /// Reads the packets that the near host sends.
    fn read_packets(&mut self, buffer: &mut Vec<u8>) -> Result<(), RelayError> {
        let unsplit = self.passes_unsplit();
        let mut empty = self.empty_at.take();
        for _ in 0..BATCH {
            let before = Instant::now();
            let read = self.from.read(buffer).map_err(|error| RelayError::new("from", &self.from, error))?;
            let Some((header, length)) = read else {
                self.empty_at = Some(before);
                return Ok(());
            };
            let sent_at = empty.and_then(|empty| self.from.sent_at(empty));
            if sent_at.is_none() {
                empty = None;
            }
            let now = sent_at.unwrap_or_else(Instant::now);
            if unsplit && header.is_unfinished() {
                let packet = Packet { bytes: self.pool.split_off(buffer, length), offload: Some(header) };
                self.traffic.packets_in += 1;
                self.chain.push(0, packet, now, &mut self.output);
            } else {
                offload::split(header, &buffer[..length], &mut self.pool, |packet| {
                    if let Some(tap) = &self.near_tap {
                        tap.record_at(now, Direction::Outbound, &packet.bytes);
                    }
                    self.traffic.packets_in += 1;
                    self.chain.push(0, packet, now, &mut self.output);
                });
            }
            self.deliver()?;
        }
        Ok(())
    }

    /// Writes the chain's output to the far host, and sends returned packets to the other direction.
    fn deliver(&mut self) -> Result<(), RelayError> {
        for (at, packet) in self.output.delivered.drain(..) {
            if let Some(tap) = &self.far_tap {
                tap.record(Direction::Inbound, &packet.bytes);
            }
            self.traffic.lateness.record(Instant::now().saturating_duration_since(at));
            match self.to.write(packet.offload.unwrap_or_default(), &packet.bytes) {
                Ok(()) => {
                    self.traffic.packets_out += 1;
                    self.traffic.bytes_out += packet.bytes.len() as u64;
                }
                Err(error) if Tun::is_gone(&error) => return Err(RelayError::new("to", &self.to, error)),
                Err(_) => self.traffic.rejected += 1,
            }
            self.pool.put(packet.bytes);
        }
        for (at, stage, packet) in self.output.back.drain(..) {
            let index = self.back.get(stage).copied().unwrap_or(0);
            self.other.send(Message::Packet(index, packet, at));
        }
        Ok(())
    }

    /// Handles all messages; returns false after [`Message::Stop`].
    fn handle_messages(&mut self) -> Result<bool, RelayError> {
        let _ = self.mailbox.wakeup.read();
        while let Ok(message) = self.mailbox.messages.try_recv() {
            match message {
                Message::Stop => return Ok(false),
                Message::Packet(index, packet, at) => {
                    let index =
                        self.translations.iter().fold(index, |index, indices| indices[index.min(indices.len() - 1)]);
                    self.chain.push(index, packet, at.max(Instant::now()), &mut self.output);
                }
                Message::Change(lane, other) => {
                    let indices = self.replace_stages(lane)?;
                    if let Some(other) = other {
                        self.translations.push_back(indices);
                        self.other.send(Message::Change(other, None));
                    } else {
                        self.other.send(Message::Changed);
                    }
                }
                Message::Changed => drop(self.translations.pop_front()),
                // Whoever asked may have given up.
                Message::Report(reply) => drop(reply.send(self.traffic.lateness.clone())),
            }
        }
        Ok(true)
    }

    /// Replaces the stages, after delivering what the old ones sent back; returns the new index of each old one.
    fn replace_stages(&mut self, lane: Lane) -> Result<Vec<usize>, RelayError> {
        let now = self.advance()?;
        self.back = lane.back;
        let indices = self.chain.replace(lane.stages, now, &mut self.output);
        self.deliver()?;
        Ok(indices)
    }
}
