//! Compares the explanation of a capture with what happened.

use std::{collections::BTreeMap, error::Error, path::Path};

use capture::pcapng::Reader;
use explain::{Cause, Connection, Transfer};

use crate::{
    runs::Outcome,
    scenario::{Protocol, Scenario},
    testbed::{Recorded, VANTAGE_POINTS},
};

/// Minimum share of the largest cause; if it is smaller, `propagation` is expected.
const MIN_SHARE: f64 = 0.1;

/// Minimum time that is compared with the kernel's clocks, which have a resolution of a few milliseconds.
const MIN_KERNEL_TIME: f64 = 0.3;

/// Minimum time that is compared with the program's clock. Shorter ones measure how busy the machine is.
const MIN_PROGRAM_TIME: f64 = 0.1;

/// Maximum relative error of explain, compared with the clocks of kernel and program.
const MAX_ERROR: f64 = 0.10;

/// The causes during which a sender has nothing in flight.
const NOTHING_IN_FLIGHT: [Cause; 9] = [
    Cause::NameLookup,
    Cause::ConnectRetry,
    Cause::Connect,
    Cause::Tls,
    Cause::ExpectContinue,
    Cause::HttpFlowControl,
    Cause::SenderIdle,
    Cause::ServerThink,
    Cause::ClientThink,
];

/// Explains a capture; returns its only connection, or the one with most packets.
pub(crate) fn explain_capture(capture: &Path) -> Result<Connection, Box<dyn Error>> {
    let (explanation, broken) = explain::explain(&mut Reader::open(capture)?);
    if let Some(error) = broken {
        return Err(error.into());
    }
    let one = explanation.connections.into_iter().max_by_key(|connection| connection.packets);
    one.ok_or_else(|| format!("no connection in {}", capture.display()).into())
}

/// The transfer that a scenario is about: by the number of its exchange, or the longest if exchanges cannot be read.
pub(crate) fn transfer<'a>(connection: &'a Connection, scenario: &Scenario) -> Result<&'a Transfer, Box<dyn Error>> {
    let transfers = &connection.transfers;
    let number = scenario.expect.exchange.unwrap_or(scenario.exchange.len() - 1);
    let one = if transfers.len() == scenario.exchange.len() {
        transfers.get(number)
    } else {
        transfers.iter().max_by_key(|transfer| transfer.duration)
    };
    one.ok_or_else(|| "no transfer".into())
}

/// The conclusion from one capture.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub(crate) scenario: String,
    pub(crate) says: String,
    pub(crate) vantage: &'static str,
    pub(crate) expected: String,
    pub(crate) found: &'static str,
    /// The shares that are wrong, and all shares.
    pub(crate) wrong: Vec<String>,
    pub(crate) shares: String,
}

impl Verdict {
    fn of((name, scenario): (&str, &Scenario), vantage: &'static str, transfer: &Transfer) -> Self {
        let expect = scenario.expect.at.get(vantage).unwrap_or(&scenario.expect);
        let total = transfer.duration.as_secs_f64();
        let share = |time: u64| time as f64 / 1e9 / total.max(1e-9);
        let ranked = transfer.times.ranked();
        let largest = ranked.iter().find(|(cause, _)| *cause != Cause::Propagation);
        let found =
            largest.filter(|(_, time)| share(*time) >= MIN_SHARE).map_or(Cause::Propagation, |(cause, _)| *cause);
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
            vantage,
            expected: expect.cause.clone(),
            found: found.name(),
            wrong: wrong.collect(),
            shares: format!("{:.3} s: {}", total, shown.collect::<Vec<_>>().join(", ")),
        }
    }
}

impl Outcome for Verdict {
    fn subject(&self) -> &str {
        self.vantage
    }

    fn error(&self) -> f64 {
        if self.is_right() { 0.0 } else { 1.0 }
    }

    fn is_right(&self) -> bool {
        self.expected == self.found && self.wrong.is_empty()
    }
}

/// A time that the kernel or the program measured, and the one that explain found.
#[derive(Debug, Clone)]
pub(crate) struct ClockCheck {
    pub(crate) scenario: String,
    pub(crate) name: &'static str,
    /// The measured time, in seconds.
    pub(crate) truth: f64,
    pub(crate) explain: f64,
    /// Shorter times are not compared.
    min: f64,
}

impl ClockCheck {
    /// Whether it is long enough to be compared.
    pub(crate) fn is_comparable(&self) -> bool {
        self.truth >= self.min
    }
}

impl Outcome for ClockCheck {
    fn subject(&self) -> &str {
        self.name
    }

    /// Relative to the measured time.
    fn error(&self) -> f64 {
        if self.is_comparable() { (self.explain - self.truth).abs() / self.truth } else { 0.0 }
    }

    fn is_right(&self) -> bool {
        self.error() <= MAX_ERROR
    }
}

/// The conclusions from each capture, and their comparison with the sender's kernel and the client program.
pub(crate) fn judge(
    name: &str,
    scenario: &Scenario,
    recorded: &Recorded,
) -> Result<(Vec<Verdict>, Vec<ClockCheck>), Box<dyn Error>> {
    let mut verdicts = Vec::new();
    for (vantage, capture) in VANTAGE_POINTS.into_iter().zip(&recorded.captures) {
        let connection = explain_capture(capture)?;
        verdicts.push(Verdict::of((name, scenario), vantage, transfer(&connection, scenario)?));
    }
    let [up, down] = scenario.sizes();
    let sender = usize::from(down > up);
    let connection = explain_capture(&recorded.captures[if sender == 0 { 0 } else { 2 }])?;
    let spent = |causes: &[Cause]| -> f64 {
        let each = |transfer: &Transfer| causes.iter().map(|cause| transfer.times[*cause]).sum::<u64>();
        connection.transfers.iter().map(each).sum::<u64>() as f64 / 1e9
    };
    let kernel = recorded.observed.kernels[sender];
    // A program that is blocked in a write and woken late is idle, as packets show it; its kernel counts a full buffer.
    let blocked = scenario.expect.cause == Cause::SendBuffer.name();
    let woken = if blocked { spent(&[Cause::SenderIdle]) } else { 0.0 };
    let in_flight: Vec<Cause> = Cause::all().filter(|cause| !NOTHING_IN_FLIGHT.contains(cause)).collect();
    let clocks = [
        ("busy", kernel.busy_time, spent(&in_flight) + woken),
        ("rwnd_limited", kernel.rwnd_limited, spent(&[Cause::ReceiveWindow, Cause::ReceiverStalled])),
        ("sndbuf_limited", kernel.sndbuf_limited, spent(&[Cause::SendBuffer]) + woken),
    ];
    let clocks = clocks.into_iter().filter_map(|(clock, kernel, explain)| {
        let truth = kernel?.as_secs_f64();
        // The kernel also counts a full window while the path is busy, where it costs nothing.
        let counts = if clock == "busy" { is_busy(scenario) } else { scenario.expect.cause != Cause::PathRate.name() };
        counts.then(|| ClockCheck { scenario: name.to_owned(), name: clock, truth, explain, min: MIN_KERNEL_TIME })
    });
    Ok((verdicts, clocks.chain(program_clock(name, scenario, recorded)?).collect()))
}

/// Whether the kernel's busy time is comparable. It is not with TLS, whose handshake is data to the kernel; with pipelining,
/// where responses are in flight while the server works on the next; if a body waits while its head is in flight; if the
/// program idles while bytes are in flight; and if both sides send much.
fn is_busy(scenario: &Scenario) -> bool {
    let [up, down] = scenario.sizes();
    let idles = scenario.expect.cause == Cause::SenderIdle.name();
    let plain = matches!(scenario.protocol, Protocol::Http | Protocol::Raw);
    let expects = scenario.exchange.iter().any(|exchange| exchange.expects_for.is_some());
    plain && !scenario.pipelined && !expects && !idles && up.max(down) > 10 * up.min(down)
}

/// The client program's clock, if it measured the transfer from its trigger to its last byte.
fn program_clock(name: &str, scenario: &Scenario, recorded: &Recorded) -> Result<Option<ClockCheck>, Box<dyn Error>> {
    let number = scenario.expect.exchange.unwrap_or(scenario.exchange.len() - 1);
    let truth = match number {
        0 => recorded.observed.took,
        _ => recorded.observed.exchanges[number],
    };
    if scenario.pipelined || (number == 0 && scenario.exchange.len() > 1) {
        return Ok(None);
    }
    let connection = explain_capture(&recorded.captures[0])?;
    let explain = transfer(&connection, scenario)?.duration.as_secs_f64();
    Ok(Some(ClockCheck {
        scenario: name.to_owned(),
        name: "program",
        truth: truth.as_secs_f64(),
        explain,
        min: MIN_PROGRAM_TIME,
    }))
}
