//! Compares the explanation of a capture with what happened.

use std::{collections::BTreeMap, error::Error, path::Path};

use capture::pcapng::Reader;
use explain::{Cause, Connection, Transfer};

use crate::{
    runs::Tells,
    scenario::{Protocol, Scenario},
    testbed::{PLACES, Played},
};

/// The least share of the time that makes a cause worth naming; below, all is the length of the way.
const WORTH_NAMING: f64 = 0.1;

/// The least time that the kernel's clocks, which tick each few milliseconds, are held to.
const LEAST: f64 = 0.3;

/// The shortest transfer whose program's clock is compared: below, a busy machine is all that is measured.
const SHORTEST: f64 = 0.1;

/// How far explain may be from the clocks of kernel and program.
const FAR: f64 = 0.10;

/// What a sender waits for while nothing of its own is on the way.
const OUTSIDE: [Cause; 8] = [
    Cause::NameLookup,
    Cause::ConnectRetry,
    Cause::Connect,
    Cause::Tls,
    Cause::HttpFlowControl,
    Cause::SenderIdle,
    Cause::ServerThink,
    Cause::ClientThink,
];

/// Explains the one connection of a capture.
pub(crate) fn explained(capture: &Path) -> Result<Connection, Box<dyn Error>> {
    let (explanation, broken) = explain::explain(&mut Reader::open(capture)?);
    if let Some(error) = broken {
        return Err(error.into());
    }
    let one = explanation.connections.into_iter().max_by_key(|connection| connection.packets);
    one.ok_or_else(|| format!("no connection is seen in {}", capture.display()).into())
}

/// The transfer that a scenario is about: one for each exchange where they can be read, else the longest.
pub(crate) fn transfer<'a>(connection: &'a Connection, scenario: &Scenario) -> Result<&'a Transfer, Box<dyn Error>> {
    let transfers = &connection.transfers;
    let number = scenario.expect.exchange.unwrap_or(scenario.exchange.len() - 1);
    let one = if transfers.len() == scenario.exchange.len() {
        transfers.get(number)
    } else {
        transfers.iter().max_by_key(|transfer| transfer.duration)
    };
    one.ok_or_else(|| "no transfer is seen".into())
}

/// What was concluded from one capture.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub(crate) scenario: String,
    pub(crate) says: String,
    pub(crate) place: &'static str,
    pub(crate) expected: String,
    pub(crate) found: &'static str,
    /// What is wrong with the shares, and all of them.
    pub(crate) wrong: Vec<String>,
    pub(crate) shares: String,
}

impl Verdict {
    fn of((name, scenario): (&str, &Scenario), place: &'static str, transfer: &Transfer) -> Self {
        let expect = scenario.expect.at.get(place).unwrap_or(&scenario.expect);
        let total = transfer.duration.as_secs_f64();
        let share = |time: u64| time as f64 / 1e9 / total.max(1e-9);
        let ranked = transfer.times.ranked();
        let largest = ranked.iter().find(|(cause, _)| *cause != Cause::Propagation);
        let found =
            largest.filter(|(_, time)| share(*time) >= WORTH_NAMING).map_or(Cause::Propagation, |(cause, _)| *cause);
        let shares: BTreeMap<&str, f64> = ranked.iter().map(|(cause, time)| (cause.name(), share(*time))).collect();
        let wrong = expect.share.iter().filter_map(|(cause, [least, most])| {
            let share = shares.get(cause.as_str()).copied().unwrap_or(0.0);
            (share < *least || share > *most).then(|| format!("{cause} is {share:.2}, not {least} to {most}"))
        });
        let shown = ranked.iter().filter(|(_, time)| share(*time) >= 0.01);
        let shown = shown.map(|(cause, time)| format!("{} {:.2}", cause.name(), share(*time)));
        Self {
            scenario: name.to_owned(),
            says: scenario.says.clone(),
            place,
            expected: expect.cause.clone(),
            found: found.name(),
            wrong: wrong.collect(),
            shares: format!("{:.3} s: {}", total, shown.collect::<Vec<_>>().join(", ")),
        }
    }
}

impl Tells for Verdict {
    fn about(&self) -> &str {
        self.place
    }

    fn off(&self) -> f64 {
        if self.holds() { 0.0 } else { 1.0 }
    }

    fn holds(&self) -> bool {
        self.expected == self.found && self.wrong.is_empty()
    }
}

/// A clock that was there when it happened, and what explain says.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    pub(crate) scenario: String,
    pub(crate) name: &'static str,
    /// What it says, in seconds.
    pub(crate) truth: f64,
    pub(crate) explain: f64,
    /// The least that is compared.
    least: f64,
}

impl Clock {
    /// Whether it says so much that it can be compared.
    pub(crate) fn tells(&self) -> bool {
        self.truth >= self.least
    }
}

impl Tells for Clock {
    fn about(&self) -> &str {
        self.name
    }

    /// As a share of the truth.
    fn off(&self) -> f64 {
        if self.tells() { (self.explain - self.truth).abs() / self.truth } else { 0.0 }
    }

    fn holds(&self) -> bool {
        self.off() <= FAR
    }
}

/// What is concluded from each of the captures, and how that agrees with the sender's kernel.
pub(crate) fn judge(
    name: &str,
    scenario: &Scenario,
    played: &Played,
) -> Result<(Vec<Verdict>, Vec<Clock>), Box<dyn Error>> {
    let mut verdicts = Vec::new();
    for (place, capture) in PLACES.into_iter().zip(&played.captures) {
        let connection = explained(capture)?;
        verdicts.push(Verdict::of((name, scenario), place, transfer(&connection, scenario)?));
    }
    let [up, down] = scenario.sizes();
    let sender = usize::from(down > up);
    let connection = explained(&played.captures[if sender == 0 { 0 } else { 2 }])?;
    let spent = |causes: &[Cause]| -> f64 {
        let each = |transfer: &Transfer| causes.iter().map(|cause| transfer.times[*cause]).sum::<u64>();
        connection.transfers.iter().map(each).sum::<u64>() as f64 / 1e9
    };
    let kernel = played.told.kernels[sender];
    // A program that is blocked in a write, and woken late, is idle as packets tell it; its kernel counts its buffer.
    let blocked = scenario.expect.cause == Cause::SendBuffer.name();
    let woken = if blocked { spent(&[Cause::SenderIdle]) } else { 0.0 };
    let inside: Vec<Cause> = Cause::all().filter(|cause| !OUTSIDE.contains(cause)).collect();
    let clocks = [
        ("busy", kernel.busy_time, spent(&inside) + woken),
        ("rwnd_limited", kernel.rwnd_limited, spent(&[Cause::ReceiveWindow, Cause::ReceiverStalled])),
        ("sndbuf_limited", kernel.sndbuf_limited, spent(&[Cause::SendBuffer]) + woken),
    ];
    let clocks = clocks.into_iter().filter_map(|(clock, kernel, explain)| {
        let truth = kernel?.as_secs_f64();
        // A window that is full while the path is busy anyway costs nothing; the kernel counts it all the same.
        let counts = if clock == "busy" { is_busy(scenario) } else { scenario.expect.cause != Cause::PathRate.name() };
        counts.then(|| Clock { scenario: name.to_owned(), name: clock, truth, explain, least: LEAST })
    });
    Ok((verdicts, clocks.chain(programs_clock(name, scenario, played)?).collect()))
}

/// Whether the sender's kernel was busy when explain says that something was on the way: not with a TLS handshake,
/// which is data to it; with answers that are sent while the next is thought of; with bytes on the way while their
/// program idles; or where the other side sends as much.
fn is_busy(scenario: &Scenario) -> bool {
    let [up, down] = scenario.sizes();
    let idles = scenario.expect.cause == Cause::SenderIdle.name();
    let plain = matches!(scenario.protocol, Protocol::Http | Protocol::Raw);
    plain && !scenario.pipelined && !idles && up.max(down) > 10 * up.min(down)
}

/// The client program's own clock, where it took what the transfer took: from its first cause to its last byte.
fn programs_clock(name: &str, scenario: &Scenario, played: &Played) -> Result<Option<Clock>, Box<dyn Error>> {
    let number = scenario.expect.exchange.unwrap_or(scenario.exchange.len() - 1);
    let truth = match number {
        0 => played.told.took,
        _ => played.told.exchanges[number],
    };
    if scenario.pipelined || (number == 0 && scenario.exchange.len() > 1) {
        return Ok(None);
    }
    let connection = explained(&played.captures[0])?;
    let explain = transfer(&connection, scenario)?.duration.as_secs_f64();
    Ok(Some(Clock { scenario: name.to_owned(), name: "program", truth: truth.as_secs_f64(), explain, least: SHORTEST }))
}
