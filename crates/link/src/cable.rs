//! A cable: two TUN devices on two hosts, and two threads that carry packets between them.
//!
//! Each direction has a thread, its relay ([`relay`]). A relay that fails stores the reason and stops the other one:
//! half a cable is useless. [`Cable::check`] returns that reason to a caller that waits for traffic.

mod relay;

use std::{
    io,
    sync::{Arc, mpsc},
    time::Duration,
};

use relay::{Driver, Failure, Relay};

use crate::{
    addresses::Addresses,
    host::Host,
    lanes::Lanes,
    lateness::Lateness,
    mailbox::{Message, mailbox},
    tap::Tap,
    tun::{Tun, TunError},
};

/// The MTU of Ethernet.
pub const DEFAULT_MTU: u16 = 1500;

/// Why a cable could not be created or changed, or stopped working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CableError {
    /// A device could not be created.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The relay could not be started.
    #[error("cannot start the relay of a cable: {0}")]
    Relay(#[from] io::Error),
    /// A relay has failed.
    #[error("the cable failed: {0}; create a new one")]
    Broken(String),
}

/// Options of a cable, besides its stages.
pub struct Options {
    /// Number of the cable, unique among cables that reach one another; the addresses are derived from it.
    pub number: u16,
    /// The MTU of both devices, in bytes.
    pub mtu: u16,
    /// Captures at end A and at end B.
    pub taps: [Option<Arc<Tap>>; 2],
}

impl Default for Options {
    fn default() -> Self {
        Self { number: 0, mtu: DEFAULT_MTU, taps: [None, None] }
    }
}

/// A cable between two hosts, A and B. Dropping it disconnects it.
#[derive(Debug)]
pub struct Cable {
    addresses: [Addresses; 2],
    unsplit: [bool; 2],
    tuns: [Arc<Tun>; 2],
    relays: [Relay; 2],
    failure: Failure,
}

/// Counters of one direction of a cable.
#[derive(Debug, Default, Clone)]
pub struct Traffic {
    /// Packets (or unsplit segments) that entered.
    pub packets_in: u64,
    /// Packets (or unsplit segments) that the sending host's device dropped because its queue was full: the relay was
    /// too slow to read them. They are not losses of the emulated link.
    pub device_drops: u64,
    /// Packets (or unsplit segments) that left at the far end.
    pub packets_out: u64,
    /// Bytes that left at the far end, IP headers included.
    pub bytes_out: u64,
    /// Packets that the receiving host's kernel rejected (damaged headers).
    pub rejected: u64,
    /// How late packets left, compared to the time at which their last stage released them.
    pub lateness: Lateness,
    /// Processor time of the relay; includes the receiving host's kernel, which runs in the relay's writes.
    pub processor_time: Duration,
    /// Whether the relay had real-time priority, so that no other program could delay it.
    pub real_time: bool,
}

impl Cable {
    /// Connects `a` and `b` with a new cable.
    pub fn connect(a: &Host, b: &Host, lanes: Lanes, options: &Options) -> Result<Self, CableError> {
        let addresses = [1, 2].map(|end| Addresses::of(options.number, end));
        let mtu = options.mtu.into();
        // End B first: if its name is taken, end A has not lost its host's default route.
        let at_b = Arc::new(Tun::new(b, addresses[1], mtu)?);
        let tuns = [Arc::new(Tun::new(a, addresses[0], mtu)?), at_b];
        let ((to_up, up_mailbox), (to_down, down_mailbox)) = (mailbox()?, mailbox()?);
        let [a, b] = &tuns;
        let [tap_a, tap_b] = &options.taps;
        let up = Driver::new([a, b], [tap_a, tap_b], lanes.up, up_mailbox, &to_down);
        let down = Driver::new([b, a], [tap_b, tap_a], lanes.down, down_mailbox, &to_up);
        let unsplit = [up.passes_unsplit(), down.passes_unsplit()];
        let failure = Failure::default();
        let relays = [
            Relay::start("cable up", up, to_up, failure.clone())?,
            Relay::start("cable down", down, to_down, failure.clone())?,
        ];
        Ok(Self { addresses, unsplit, tuns, relays, failure })
    }

    /// The addresses of end A and of end B.
    pub fn addresses(&self) -> [Addresses; 2] {
        self.addresses
    }

    /// Whether segments pass unsplit (TCP segmentation offload) from A to B and from B to A, because neither a stage nor
    /// a tap needs single packets there; as of the cable's creation.
    pub fn passes_segments_unsplit(&self) -> [bool; 2] {
        self.unsplit
    }

    /// Replaces the stages of both directions, a moment later. Packets in flight continue in order, through the new
    /// stages; see [`Chain::replace`](crate::chain::Chain::replace).
    pub fn change(&self, lanes: Lanes) -> Result<(), CableError> {
        self.check()?;
        self.relays[0].mailbox.send(Message::Change(lanes.up, Some(lanes.down)));
        Ok(())
    }

    /// Whether the cable still works. Costs no system call, so it may be called often.
    pub fn check(&self) -> Result<(), CableError> {
        self.failure.get().map_or(Ok(()), |why| Err(CableError::Broken(why.clone())))
    }

    /// How late packets have left so far, from A to B and from B to A.
    pub fn lateness(&self) -> Result<[Lateness; 2], CableError> {
        let ask = |relay: &Relay| {
            let (reply, answer) = mpsc::channel();
            relay.mailbox.send(Message::Report(reply));
            answer
        };
        // Both are asked before either is waited for. A relay that has ended drops the question.
        let [up, down] = self.relays.each_ref().map(ask);
        let gone = |_| CableError::Broken(self.failure.get().map_or("a relay has ended", String::as_str).to_owned());
        Ok([up.recv().map_err(gone)?, down.recv().map_err(gone)?])
    }

    /// Disconnects the cable, and returns the counters of A to B and of B to A. Packets in flight are lost.
    pub fn disconnect(mut self) -> Result<[Traffic; 2], CableError> {
        self.check()?;
        // Read before the relays end: afterwards the devices' queues fill up.
        let [a, b] = &self.tuns;
        let drops = [a.dropped()?, b.dropped()?];
        let [up, down] = self.relays.each_mut().map(Relay::stop);
        self.check()?;
        let gone = || CableError::Broken("a relay has ended".to_owned());
        let mut traffic = [up.ok_or_else(gone)?, down.ok_or_else(gone)?];
        for (direction, drops) in traffic.iter_mut().zip(drops) {
            direction.device_drops = drops;
        }
        Ok(traffic)
    }
}
