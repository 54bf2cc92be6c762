//! Single samples, and `samples.csv` with one line for each. A line is written as soon as the sample is taken, so that
//! a killed run keeps its samples.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use capture::summary::Connection;
use page::browser::deviations::Deviation;
use serde::{Deserialize, Serialize};

use super::ResultsError;
use crate::{
    disturbance::{Machine, Measured},
    experiment::Cell,
    servers::Protocol,
};

/// One run of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The round, counted from 0.
    pub round: u32,
    /// When it began, in seconds since the run began, to detect drift.
    pub start_s: f64,
    /// The same since 1970-01-01 00:00 UTC, like the times of its packets; none if unknown.
    pub began: Option<Duration>,
    /// How long the work took.
    pub seconds: f64,
    /// Bytes over the link in both directions, if a tap counted them.
    pub bytes: Option<u64>,
    /// HTTP requests by method, if the server logged them.
    pub methods: Option<BTreeMap<String, u64>>,
    /// The protocols of the requests, if the server logged them.
    pub protocols: Option<BTreeSet<Protocol>>,
    /// TCP connections, if a tap counted them.
    pub connections: Option<u64>,
    /// Round trips on the link that followed one another, if a tap saw them and the link has a delay.
    pub link_round_trips: Option<u64>,
    /// Counts of SYNs, if a tap saw them.
    pub syns: Option<Syns>,
    /// The server's processor time during the work, in seconds; of a server program, in steps of the kernel's clock (10
    /// ms).
    pub server_cpu_s: Option<f64>,
    /// What the machine did to it.
    pub machine: Option<Machine>,
    /// How a browser's load differed from the recording.
    pub deviations: Vec<Deviation>,
    /// How often it was taken before, and discarded because the machine disturbed it.
    pub repeated: u32,
}

/// Counts of SYNs with data (TCP Fast Open), including connections from before the clock started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syns {
    /// Samples with a connection.
    pub firsts: u64,
    /// Of their first connections, those whose SYN carried data.
    pub firsts_with_data: u64,
    /// All connections after the first of each sample.
    pub later: u64,
    /// Of these, those whose SYN carried data.
    pub later_with_data: u64,
    /// Of these, those with a plain SYN that was sent because one with data, or with a cookie request, had long been
    /// unanswered: the engine's fallback, at most one for each.
    #[serde(default)]
    pub later_beside: u64,
}

/// The engine's minimum wait for the answer to a SYN with data or a cookie request.
const WAIT: Duration = Duration::from_millis(50);

impl Syns {
    pub(crate) fn of(connections: &[Connection]) -> Self {
        let with_data =
            |connections: &[Connection]| connections.iter().filter(|connection| connection.syn_data > 0).count() as u64;
        let Some((first, later)) = connections.split_first() else { return Self::default() };
        Self {
            firsts: 1,
            firsts_with_data: with_data(std::slice::from_ref(first)),
            later: later.len() as u64,
            later_with_data: with_data(later),
            later_beside: beside(connections),
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            firsts: self.firsts + other.firsts,
            firsts_with_data: self.firsts_with_data + other.firsts_with_data,
            later: self.later + other.later,
            later_with_data: self.later_with_data + other.later_with_data,
            later_beside: self.later_beside + other.later_beside,
        }
    }
}

/// The number of plain connections that were started beside a different unanswered one each.
fn beside(connections: &[Connection]) -> u64 {
    let mut alone: Vec<&Connection> = Vec::new();
    let mut count = 0;
    for connection in connections {
        if connection.fast_open.is_some() {
            alone.push(connection);
            continue;
        }
        let unanswered = |one: &&Connection| {
            let silent = one.answered.is_none_or(|answered| answered > connection.syn);
            one.server == connection.server && silent && one.syn + WAIT <= connection.syn
        };
        if let Some(at) = alone.iter().position(unanswered) {
            alone.remove(at);
            count += 1;
        }
    }
    count
}

impl Sample {
    /// What an estimate of the machine's share needs; `rtt` is that of its network.
    pub(crate) fn measured(&self, rtt: Duration) -> Measured {
        Measured {
            seconds: self.seconds,
            rtt_s: rtt.as_secs_f64(),
            link_round_trips: self.link_round_trips,
            requests: self.requests(),
        }
    }

    /// The share of its time that the machine may have added.
    pub(crate) fn disturbance(&self) -> f64 {
        self.machine.as_ref().map_or(0.0, |machine| machine.added_s / self.seconds)
    }

    /// Whether the machine disturbed it beyond the bounds.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.machine.as_ref().is_some_and(|machine| machine.disturbed)
    }

    /// HTTP requests of all methods, if the server logged them.
    pub fn requests(&self) -> Option<u64> {
        self.methods.as_ref().map(|methods| methods.values().sum())
    }
}

/// The outcome of a cell of the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Its samples; none when the run was stopped before it.
    Done(Vec<Sample>),
    /// Why it could not run here, and how to get what it needs.
    Skipped(String),
    /// It failed.
    Failed {
        /// Why.
        why: String,
        /// The samples before the failure.
        samples: Vec<Sample>,
    },
}

impl Outcome {
    /// The samples that were taken, whatever came after.
    pub fn samples(&self) -> &[Sample] {
        match self {
            Self::Done(samples) | Self::Failed { samples, .. } => samples,
            Self::Skipped(_) => &[],
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    workload: &'a str,
    network: &'a str,
    contender: &'a str,
    model: bool,
    round: u32,
    start_s: f64,
    seconds: f64,
    bytes: Option<u64>,
    requests: Option<u64>,
    connections: Option<u64>,
    server_cpu_s: Option<f64>,
    link_round_trips: Option<u64>,
    added_s: Option<f64>,
    disturbed: Option<bool>,
}

/// A run's samples as CSV, with a heading before the first.
#[derive(Debug)]
pub struct SampleLog {
    path: PathBuf,
    file: File,
    len: u64,
}

impl SampleLog {
    /// Makes the file, empty.
    pub fn create(path: &Path) -> Result<Self, ResultsError> {
        let file = File::create_new(path).map_err(|error| ResultsError::write(path, error))?;
        Ok(Self::on(path, file))
    }

    pub(super) fn on(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file, len: 0 }
    }

    /// Writes a sample of a cell. An incomplete line is removed again.
    pub fn append(&mut self, cell: &Cell, sample: &Sample) -> Result<(), ResultsError> {
        let line = Line {
            workload: &cell.workload.name,
            network: &cell.network.name,
            contender: &cell.row.name(),
            model: cell.row.model,
            round: sample.round,
            start_s: sample.start_s,
            seconds: sample.seconds,
            bytes: sample.bytes,
            requests: sample.requests(),
            connections: sample.connections,
            server_cpu_s: sample.server_cpu_s,
            link_round_trips: sample.link_round_trips,
            added_s: sample.machine.as_ref().map(|machine| machine.added_s),
            disturbed: sample.machine.as_ref().map(|machine| machine.disturbed),
        };
        let failed = |why: &dyn std::fmt::Display| ResultsError::write(&self.path, why);
        let mut csv = csv::WriterBuilder::new().has_headers(self.len == 0).from_writer(Vec::new());
        csv.serialize(line).map_err(|error| failed(&error))?;
        let bytes = csv.into_inner().map_err(|error| failed(error.error()))?;
        if let Err(error) = self.file.write_all(&bytes) {
            let _ = self.file.set_len(self.len);
            return Err(failed(&error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use capture::summary::{FastOpen, Traffic};

    use super::*;

    fn connection(at: u64, data: u32, fast_open: Option<FastOpen>, answered: Option<u64>) -> Connection {
        Connection {
            client: ([10, 0, 0, 1], at as u16).into(),
            server: ([10, 0, 0, 2], 80).into(),
            syn: Duration::from_millis(at),
            isn: 0,
            syn_retransmissions: 0,
            syn_data: data,
            fast_open,
            answered: answered.map(Duration::from_millis),
            to_server: Traffic::default(),
            to_client: Traffic::default(),
        }
    }

    #[test]
    fn plain_connections_beside_unanswered_syns_are_counted() {
        let data = |at, answered| connection(at, 300, Some(FastOpen::Cookie(8)), answered);
        let plain = |at| connection(at, 0, None, Some(at + 40));
        let ask = connection(0, 0, Some(FastOpen::Request), Some(40));
        let of = |connections: Vec<Connection>| {
            let syns = Syns::of(&connections);
            (syns.firsts_with_data, syns.later, syns.later_with_data, syns.later_beside)
        };
        assert_eq!(of(vec![ask.clone(), data(100, Some(140)), data(110, None)]), (0, 2, 2, 0));
        assert_eq!(of(vec![ask.clone(), data(100, Some(300)), plain(180)]), (0, 2, 1, 1), "overtaken");
        assert_eq!(of(vec![ask.clone(), data(100, Some(140)), plain(180)]), (0, 2, 1, 0), "it was answered");
        assert_eq!(of(vec![ask.clone(), data(100, None), plain(120)]), (0, 2, 1, 0), "too soon");
        assert_eq!(of(vec![ask, data(100, None), plain(180), plain(190)]), (0, 3, 1, 1), "one for each");
    }
}
