//! The description of a link: in TOML, or as the options of `haul link`.
//!
//! ```toml
//! rtt = "18ms"
//! rate = "20mbit/100mbit"
//! loss = "0.1%"
//! middlebox = ["strip-tfo", "hold-acks:timer=100ms"]
//! ```
//!
//! [`LinkSpec::lanes`] creates the elements of the cable. From the client to the server, packets pass them in this order:
//!
//! 1. the middleboxes at the client's end, in the given order: firewalls and NATs at the client's site;
//! 2. MTU, then rate with its queue: the client's access link, which is the bottleneck of most long paths. So packets to
//!    the client queue after the delay, as at an Internet provider;
//! 3. the length of the path: delay, then jitter or measured delays;
//! 4. impairments: loss or a loss trace, reordering, duplication, corruption, far from the bottleneck;
//! 5. the middleboxes at the server's end, in the given order: the last one is next to the server.
//!
//! Packets from the server pass them in reverse order. So a packet that is lost on the way up has used the bottleneck,
//! and one that is lost on the way down never reaches it, as with loss upstream of a provider's queue. A packet that goes
//! up is duplicated before corruption, which then hits each copy separately; one that goes down is corrupted first, and
//! its duplicate is equally damaged. Jitter without `reorder` keeps the order of arrival, right or wrong, so it may stand
//! before reordering or after it.

use std::{
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::builder::PossibleValuesParser;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod change;
pub mod named;
mod values;

pub use change::{Change, ChangeError};
use units::{Percent, Rate};
pub use values::{
    JitterModel, JitterSpec, LossModel, LossSpec, MtuSpec, PerDirection, QueueSpec, RateSpec, ReorderSpec, RttSpec,
};

use crate::{
    cable::DEFAULT_MTU,
    lanes::{Element, Lanes},
    middleboxes::{Middlebox, MiddleboxError, Side},
    stage::{Direction, Stage},
    stages::{
        Corrupt, Delay, DelayDistribution, Delays, Discipline, Duplicate, Effect, GilbertElliott, Jitter, LineError,
        Loss, LossTrace, Losses, Mtu, Queue, RateLimit, Reorder, Rng, Schedule, Start, TraceError, TraceLink,
    },
};

/// Minimum length of a [`QueueSpec::Bdp`] queue, in packets.
const MIN_QUEUE: usize = 100;
/// Maximum size of a file in bytes: a rate trace of an hour at 100 Mbit/s.
const MAX_TRACE: u64 = 1 << 28;
/// Maximum size of a file of delays or losses in bytes: some millions of lines, each of which becomes a number in memory.
const MAX_LINES: u64 = 1 << 26;

/// The description of a link. The default has no effect on packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[command(next_help_heading = "The link")]
// Flat: each field is an option and a key.
pub struct LinkSpec {
    /// Delay and rate of a known network; the options beside it override them
    #[serde(skip_serializing, deserialize_with = "named::known")]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(named::names()))]
    pub network: Option<String>,
    /// Round-trip time, half in each direction: 18ms; or the one-way delays up/down: 10ms/30ms
    #[serde(skip_serializing_if = "RttSpec::is_zero")]
    #[arg(long, value_name = "DURATION", default_value = "0ms", default_value_ifs = named::defaults(|network| network.rtt))]
    pub rtt: RttSpec,
    /// Random additional delay in both directions, or up/down: 2ms (uniform), "2ms normal", "2ms reorder", 1ms/5ms
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "JITTER")]
    pub jitter: Option<JitterSpec>,
    /// File of one-way delays from the client: each packet draws one, in place of jitter, in addition to the RTT's half
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub delays_up: Option<PathBuf>,
    /// File of one-way delays to the client
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub delays_down: Option<PathBuf>,
    /// Rate of the bottleneck in both directions, or up/down: 100mbit, 20mbit/100mbit
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "RATE", default_value_ifs = named::defaults(|network| network.rate))]
    pub rate: Option<RateSpec>,
    /// Mahimahi trace in place of the rate from the client
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub trace_up: Option<PathBuf>,
    /// Mahimahi trace in place of the rate to the client
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub trace_down: Option<PathBuf>,
    /// Queue of the bottleneck: bdp (bandwidth-delay product, at least 100 packets), 100p (packets), 64KiB, codel,
    /// infinite [default: bdp]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<QueueSpec>,
    /// Loss in both directions, or up/down: 0.1%, 1%/0%; in bursts (Gilbert–Elliott): ge:p=1%,r=20%
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "LOSS")]
    pub loss: Option<LossSpec>,
    /// File that says which packets from the client are lost, in place of the loss: a 0 (passes) or 1 (lost) for each
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub loss_trace_up: Option<PathBuf>,
    /// File that says which packets to the client are lost
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub loss_trace_down: Option<PathBuf>,
    /// Share of packets that are held back by 1 ms, so that others overtake them: 1%, or "1% 5ms"
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "PERCENT")]
    pub reorder: Option<ReorderSpec>,
    /// Share of packets that are duplicated: 0.1%
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "PERCENT")]
    pub duplicate: Option<Percent>,
    /// Share of packets in which one bit is flipped: 0.1%
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "PERCENT")]
    pub corrupt: Option<Percent>,
    /// MTU of the link, from 68 to 65535: 1400, 9000 (jumbo frames), or "1400 black-hole" to drop larger packets without ICMP
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<MtuSpec>,
    /// Add a middlebox: NAME or NAME:KEY=VALUE,…, see the list below; repeatable
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[arg(long, value_name = "MIDDLEBOX")]
    pub middlebox: Vec<Middlebox>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self {
            network: None,
            rtt: RttSpec::default(),
            jitter: None,
            delays_up: None,
            delays_down: None,
            rate: None,
            trace_up: None,
            trace_down: None,
            queue: None,
            loss: None,
            loss_trace_up: None,
            loss_trace_down: None,
            reorder: None,
            duplicate: None,
            corrupt: None,
            mtu: None,
            middlebox: Vec::new(),
            seed: 1,
        }
    }
}

// The derived functions have the names of the traits', but know nothing of the networks' names.
impl Serialize for LinkSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for LinkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut spec = Self::deserialize(deserializer)?;
        named::apply(&mut spec);
        Ok(spec)
    }
}

/// Why a description is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A file cannot be read.
    #[error("cannot read the {what} {}: {source}", path.display())]
    Read {
        /// What the file should be.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file that is not a trace.
    #[error("{} is not a Mahimahi trace: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: TraceError,
    },
    /// A line that does not belong in a file of delays or of losses.
    #[error("{}:{source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, and what is wrong with it.
        source: LineError,
    },
    /// A queue without a rate.
    #[error("the queue `{0}` needs a bottleneck; give a rate or a trace as well")]
    QueueWithoutRate(QueueSpec),
    /// A rate beside two traces.
    #[error("the rate `{0}` has no effect with traces in both directions; omit the rate or one trace")]
    RateBesideTraces(RateSpec),
    /// Jitter beside two files of delays.
    #[error("the jitter `{0}` has no effect with files of delays in both directions; omit the jitter or one file")]
    JitterBesideDelays(JitterSpec),
    /// Loss beside two loss traces.
    #[error("the loss `{0}` has no effect with loss traces in both directions; omit the loss or one trace")]
    LossBesideTraces(LossSpec),
    /// An invalid middlebox.
    #[error(transparent)]
    Middlebox(#[from] MiddleboxError),
}

impl LinkSpec {
    /// The elements of the cable, from the client to the server. Trace files are read.
    fn elements(&self) -> Result<Vec<Element>, SpecError> {
        let mut elements = Vec::new();
        self.middleboxes(Side::Client, &mut elements)?;
        if let Some(MtuSpec { bytes, black_hole }) = self.mtu {
            elements.push(Element::both(|_| Mtu::new(bytes, black_hole)));
        }
        elements.extend(self.bottleneck()?);
        elements.push(Element::both(|direction| Delay::new(self.rtt.of(direction))));
        elements.extend(self.jitter()?);
        elements.extend(self.loss()?);
        if let Some(ReorderSpec { probability, by }) = self.reorder {
            elements
                .push(Element::both(|direction| Reorder::new(probability, by, self.rng(Effect::Reorder, direction))));
        }
        if let Some(probability) = self.duplicate {
            elements
                .push(Element::both(|direction| Duplicate::new(probability, self.rng(Effect::Duplicate, direction))));
        }
        if let Some(probability) = self.corrupt {
            elements.push(Element::both(|direction| Corrupt::new(probability, self.rng(Effect::Corrupt, direction))));
        }
        self.middleboxes(Side::Server, &mut elements)?;
        Ok(elements)
    }

    /// The stages of both directions. Trace files are read.
    pub fn lanes(&self) -> Result<Lanes, SpecError> {
        self.elements().map(Lanes::of)
    }

    fn rng(&self, effect: Effect, direction: Direction) -> Rng {
        Rng::new(self.seed, effect, direction)
    }

    fn middleboxes(&self, side: Side, elements: &mut Vec<Element>) -> Result<(), SpecError> {
        for middlebox in self.middlebox.iter().filter(|middlebox| middlebox.side() == side) {
            elements.push(middlebox.build()?);
        }
        Ok(())
    }

    /// The MTU of the devices at both ends: Ethernet's, or a larger one that the link has.
    pub fn device_mtu(&self) -> u16 {
        self.mtu.map_or(DEFAULT_MTU, |mtu| mtu.bytes.max(DEFAULT_MTU))
    }

    /// The random delay of each direction, if there is one.
    fn jitter(&self) -> Result<Option<Element>, SpecError> {
        if let (Some(jitter), Some(_), Some(_)) = (self.jitter, &self.delays_up, &self.delays_down) {
            return Err(SpecError::JitterBesideDelays(jitter));
        }
        let stage = |direction, file: &Option<PathBuf>| -> Result<Option<Box<dyn Stage>>, SpecError> {
            let (distribution, reorder) = if let Some(path) = file {
                let delays = read_lines(path, "file of delays", Delays::parse)?;
                (DelayDistribution::Measured(Arc::new(delays)), false)
            } else if let Some(jitter) = self.jitter {
                let JitterModel { time, normal, reorder } = *jitter.of(direction);
                let distribution = if normal { DelayDistribution::Normal } else { DelayDistribution::Uniform };
                (distribution(time), reorder)
            } else {
                return Ok(None);
            };
            Ok(Some(Box::new(Jitter::new(distribution, reorder, self.rng(Effect::Jitter, direction)))))
        };
        let (up, down) = (stage(Direction::Up, &self.delays_up)?, stage(Direction::Down, &self.delays_down)?);
        Ok(Element::of(up, down))
    }

    /// The loss of each direction, if there is one.
    fn loss(&self) -> Result<Option<Element>, SpecError> {
        if let (Some(loss), Some(_), Some(_)) = (self.loss, &self.loss_trace_up, &self.loss_trace_down) {
            return Err(SpecError::LossBesideTraces(loss));
        }
        let stage = |direction, file: &Option<PathBuf>| -> Result<Option<Box<dyn Stage>>, SpecError> {
            if let Some(path) = file {
                let losses = read_lines(path, "loss trace", Losses::parse)?;
                return Ok(Some(Box::new(LossTrace::new(Arc::new(losses)))));
            }
            let rng = self.rng(Effect::Loss, direction);
            Ok(self.loss.map(|loss| -> Box<dyn Stage> {
                match *loss.of(direction) {
                    LossModel::Independent(probability) => Box::new(Loss::new(probability, rng)),
                    LossModel::Bursts(bursts) => Box::new(GilbertElliott::new(bursts, rng)),
                }
            }))
        };
        let (up, down) = (stage(Direction::Up, &self.loss_trace_up)?, stage(Direction::Down, &self.loss_trace_down)?);
        Ok(Element::of(up, down))
    }

    /// The bottleneck, if there is one in either direction.
    fn bottleneck(&self) -> Result<Option<Element>, SpecError> {
        match (self.rate, self.queue) {
            (Some(rate), _) if self.trace_up.is_some() && self.trace_down.is_some() => {
                return Err(SpecError::RateBesideTraces(rate));
            }
            (None, Some(queue)) if self.trace_up.is_none() && self.trace_down.is_none() => {
                return Err(SpecError::QueueWithoutRate(queue));
            }
            _ => {}
        }
        let start = Start::default();
        let stage = |trace: Option<&PathBuf>, rate: Option<Rate>| -> Result<Option<Box<dyn Stage>>, SpecError> {
            if let Some(path) = trace {
                let schedule = read_trace(path)?;
                let queue = Queue::new(self.discipline(schedule.rate()));
                return Ok(Some(Box::new(TraceLink::new(Arc::new(schedule), queue, start.clone()))));
            }
            Ok(rate.map(|rate| Box::new(RateLimit::new(rate, Queue::new(self.discipline(rate)))) as Box<dyn Stage>))
        };
        let up = stage(self.trace_up.as_ref(), self.rate.map(|rate| rate.up))?;
        let down = stage(self.trace_down.as_ref(), self.rate.map(|rate| rate.down))?;
        Ok(Element::of(up, down))
    }

    /// The queue in front of a bottleneck of this rate.
    fn discipline(&self, rate: Rate) -> Discipline {
        match self.queue.unwrap_or_default() {
            QueueSpec::Bdp => {
                let bits = self.rtt.total().as_nanos().saturating_mul(rate.as_bits_per_second().into()) / 1_000_000_000;
                let packets = bits.div_ceil(8 * u128::from(self.device_mtu()));
                Discipline::Packets(usize::try_from(packets).unwrap_or(usize::MAX).max(MIN_QUEUE))
            }
            QueueSpec::Packets(packets) => Discipline::Packets(packets),
            QueueSpec::Bytes(bytes) => Discipline::Bytes(bytes),
            QueueSpec::Infinite => Discipline::Infinite,
            QueueSpec::CoDel => Discipline::CoDel,
        }
    }

    /// The queue for people: `bdp` as its number of packets, if the rate is known without reading a file.
    fn queue_text(&self) -> String {
        let queue = self.queue.unwrap_or_default();
        let Some(rate) = self.rate.filter(|_| queue == QueueSpec::Bdp) else { return queue.to_string() };
        let packets = |rate| match self.discipline(rate) {
            Discipline::Packets(packets) => format!("{packets}p"),
            _ => queue.to_string(),
        };
        let (up, down) = (packets(rate.up), packets(rate.down));
        if up == down { up } else { format!("{up}/{down}") }
    }
}

impl LinkSpec {
    /// Whether its files can be read again: those of a running link are read at each change, when a pipe is empty, and to open
    /// another would wait for its writer.
    pub(crate) fn check_rereadable(&self) -> Result<(), SpecError> {
        let Self { delays_up, delays_down, trace_up, trace_down, loss_trace_up, loss_trace_down, .. } = self;
        let files = [delays_up, delays_down, trace_up, trace_down, loss_trace_up, loss_trace_down];
        let odd = |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|file| !file.is_file());
        match files.into_iter().flatten().find(odd) {
            None => Ok(()),
            Some(path) => {
                let source = io::Error::other("a running link reads it again, so it must be a regular file");
                Err(SpecError::Read { what: "file", path: path.clone(), source })
            }
        }
    }
}

fn read_trace(path: &Path) -> Result<Schedule, SpecError> {
    let text = read(path, "trace file", MAX_TRACE)?;
    Schedule::parse(&text).map_err(|source| SpecError::Trace { path: path.to_owned(), source })
}

fn read_lines<T>(
    path: &Path,
    what: &'static str,
    parse: impl Fn(&str) -> Result<T, LineError>,
) -> Result<T, SpecError> {
    parse(&read(path, what, MAX_LINES)?).map_err(|source| SpecError::Line { path: path.to_owned(), source })
}

fn read(path: &Path, what: &'static str, max: u64) -> Result<String, SpecError> {
    let error = |source| SpecError::Read { what, path: path.to_owned(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(error)?;
    let read = file.take(max).read_to_string(&mut text).map_err(error)?;
    if read as u64 == max {
        return Err(error(io::Error::other(format!("it has {} MiB or more", max >> 20))));
    }
    Ok(text)
}

impl fmt::Display for LinkSpec {
    /// One line for people: `18ms RTT, 100mbit, queue 150p, loss 0.1%, strip-tfo`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if !self.rtt.is_zero() {
            words.push(format!("{} RTT", self.rtt));
        }
        words.extend(self.jitter.map(|jitter| format!("jitter {jitter}")));
        words.extend(self.delays_up.as_ref().map(|path| format!("delays {} up", path.display())));
        words.extend(self.delays_down.as_ref().map(|path| format!("delays {} down", path.display())));
        words.extend(self.rate.map(|rate| rate.to_string()));
        words.extend(self.trace_up.as_ref().map(|path| format!("trace {} up", path.display())));
        words.extend(self.trace_down.as_ref().map(|path| format!("trace {} down", path.display())));
        if self.rate.is_some() || self.trace_up.is_some() || self.trace_down.is_some() {
            words.push(format!("queue {}", self.queue_text()));
        }
        words.extend(self.loss.map(|loss| format!("loss {loss}")));
        words.extend(self.loss_trace_up.as_ref().map(|path| format!("loss trace {} up", path.display())));
        words.extend(self.loss_trace_down.as_ref().map(|path| format!("loss trace {} down", path.display())));
        words.extend(self.reorder.map(|reorder| format!("reorder {reorder}")));
        words.extend(self.duplicate.map(|share| format!("duplicate {share}")));
        words.extend(self.corrupt.map(|share| format!("corrupt {share}")));
        words.extend(self.mtu.map(|mtu| format!("MTU {mtu}")));
        words.extend(self.middlebox.iter().map(ToString::to_string));
        let random = self.jitter.is_some() || self.delays_up.is_some() || self.delays_down.is_some();
        let random = random || self.loss.is_some() || self.reorder.is_some();
        if self.seed != Self::default().seed && (random || self.duplicate.is_some() || self.corrupt.is_some()) {
            words.push(format!("seed {}", self.seed));
        }
        if words.is_empty() { f.write_str("cable without delay") } else { f.write_str(&words.join(", ")) }
    }
}

#[cfg(test)]
mod tests;
