//! A cable: two TUN devices on two hosts, and two threads that carry packets between them.
//!
//! Each direction has a thread, its relay, which owns the direction's [`Chain`] and does nothing but
//! I/O: read packets from one device, push them into the chain with the time, write what comes out to
//! the other device when it is due, sleep until the next event. A stage's packets for the other
//! direction, a change of the chain and the end of the cable come through the relay's inbox.
//!
//! How a relay is on time: it asks when packets came ([`crate::departures`]), it wakes before they are
//! to leave ([`LONG`]), and it does not wait for its turn ([`punctual`]).

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    os::fd::AsFd,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use capture::Direction;
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};

use crate::{
    chain::{Chain, Output},
    host::{Addresses, Host},
    inbox::{Inbox, Message, Outbox, inbox},
    lanes::{Lane, Lanes},
    lateness::Lateness,
    offload::{self, Spare},
    packet::{MAX_PACKET, Packet},
    punctual,
    tap::Tap,
    tun::{Tun, TunError},
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

/// The MTU of Ethernet.
pub const DEFAULT_MTU: u16 = 1500;

/// Why a cable could not be laid or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CableError {
    /// There is no device to plug it in.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The relay could not be started.
    #[error("cannot start the relay of a cable: {0}")]
    Relay(#[from] std::io::Error),
    /// A relay has ended.
    #[error("the cable is out of order: its relay has stopped")]
    Broken,
}

/// What a cable is beside its stages.
pub struct Options {
    /// Tells the cables of one world apart; their addresses follow from it.
    pub number: u8,
    /// The MTU of both devices, in bytes.
    pub mtu: u16,
    /// Captures at the A end and at the B end.
    pub taps: [Option<Arc<Tap>>; 2],
}

impl Default for Options {
    fn default() -> Self {
        Self { number: 0, mtu: DEFAULT_MTU, taps: [None, None] }
    }
}

/// A cable between two hosts, A and B. Dropping it pulls it out.
#[derive(Debug)]
pub struct Cable {
    addresses: [Addresses; 2],
    whole: [bool; 2],
    relays: [Relay; 2],
}

/// What one direction of a cable has done.
#[derive(Debug, Default, Clone)]
pub struct Traffic {
    /// Packets (or whole segments) that entered.
    pub packets_in: u64,
    /// Packets (or whole segments) that left at the far end.
    pub packets_out: u64,
    /// Bytes that left at the far end, IP headers included.
    pub bytes_out: u64,
    /// Packets that the far host's kernel refused (damaged headers).
    pub refused: u64,
    /// How late packets left, against the time at which their stages let them go.
    pub lateness: Lateness,
    /// The processor time of the relay; in it the far host's kernel receives.
    pub processor_time: Duration,
}

impl Cable {
    /// Lays a cable from `a` to `b`.
    pub fn lay(a: &Host, b: &Host, lanes: Lanes, options: &Options) -> Result<Self, CableError> {
        let addresses = [1, 2].map(|end| Addresses {
            v4: Ipv4Addr::new(100, 64, options.number, end),
            v6: Ipv6Addr::new(0xfd00, 0x6861, 0x756c, options.number.into(), 0, 0, 0, end.into()),
        });
        let mtu = options.mtu.into();
        let tuns = [Arc::new(Tun::new(a, addresses[0], mtu)?), Arc::new(Tun::new(b, addresses[1], mtu)?)];
        let ((to_up, up_inbox), (to_down, down_inbox)) = (inbox()?, inbox()?);
        let driver = |from: usize, lane: Lane, inbox, other: &Outbox| {
            let tapped = options.taps.iter().any(Option::is_some);
            Driver {
                from: tuns[from].clone(),
                to: tuns[1 - from].clone(),
                near: options.taps[from].clone(),
                far: options.taps[1 - from].clone(),
                may_pass_whole: !tapped,
                chain: Chain::new(lane.stages),
                draining: Chain::default(),
                back: lane.back,
                inbox,
                other: other.clone(),
                output: Output::default(),
                traffic: Traffic::default(),
                spare: Spare::default(),
                empty: None,
                early: EARLIEST / 2,
            }
        };
        let up = driver(0, lanes.up, up_inbox, &to_down);
        let down = driver(1, lanes.down, down_inbox, &to_up);
        let whole = [up.passes_whole(), down.passes_whole()];
        let relays = [Relay::start("cable up", up, to_up)?, Relay::start("cable down", down, to_down)?];
        Ok(Self { addresses, whole, relays })
    }

    /// The addresses of the A end and of the B end.
    pub fn addresses(&self) -> [Addresses; 2] {
        self.addresses
    }

    /// Whether offloaded segments pass whole, from A to B and from B to A, because neither a stage nor
    /// a tap looks at single packets there.
    pub fn passes_segments_whole(&self) -> [bool; 2] {
        self.whole
    }

    /// Puts other lanes in the place of those that are there; see [`Chain::replace`].
    pub fn change(&self, lanes: Lanes) -> Result<(), CableError> {
        let [up, down] = &self.relays;
        up.outbox.send(Message::Change(lanes.up))?;
        down.outbox.send(Message::Change(lanes.down))
    }

    /// Pulls the cable out and says what went from A to B and from B to A. Packets under way are lost.
    pub fn pull(mut self) -> Result<[Traffic; 2], CableError> {
        let [up, down] = &mut self.relays;
        match (up.stop(), down.stop()) {
            (Some(up), Some(down)) => Ok([up, down]),
            _ => Err(CableError::Broken),
        }
    }
}

/// A relay's thread, seen from outside.
#[derive(Debug)]
struct Relay {
    outbox: Outbox,
    thread: Option<JoinHandle<Traffic>>,
}

impl Relay {
    fn start(name: &str, driver: Driver, outbox: Outbox) -> Result<Self, CableError> {
        let run = || {
            let mut traffic = driver.run();
            traffic.processor_time =
                clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(TimeSpec::new(0, 0)).into();
            traffic
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { outbox, thread: Some(thread) })
    }

    fn stop(&mut self) -> Option<Traffic> {
        let thread = self.thread.take()?;
        let _ = self.outbox.send(Message::Stop);
        thread.join().ok()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One direction, driven.
struct Driver {
    from: Arc<Tun>,
    to: Arc<Tun>,
    near: Option<Arc<Tap>>,
    far: Option<Arc<Tap>>,
    may_pass_whole: bool,
    chain: Chain,
    /// What a chain that passed segments whole still held when one came that does not.
    draining: Chain,
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
    fn passes_whole(&self) -> bool {
        self.may_pass_whole && self.chain.passes_segments_whole()
    }

    fn run(mut self) -> Traffic {
        punctual::be();
        let mut buffer = vec![0; MAX_PACKET];
        loop {
            self.advance();
            let (readable, rung) = self.sleep();
            if rung && !self.heed() {
                return self.traffic;
            }
            if readable && !self.take_in(&mut buffer) {
                return self.traffic;
            }
        }
    }

    /// Lets happen what is due.
    fn advance(&mut self) {
        let now = Instant::now();
        self.draining.run(now, &mut self.output);
        self.chain.run(now, &mut self.output);
        self.deliver();
    }

    /// Sleeps until the next event of the chain, a packet or a message.
    fn sleep(&mut self) -> (bool, bool) {
        let Some(at) = [self.chain.wake(), self.draining.wake()].into_iter().flatten().min() else {
            return self.poll(None);
        };
        let left = at.saturating_duration_since(Instant::now());
        if left < LONG {
            return self.poll(Some(left));
        }
        let heard = self.poll(Some(left.saturating_sub(self.early)));
        if heard == (false, false) {
            let overslept = (Instant::now() + self.early).saturating_duration_since(at);
            // Half as much again as the average, so that most of them are caught.
            self.early = ((self.early * 7 + overslept * 3 / 2) / 8).min(EARLIEST);
            self.to.touch();
            while Instant::now() < at {
                self.advance(); // nothing yet, but this code is then in the processor's caches
            }
        }
        heard
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

    /// Takes in what the near host sends; false when its device is gone.
    fn take_in(&mut self, buffer: &mut Vec<u8>) -> bool {
        let whole = self.passes_whole();
        let mut empty = self.empty.take();
        for _ in 0..BATCH {
            let before = Instant::now();
            let (header, length) = match self.from.read(buffer) {
                Ok(Some(read)) => read,
                Ok(None) => {
                    self.empty = Some(before);
                    return true;
                }
                Err(error) => {
                    tracing::error!("a cable stops: {error}");
                    return false;
                }
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
            self.deliver();
        }
        true
    }

    /// Hands what has come out of the chain to the far host, and to the other direction.
    fn deliver(&mut self) {
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
                Err(_) => self.traffic.refused += 1,
            }
            self.spare.keep(packet.bytes);
        }
        for (at, stage, packet) in self.output.back.drain(..) {
            let index = self.back.get(stage).copied().unwrap_or(0);
            let _ = self.other.send(Message::Packet(index, packet, at));
        }
    }

    /// Does what the inbox says; false when it says to stop.
    fn heed(&mut self) -> bool {
        let _ = self.inbox.bell.read();
        while let Ok(message) = self.inbox.messages.try_recv() {
            let now = Instant::now();
            match message {
                Message::Stop => return false,
                Message::Packet(index, packet, at) => self.chain.push(index, packet, at.max(now), &mut self.output),
                Message::Change(lane) => {
                    if self.passes_whole() && !lane.stages.iter().all(|stage| stage.passes_segments_whole()) {
                        self.draining = std::mem::replace(&mut self.chain, Chain::new(lane.stages));
                    } else {
                        self.chain.replace(lane.stages, now);
                    }
                    self.back = lane.back;
                }
            }
        }
        true
    }
}
