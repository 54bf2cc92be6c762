//! What `explain` infers of the path, compared with what the scenario set.
//!
//! Nobody tells it. A rate that it names is the bottleneck's. Where the path has none, no transfer spent its time on a
//! saturated link; an emulator on a busy machine has a rate, too, but nothing waits for it. What was lost is counted by the
//! captures of both ends, in which packets are missing.

use std::{error::Error, path::Path};

use capture::{Summary, pcapng::Reader};
use explain::{
    Cause, pair_captures,
    render::{PredictionRequest, ReadCapture, json},
};
use serde_json::Value;

use crate::{
    runs::Outcome,
    scenario::Scenario,
    testbed::{Recorded, VANTAGE_POINTS},
};

/// Maximum relative error of an RTT and of a rate.
const MAX_ERROR: f64 = 0.10;

/// Maximum share of a transfer's time on a saturated link where the path has no rate.
const MAX_SATURATED: f64 = 0.05;

/// A property of the path: what was set, and what a capture shows.
#[derive(Debug, Clone)]
pub(crate) struct PathCheck {
    pub(crate) scenario: String,
    pub(crate) property: Property,
    pub(crate) vantage: &'static str,
    /// In seconds, bits per second, or packets; `None` if the path has no such limit.
    pub(crate) set: Option<f64>,
    pub(crate) inferred: Option<f64>,
    error: f64,
    subject: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Property {
    Rtt,
    Rate,
    /// The packets of one direction that were lost, and the retransmissions at its sender.
    Losses,
}

impl Property {
    pub(crate) const ALL: [Self; 3] = [Self::Rtt, Self::Rate, Self::Losses];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rtt => "RTT",
            Self::Rate => "rate",
            Self::Losses => "losses",
        }
    }
}

impl PathCheck {
    fn of(
        (scenario, property, vantage): (&str, Property, &'static str),
        set: Option<f64>,
        inferred: Option<f64>,
    ) -> Self {
        let error = match (set, inferred) {
            (Some(set), Some(inferred)) => (inferred - set).abs() / set.max(f64::MIN_POSITIVE),
            (None, Some(_)) => f64::INFINITY,
            (_, None) => 0.0,
        };
        let subject = format!("{} at the {vantage}", property.name());
        Self { scenario: scenario.to_owned(), property, vantage, set, inferred, error, subject }
    }

    /// Inferred divided by set.
    pub(crate) fn ratio(&self) -> Option<f64> {
        Some(self.inferred? / self.set.filter(|set| *set > 0.0)?)
    }
}

impl Outcome for PathCheck {
    fn subject(&self) -> &str {
        &self.subject
    }

    fn error(&self) -> f64 {
        self.error
    }

    fn is_right(&self) -> bool {
        self.error <= MAX_ERROR
    }
}

/// Compares the RTT and the rate at each vantage point, and the losses at each end.
pub(crate) fn compare(name: &str, scenario: &Scenario, recorded: &Recorded) -> Result<Vec<PathCheck>, Box<dyn Error>> {
    let [up, down] = scenario.sizes();
    let rate = scenario.path.rate.map(|rate| if down > up { rate.down } else { rate.up });
    let rate = rate.map(|rate| rate.as_bits_per_second() as f64);
    let is_limit = scenario.expect.cause == Cause::PathRate.name();
    let mut checks = Vec::new();
    let mut retransmissions = Vec::new();
    for (vantage, capture) in VANTAGE_POINTS.into_iter().zip(&recorded.captures) {
        let explained = explained(capture)?;
        let rtt = explained["rtt_ms"].as_f64().map(|ms| ms / 1e3);
        checks.push(PathCheck::of((name, Property::Rtt, vantage), Some(scenario.path.rtt.total().as_secs_f64()), rtt));
        let mut inferred = explained["rate_bits"].as_f64();
        if is_limit {
            inferred.get_or_insert(0.0);
        }
        if rate.is_none() && saturated(&explained) < MAX_SATURATED {
            inferred = None;
        }
        checks.push(PathCheck::of((name, Property::Rate, vantage), rate, inferred));
        retransmissions.push(["up", "down"].map(|way| explained["counters"][way]["retransmitted_packets"].as_f64()));
    }
    let [client, server] = [0, 2].map(|end| packets(&recorded.captures[end]));
    let (client, server) = (client?, server?);
    for (way, [sender, receiver], end) in [(0, [client, server], 0), (1, [server, client], 2)] {
        let is_random = scenario.path.loss.is_some();
        if is_random && way != usize::from(down > up) {
            // Acknowledgements are not sent again.
            continue;
        }
        let lost = sender[way].saturating_sub(receiver[way]) as f64;
        let needless = |sent: f64| (sent - lost).clamp(0.0, scenario.needless.into());
        let inferred = retransmissions[end][way].map(|sent| sent - needless(sent));
        checks.push(PathCheck::of((name, Property::Losses, VANTAGE_POINTS[end]), Some(lost), inferred));
    }
    Ok(checks)
}

/// The explanation of the connection with most packets, as JSON.
fn explained(capture: &Path) -> Result<Value, Box<dyn Error>> {
    let (explanation, broken) = explain::explain(&mut Reader::open(capture)?);
    if let Some(error) = broken {
        return Err(error.into());
    }
    let captures = [ReadCapture { name: "capture".to_owned(), ..ReadCapture::default() }];
    let connections = pair_captures([explanation]);
    let mut document = serde_json::to_value(json::document(&captures, &connections, &PredictionRequest::default()))?;
    let connections = document["connections"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let one = connections.into_iter().max_by_key(|connection| connection["packets"].as_u64());
    one.ok_or_else(|| format!("no connection in {}", capture.display()).into())
}

/// The largest share of a transfer's time that a saturated link took.
fn saturated(explained: &Value) -> f64 {
    let share = |transfer: &Value| {
        let time = |cause: Cause| transfer["time_s"][cause.name()].as_f64().unwrap_or(0.0);
        let total = transfer["duration_s"].as_f64().unwrap_or(0.0);
        (time(Cause::PathRate) + time(Cause::SharedLink)) / total.max(f64::MIN_POSITIVE)
    };
    explained["transfers"].as_array().into_iter().flatten().map(share).fold(0.0, f64::max)
}

/// The packets of the connection's both directions.
fn packets(capture: &Path) -> Result<[u64; 2], Box<dyn Error>> {
    let summary = Summary::of(&mut Reader::open(capture)?)?;
    let connection = summary.connections.first().ok_or("no connection")?;
    Ok([connection.to_server.packets, connection.to_client.packets])
}
