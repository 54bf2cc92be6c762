//! What the machine did to a sample: how much of its time was waiting for a processor instead of the network.
//!
//! Client, server and emulator share the processors with whatever else runs on the machine. A neighbour that computes
//! makes packets late and programs slow, and nothing in a sample's time says so. So every sample is accompanied by a
//! measurement ([`Machine`]) of
//!
//! - the emulator's **lateness**: how much later than intended packets left the cable;
//! - the **run-queue delay** of client and server: how long their threads were ready to run and had no processor
//!   ([`tasks`]);
//! - what the processors did besides: the time of other programs, the **pressure** (some thread waited), and the time
//!   that a hypervisor took ([`processors`]);
//! - how long a CPU limit **throttled** the run ([`cgroup`]).
//!
//! From these follows how much the machine may have added to the sample's time, and whether that is beyond the
//! bounds ([`MAX_ADDED`], [`MAX_LATE`]). Such a sample is taken again ([`repeats`]); if that does not help, its cell is marked, and no claim
//! rests on it.

mod cgroup;
pub(crate) mod meter;
mod processors;
pub(crate) mod repeats;
pub(crate) mod tasks;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::rounded;

use crate::{
    format::{counted, spoken},
    results::Sample,
    stats::median,
};

/// A sample is disturbed if the machine may have added more than this share of its time.
///
/// The estimate is an upper one: threads also wait while the link is the slower part. Beside spinning programs it was 1
/// to 2.5 times what had really been added, so that about a tenth of the time may be the machine's where races look for
/// factors of 1.2 and more.
pub const MAX_ADDED: f64 = 0.15;

/// A sample is disturbed if a packet there and one back were late by more than this share of the RTT, on average: the
/// link was then not the one that was asked for. Less counts by the time that it adds, as everything else. A quiet machine
/// takes about 50 µs, a tenth of a LAN's 0.5 ms; without real-time priority, up to half of it.
pub const MAX_LATE: f64 = 1.0;

/// A cell is marked if more than this share of its samples are disturbed. The median of all pairwise differences, which
/// compares cells, withstands up to 29 % of arbitrary values (Hodges and Lehmann 1963; its breakdown point is 1 − √½).
pub const MAX_DISTURBED: f64 = 0.25;

/// The kernel counts a processor's time in such steps, and one step may be from before the sample.
const TICK_S: f64 = 0.01;

/// The machine during a sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How long threads of the client waited for a processor, summed, in seconds; none if the kernel does not say.
    pub client_wait_s: Option<f64>,
    /// How long the thread of the client waited that waited longest; none in runs of earlier builds.
    #[serde(default)]
    pub client_longest_wait_s: Option<f64>,
    /// The same of the server's threads, summed.
    pub server_wait_s: Option<f64>,
    /// The same of the server's thread that waited longest.
    #[serde(default)]
    pub server_longest_wait_s: Option<f64>,
    /// The processor time of the sample's own threads, the emulator's included.
    pub own_s: Option<f64>,
    /// The part of it that the emulator used to carry packets to the server, which includes what the server's kernel does
    /// to receive them; none in runs of earlier builds.
    #[serde(default)]
    pub to_server_s: Option<f64>,
    /// The processor time of everything else on the machine.
    pub others_s: Option<f64>,
    /// Whether the run has real-time priority (`chrt -r 1 haul race`), so that ordinary programs cannot delay it.
    pub real_time: bool,
    /// The processor time that the hypervisor took.
    pub stolen_s: f64,
    /// How long the CPU limit of a cgroup stopped the run's threads, at most; zero without a limit, and in runs of earlier
    /// builds.
    #[serde(default)]
    pub throttled_s: f64,
    /// How long any thread of the machine waited for a processor.
    pub pressure_s: f64,
    /// What that is computed from.
    pub pressure_source: PressureSource,
    /// How late packets left the cable, in microseconds: the median of both directions.
    pub late_p50_us: f64,
    /// The 99th percentile.
    pub late_p99_us: f64,
    /// The maximum.
    pub late_max_us: f64,
    /// The mean there plus the mean back.
    pub late_round_trip_us: f64,
    /// How much of the sample's time the machine may have added, in seconds.
    pub added_s: f64,
    /// Whether that is beyond the bounds.
    pub disturbed: bool,
}

/// Where a pressure is from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PressureSource {
    /// The kernel's own measurement (PSI).
    #[default]
    Psi,
    /// Looks at the run queue's length, where the kernel has no PSI.
    RunQueue,
}

/// What is known of a sample besides the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Its time.
    pub(crate) seconds: f64,
    /// The RTT of its network in seconds; zero without delay.
    pub(crate) rtt_s: f64,
    /// Its round trips on the link that follow one another.
    pub(crate) link_round_trips: Option<u64>,
    /// Its requests.
    pub(crate) requests: Option<u64>,
}

impl Measured {
    /// How many requests were in flight at once, on average. If each has a thread, their threads wait at the same time,
    /// and lengthen the sample only once.
    fn at_once(self) -> f64 {
        match self.requests.zip(self.link_round_trips) {
            Some((requests, trips)) if trips > 0 => (requests as f64 / trips as f64).max(1.0),
            _ => 1.0,
        }
    }
}

/// How much longer a sample took because of the machine, at most, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Delays {
    /// The client waited for a processor.
    pub(crate) client: f64,
    /// The server did.
    pub(crate) server: f64,
    /// Packets were late.
    pub(crate) emulator: f64,
}

impl Machine {
    /// The part of it that falls into the clock, which ran for this share of the measurement, as if it were spread evenly.
    #[must_use]
    pub(crate) fn within(self, share: f64) -> Self {
        let part = |time: Option<f64>| time.map(|time| share * time);
        Self {
            client_wait_s: part(self.client_wait_s),
            client_longest_wait_s: part(self.client_longest_wait_s),
            server_wait_s: part(self.server_wait_s),
            server_longest_wait_s: part(self.server_longest_wait_s),
            own_s: part(self.own_s),
            to_server_s: part(self.to_server_s),
            others_s: part(self.others_s),
            stolen_s: share * self.stolen_s,
            throttled_s: share * self.throttled_s,
            pressure_s: share * self.pressure_s,
            ..self
        }
    }

    /// Estimates what the machine added to a sample, and whether that is beyond the bounds.
    #[must_use]
    pub(crate) fn judged(self, sample: Measured, processors: usize) -> Self {
        let delays = self.delays(sample);
        // A contender's threads also wait for one another. That is not a disturbance: it is the same in every run.
        let certain = |time: f64| (time - TICK_S * processors as f64).max(0.0);
        let waited = (delays.client + delays.server) * self.share_of_others(certain);
        // The sum over all processors, of which a thread has one.
        let stolen = certain(self.stolen_s) / processors.max(1) as f64;
        let added_s = (waited + delays.emulator + stolen + self.throttled()).min(sample.seconds);
        let late = sample.rtt_s > 0.0 && self.late_round_trip_us / 1e6 > MAX_LATE * sample.rtt_s;
        Self { added_s, disturbed: late || added_s > MAX_ADDED * sample.seconds, ..self }
    }

    /// How much longer the sample took because somebody waited for a processor, whoever had it.
    pub(crate) fn delays(&self, sample: Measured) -> Delays {
        // A thread that serves many requests waits for each of them.
        let wait = |all: Option<f64>, longest: Option<f64>| {
            (all.unwrap_or_default() / sample.at_once()).max(longest.unwrap_or_default())
        };
        let trips = sample.link_round_trips.unwrap_or_default() as f64;
        let client = wait(self.client_wait_s, self.client_longest_wait_s);
        let server = wait(self.server_wait_s, self.server_longest_wait_s);
        let emulator = (trips * self.late_round_trip_us / 1e6).min(sample.seconds);
        // The sum over threads may exceed the time of the sample.
        let most = sample.seconds / (client + server).max(sample.seconds).max(f64::MIN_POSITIVE);
        Delays { client: client * most, server: server * most, emulator }
    }

    /// How long a CPU limit stopped the sample. Limits do not hold for threads with real-time priority.
    fn throttled(&self) -> f64 {
        if self.real_time { 0.0 } else { self.throttled_s }
    }

    /// The share of the processors' work that was not the sample's own.
    fn share_of_others(&self, certain: impl Fn(f64) -> f64) -> f64 {
        if self.real_time {
            return 0.0;
        }
        match self.own_s.zip(self.others_s.map(certain)) {
            Some((own, others)) if own + others > 0.0 => others / (own + others),
            _ => 1.0,
        }
    }
}

/// Why a cell of these samples is marked, in a sentence's end; none if it is not. `rtt_s` is that of its network.
pub(crate) fn mark(samples: &[Sample], rtt_s: f64) -> Option<String> {
    let disturbed: Vec<(&Machine, f64)> = samples
        .iter()
        .filter_map(|sample| Some((sample.machine.as_ref()?, sample.seconds)))
        .filter(|(machine, _)| machine.disturbed)
        .collect();
    if disturbed.len() as f64 <= MAX_DISTURBED * samples.len() as f64 {
        return None;
    }
    let middle = |of: &dyn Fn(&Machine, f64) -> f64| {
        median(&disturbed.iter().map(|(machine, seconds)| of(machine, *seconds)).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    let added = middle(&|machine, seconds| machine.added_s / seconds);
    let late_s = middle(&|machine, _| machine.late_round_trip_us / 1e6);
    let throttled = middle(&|machine, seconds| machine.throttled() / seconds);
    let mut why = vec![format!("the machine may have added {:.0} % of the time", 100.0 * added)];
    if throttled > MAX_ADDED {
        let share = 100.0 * throttled.min(1.0);
        why.push(format!("the CPU limit of the cgroup (a container's, for example) throttled it for {share:.0} %"));
    }
    if rtt_s > 0.0 && late_s > MAX_LATE * rtt_s {
        let time = |seconds: f64| rounded::time(Duration::from_secs_f64(seconds));
        why.push(format!("packets were {} late in a round trip of {}", time(late_s), time(rtt_s)));
    }
    let count = format!("{} of {}", disturbed.len(), counted(samples.len() as u64, "sample"));
    Some(format!("in {count} {}", spoken(&why)))
}

#[cfg(test)]
mod tests;
