//! Random choices for a case, all from one seed.

use std::time::Duration;

use link::spec::{LinkSpec, LossModel, LossSpec, QueueSpec, RateSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::{Percent, Rate, Size, Span};

use super::{
    programs::Installed,
    scenario::{ClientProgram, ClientSide, Scenario, ServerProgram, ServerSide},
};

/// The bytes of a full packet.
const FULL_PACKET: f64 = 1500.0;

/// The size below which Nagle's algorithm holds a considerable part of a response, in bytes.
const SMALL: f64 = 1e5;

/// The random choices of one case, and what they may choose from.
pub(crate) struct Draw<'a> {
    rng: ChaCha8Rng,
    /// The programs of this machine.
    pub(crate) installed: &'a Installed,
}

/// A network before it is split into two links.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// The round-trip time in seconds.
    pub(crate) rtt: f64,
    /// The bottleneck's rate in bits per second.
    pub(crate) rate: f64,
    /// The length of its queue in seconds.
    pub(crate) queue: f64,
    /// The loss in each direction, as a fraction.
    pub(crate) loss: f64,
    /// Whether the bottleneck is in front of the server, not of the client.
    pub(crate) is_at_server: bool,
    /// The part of the round-trip time on the client's link.
    pub(crate) split: f64,
    /// The seed of the links.
    pub(crate) seed: u64,
}

impl<'a> Draw<'a> {
    /// The choices of the case `index` of a run with this seed.
    pub(crate) fn new(seed: u64, index: u64, installed: &'a Installed) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index + 1);
        Self { rng, installed }
    }

    /// A number whose logarithm is evenly distributed.
    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        self.rng.random_range(least.ln()..most.ln()).exp()
    }

    /// Whether something happens that happens with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    /// A whole number.
    pub(crate) fn count(&mut self, least: u32, most: u32) -> u32 {
        self.rng.random_range(least..=most)
    }

    /// One of these, if there is any.
    pub(crate) fn one<T: Clone>(&mut self, choices: &[T]) -> Option<T> {
        (!choices.is_empty()).then(|| choices[self.rng.random_range(0..choices.len())].clone())
    }

    /// One of these servers that is installed.
    pub(crate) fn server(&mut self, wanted: &[ServerProgram]) -> Option<ServerProgram> {
        let there: Vec<_> = wanted.iter().copied().filter(|program| self.installed.servers.contains(program)).collect();
        self.one(&there)
    }

    /// One of these clients that is installed.
    pub(crate) fn client(&mut self, wanted: &[ClientProgram]) -> Option<ClientProgram> {
        let there: Vec<_> = wanted.iter().copied().filter(|program| self.installed.clients.contains(program)).collect();
        self.one(&there)
    }

    /// iperf3 at both ends, now and then.
    pub(crate) fn iperf3(&mut self) -> Option<(ServerProgram, ClientProgram)> {
        (self.chance(0.15) && self.installed.has_iperf3).then_some((ServerProgram::Iperf3, ClientProgram::Iperf3))
    }

    /// A network with a queue of one to two round trips and no loss; ranges in milliseconds and megabits per second.
    pub(crate) fn network(&mut self, rtt: (f64, f64), rate: (f64, f64)) -> Network {
        let rtt = self.between(rtt.0, rtt.1) / 1e3;
        let rate = self.between(rate.0, rate.1) * 1e6;
        let queue = (rtt * self.between(1.0, 2.0)).max(0.02);
        let is_at_server = self.chance(0.4);
        let split = self.rng.random_range(0.1..0.9);
        Network { rtt, rate, queue, loss: 0.0, is_at_server, split, seed: self.rng.random_range(1..1_000_000) }
    }

    /// A scenario in which nothing is turned.
    pub(crate) fn scenario(
        &mut self,
        network: Network,
        server: ServerProgram,
        client: ClientProgram,
        bytes: f64,
    ) -> Option<Scenario> {
        let congestion_control = self.one(&self.installed.congestion_controls)?;
        Some(Scenario {
            links: network.links(),
            congestion_control,
            // Otherwise Python's two writes would be a second knob in every case with small files.
            server: ServerSide {
                program: server,
                nodelay: server == ServerProgram::Python && bytes < SMALL,
                ..ServerSide::default()
            },
            client: ClientSide { program: client, ..ClientSide::default() },
            file: size(bytes),
            count: 1,
            is_upload: false,
            is_http2: false,
            is_tls: self.chance(0.3) && server != ServerProgram::Iperf3,
            competitor: None,
        })
    }
}

impl Network {
    /// The links between client and router, and between router and server. Packets are lost on the server's link.
    pub(crate) fn links(self) -> [LinkSpec; 2] {
        let rate = Rate::bits_per_second((self.rate / 1e3).round() as u64 * 1000);
        let packets = (self.rate * self.queue / 8.0 / FULL_PACKET).round().max(10.0);
        let bottleneck = |is_here: bool| {
            let rate = is_here.then_some(RateSpec { up: rate, down: rate });
            (rate, is_here.then_some(QueueSpec::Packets(packets as usize)))
        };
        let link = |part: f64, is_here: bool, loss: f64, seed: u64| {
            let (rate, queue) = bottleneck(is_here);
            let loss = (loss > 0.0).then(|| LossSpec::both(LossModel::Independent(percent(loss))));
            LinkSpec { rtt: span(self.rtt * part).into(), rate, queue, loss, seed, ..LinkSpec::default() }
        };
        [
            link(self.split, !self.is_at_server, 0.0, self.seed),
            link(1.0 - self.split, self.is_at_server, self.loss, self.seed + 1),
        ]
    }
}

/// A time in whole microseconds.
pub(crate) fn span(seconds: f64) -> Span {
    Span(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// A size in whole bytes.
pub(crate) fn size(bytes: f64) -> Size {
    Size(bytes.round().max(1.0) as u64)
}

/// A fraction in quarters of a percent, whose text is exact.
fn percent(fraction: f64) -> Percent {
    Percent::from_fraction((fraction * 400.0).round() / 400.0)
}
