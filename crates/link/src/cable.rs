//! A cable: two TUN devices on two hosts, and two threads that carry packets between them.
//!
//! Each direction has a thread, its relay ([`relay`]). A relay that fails says why, and ends the other:
//! half a cable is none. [`Cable::check`] tells whoever waits for something to come along it.

mod relay;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use relay::{Driver, Failure, Relay};

use crate::{
    host::{Addresses, Host},
    inbox::{Message, inbox},
    lanes::Lanes,
    lateness::Lateness,
    tap::Tap,
    tun::{Tun, TunError},
};

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
    Relay(#[from] io::Error),
    /// A relay has failed.
    #[error("the cable is out of order: {0}; lay another")]
    Broken(String),
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
    tuns: [Arc<Tun>; 2],
    relays: [Relay; 2],
    failure: Failure,
}

/// What one direction of a cable has done.
#[derive(Debug, Default, Clone)]
pub struct Traffic {
    /// Packets (or whole segments) that entered.
    pub packets_in: u64,
    /// Packets (or whole segments) that the near host's device dropped before the relay could read them,
    /// because too many waited; the link itself has nothing to do with them.
    pub missed: u64,
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
    /// Whether the relay ran in real time, so that no other program could keep it waiting.
    pub real_time: bool,
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
        let [a, b] = &tuns;
        let [tap_a, tap_b] = &options.taps;
        let up = Driver::new([a, b], [tap_a, tap_b], lanes.up, up_inbox, &to_down);
        let down = Driver::new([b, a], [tap_b, tap_a], lanes.down, down_inbox, &to_up);
        let whole = [up.passes_whole(), down.passes_whole()];
        let failure = Failure::default();
        let relays = [
            Relay::start("cable up", up, to_up, failure.clone())?,
            Relay::start("cable down", down, to_down, failure.clone())?,
        ];
        Ok(Self { addresses, whole, tuns, relays, failure })
    }

    /// The addresses of the A end and of the B end.
    pub fn addresses(&self) -> [Addresses; 2] {
        self.addresses
    }

    /// Whether offloaded segments pass whole, from A to B and from B to A, because neither a stage nor
    /// a tap looks at single packets there; of the cable as it was laid.
    pub fn passes_segments_whole(&self) -> [bool; 2] {
        self.whole
    }

    /// Puts other lanes in the place of those that are there, a moment later. What is under way goes on,
    /// in order, along what is new on the rest of its way; see
    /// [`Chain::replace`](crate::chain::Chain::replace).
    pub fn change(&self, lanes: Lanes) -> Result<(), CableError> {
        self.check()?;
        self.relays[0].outbox.send(Message::Change(lanes.up, Some(lanes.down)));
        Ok(())
    }

    /// Whether the cable still carries packets. It costs no system call, so whoever waits may ask often.
    pub fn check(&self) -> Result<(), CableError> {
        self.failure.get().map_or(Ok(()), |why| Err(CableError::Broken(why.clone())))
    }

    /// Pulls the cable out and says what went from A to B and from B to A. Packets under way are lost.
    pub fn pull(mut self) -> Result<[Traffic; 2], CableError> {
        self.check()?;
        // Before the relays end, for then nobody reads any more.
        let [a, b] = &self.tuns;
        let missed = [a.dropped()?, b.dropped()?];
        let [up, down] = self.relays.each_mut().map(Relay::stop);
        self.check()?;
        let gone = || CableError::Broken("a relay has ended".to_owned());
        let mut traffic = [up.ok_or_else(gone)?, down.ok_or_else(gone)?];
        for (way, missed) in traffic.iter_mut().zip(missed) {
            way.missed = missed;
        }
        Ok(traffic)
    }
}
