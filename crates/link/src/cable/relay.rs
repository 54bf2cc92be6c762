//! A relay: the thread that drives one direction of a cable.
//!
//! It owns the direction's [`Chain`] and does nothing but I/O: read packets from one device, push them
//! into the chain with the time, write what comes out to the other device when it is due, sleep until
//! the next event. A stage's packets for the other direction, a change of the chain and the end of the
//! cable come through the relay's inbox.
//!
//! A change comes to the relay up, which passes it on to the relay down behind all that it has sent back
//! before; so that one sees the change between the packets placed by the old lane and those placed by
//! the new. The other way round the relay up has changed first, and moves the places that it is told
//! until it hears that the relay down has changed as well.
//!
//! How a relay is on time: it asks when packets came ([`crate::departures`]), it wakes before they are
//! to leave ([`LONG`]), and it does not wait for its turn ([`punctual`]).

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
    inbox::{Inbox, Message, Outbox},
    lanes::Lane,
    offload::{self, Spare},
    packet::{MAX_PACKET, Packet},
    punctual,
    tap::Tap,
    tun::Tun,
};

/// Packets read in a row before the relay looks at anything else.
const BATCH: usize = 64;

/// A sleep of this length lets the processor fall asleep too, and waking it takes tens of
/// microseconds; so the relay wakes early, by what it takes on this machine of late, and watches the
/// clock for the rest. While packets come closer together than that it sleeps to the end: watching
/// would take the time of those who send.
const LONG: Duration = Duration::from_micros(500);

/// The earliest that a relay wakes; see [`LONG`].
const EARLIEST: Duration = Duration::from_micros(250);

/// Why the relays of a cable have stopped, if they had to.
pub(super) type Failure = Arc<OnceLock<String>>;

/// A relay's thread, seen from outside.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) outbox: Outbox,
    thread: Option<JoinHandle<Option<Traffic>>>,
}

impl Relay {
    pub(super) fn start(name: &'static str, mut driver: Driver, outbox: Outbox, failure: Failure) -> io::Result<Self> {
        let run = move || {
            let why = match catch_unwind(AssertUnwindSafe(|| driver.run())) {
                Ok(Ok(())) => return Some(driver.traffic),
                Ok(Err(error)) => format!("the relay `{name}` {error}"),
                Err(_) => format!("the relay `{name}` panicked, which is a mistake in it"),
            };
            let _ = failure.set(why); // the other's may have been the first
            driver.other.send(Message::Stop);
            None
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { outbox, thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) -> Option<Traffic> {
        let thread = self.thread.take()?;
        self.outbox.send(Message::Stop);
        thread.join().ok()?
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a relay stops.
#[derive(Debug, thiserror::Error)]
#[error("carries nothing {way} host `{host}` any more, whose device is gone ({error})")]
struct RelayError {
    way: &'static str,
    host: String,
    error: io::Error,
}

impl RelayError {
    fn new(way: &'static str, tun: &Tun, error: io::Error) -> Self {
        Self { way, host: tun.host().name().to_owned(), error }
    }
}

/// One direction, driven.
pub(super) struct Driver {
    from: Arc<Tun>,
    to: Arc<Tun>,
    near: Option<Arc<Tap>>,
    far: Option<Arc<Tap>>,
    chain: Chain,
    /// Where the places are that the other direction names: by each change that it has not made yet.
    moved: VecDeque<Vec<usize>>,
    back: Vec<usize>,
    inbox: Inbox,
    other: Outbox,
    output: Output,
    traffic: Traffic,
    spare: Spare,
    /// When the near device was empty, if nothing was read from it since.
    empty: Option<Instant>,
    /// How early it wakes; see [`LONG`].
    early: Duration,
}

impl Driver {
    /// One from the first of two devices to the second, with their taps.
    pub(super) fn new(
        [from, to]: [&Arc<Tun>; 2],
        [near, far]: [&Option<Arc<Tap>>; 2],
        lane: Lane,
        inbox: Inbox,
        other: &Outbox,
    ) -> Self {
        Self {
            from: from.clone(),
            to: to.clone(),
            near: near.clone(),
            far: far.clone(),
            chain: Chain::new(lane.stages),
            moved: VecDeque::new(),
            back: lane.back,
            inbox,
            other: other.clone(),
            output: Output::default(),
            traffic: Traffic::default(),
            spare: Spare::default(),
            empty: None,
            early: EARLIEST / 2,
        }
    }

    pub(super) fn passes_whole(&self) -> bool {
        self.near.is_none() && self.far.is_none() && self.chain.passes_segments_whole()
    }

    /// Carries packets until it is told to stop.
    fn run(&mut self) -> Result<(), RelayError> {
        self.traffic.real_time = punctual::be();
        let mut buffer = vec![0; MAX_PACKET];
        loop {
            self.advance()?;
            let (readable, rung) = self.sleep()?;
            if rung && !self.heed()? {
                let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
                self.traffic.processor_time = time.unwrap_or(TimeSpec::new(0, 0)).into();
                return Ok(());
            }
            if readable {
                self.take_in(&mut buffer)?;
            }
        }
    }

    /// Lets happen what is due; returns the time up to which it has.
    fn advance(&mut self) -> Result<Instant, RelayError> {
        let now = Instant::now();
        self.chain.run(now, &mut self.output);
        self.deliver()?;
        Ok(now)
    }

    /// Sleeps until the next event of the chain, a packet or a message.
    fn sleep(&mut self) -> Result<(bool, bool), RelayError> {
        let Some(at) = self.chain.wake() else { return Ok(self.poll(None)) };
        let left = at.saturating_duration_since(Instant::now());
        if left < LONG {
            return Ok(self.poll(Some(left)));
        }
        let heard = self.poll(Some(left.saturating_sub(self.early)));
        if heard == (false, false) {
            let overslept = (Instant::now() + self.early).saturating_duration_since(at);
            // Half as much again as the average, so that most of them are caught.
            self.early = ((self.early * 7 + overslept * 3 / 2) / 8).min(EARLIEST);
            self.to.touch();
            while Instant::now() < at {
                self.advance()?; // nothing yet, but this code is then in the processor's caches
            }
        }
        Ok(heard)
    }

    /// Waits for a packet or a message: (packet, message).
    fn poll(&self, timeout: Option<Duration>) -> (bool, bool) {
        let mut files = [
            PollFd::new(self.from.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.inbox.bell.as_fd(), PollFlags::POLLIN),
        ];
        let _ = ppoll(&mut files, timeout.map(TimeSpec::from_duration), None);
        let [packet, message] = files.map(|file| file.any().unwrap_or(false));
        (packet, message)
    }

    /// Takes in what the near host sends.
    fn take_in(&mut self, buffer: &mut Vec<u8>) -> Result<(), RelayError> {
        let whole = self.passes_whole();
        let mut empty = self.empty.take();
        for _ in 0..BATCH {
            let before = Instant::now();
            let read = self.from.read(buffer).map_err(|error| RelayError::new("from", &self.from, error))?;
            let Some((header, length)) = read else {
                self.empty = Some(before);
                return Ok(());
            };
            let departed = empty.and_then(|empty| self.from.departed(empty));
            if departed.is_none() {
                empty = None;
            }
            let now = departed.unwrap_or_else(Instant::now);
            if whole && header.is_unfinished() {
                let packet = Packet { bytes: self.spare.part(buffer, length), offload: Some(header) };
                self.traffic.packets_in += 1;
                self.chain.push(0, packet, now, &mut self.output);
            } else {
                offload::split(header, &buffer[..length], &mut self.spare, |packet| {
                    if let Some(tap) = &self.near {
                        tap.record(Direction::Outbound, &packet.bytes);
                    }
                    self.traffic.packets_in += 1;
                    self.chain.push(0, packet, now, &mut self.output);
                });
            }
            self.deliver()?;
        }
        Ok(())
    }

    /// Hands what has come out of the chain to the far host, and to the other direction.
    fn deliver(&mut self) -> Result<(), RelayError> {
        for (at, packet) in self.output.delivered.drain(..) {
            if let Some(tap) = &self.far {
                tap.record(Direction::Inbound, &packet.bytes);
            }
            self.traffic.lateness.record(Instant::now().saturating_duration_since(at));
            match self.to.write(packet.offload.unwrap_or_default(), &packet.bytes) {
                Ok(()) => {
                    self.traffic.packets_out += 1;
                    self.traffic.bytes_out += packet.bytes.len() as u64;
                }
                Err(error) if Tun::is_gone(&error) => return Err(RelayError::new("to", &self.to, error)),
                Err(_) => self.traffic.refused += 1,
            }
            self.spare.keep(packet.bytes);
        }
        for (at, stage, packet) in self.output.back.drain(..) {
            let index = self.back.get(stage).copied().unwrap_or(0);
            self.other.send(Message::Packet(index, packet, at));
        }
        Ok(())
    }

    /// Does what the inbox says; false when it says to stop.
    fn heed(&mut self) -> Result<bool, RelayError> {
        let _ = self.inbox.bell.read();
        while let Ok(message) = self.inbox.messages.try_recv() {
            match message {
                Message::Stop => return Ok(false),
                Message::Packet(index, packet, at) => {
                    let index = self.moved.iter().fold(index, |index, places| places[index.min(places.len() - 1)]);
                    self.chain.push(index, packet, at.max(Instant::now()), &mut self.output);
                }
                Message::Change(lane, other) => {
                    let places = self.change(lane)?;
                    if let Some(other) = other {
                        self.moved.push_back(places);
                        self.other.send(Message::Change(other, None));
                    } else {
                        self.other.send(Message::Changed);
                    }
                }
                Message::Changed => drop(self.moved.pop_front()),
            }
        }
        Ok(true)
    }

    /// Puts other stages in the place of those that are there; what these have sent back goes before.
    fn change(&mut self, lane: Lane) -> Result<Vec<usize>, RelayError> {
        let now = self.advance()?;
        self.back = lane.back;
        let places = self.chain.replace(lane.stages, now, &mut self.output);
        self.deliver()?;
        Ok(places)
    }
}
