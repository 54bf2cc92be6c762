//! The files of a run: `run.json` for programs, `samples.csv` for statistics.
//!
//! [`RunResult`] is the schema `longhaul.run/1`. It holds everything that tables and reports need, so that a run can be
//! shown and compared after its experiment file has changed. Fields may be added; a reader must ignore unknown ones.
//!
//! A run is a folder, `runs/YYYYMMDD-HHMMSS-NAME`, with the time in UTC: sorted by name,
//! runs are sorted by age.

mod find;
mod page_view;
mod run_folder;
mod samples;
mod settings;
mod store;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    capture_names::CellName, claims::Verdict, deviations::CountedDeviation, disturbance::Machine, format::counted,
    servers::Protocol, stats::Interval,
};

pub(crate) use find::timestamp;
pub use find::{ListedRun, create_folder, find, ids, list, locate};
pub use page_view::{PageRequest, PageView, Picture};
pub use run_folder::{CreatedPaths, REPORT, RunFolder, check_outlives_run};
pub use samples::{Outcome, Sample, SampleLog, Syns};
pub use store::{ResultsError, read, write};

/// The name of the schema.
pub const SCHEMA: &str = "longhaul.run/1";

/// Why a cell of a run that was stopped has no sample.
pub(crate) const NOT_REACHED: &str = "the run was stopped before it";

/// A whole run.
// One field for each field of the schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's title.
    #[serde(default)]
    pub title: String,
    /// The experiment's question.
    #[serde(default)]
    pub question: String,
    /// The command that repeats it; empty in runs that did not record it.
    #[serde(default)]
    pub command: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// The machine.
    pub host: Host,
    /// The emulator's accuracy.
    pub calibration: Option<Calibration>,
    /// What was chosen for the whole run: server, TLS, seed, quick, congestion control, …
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The commands of contenders of the user's own, by contender.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, String>,
    /// The networks, in the order to show them.
    #[serde(default)]
    pub networks: Vec<NetworkRecord>,
    /// The workloads, in the order to show them.
    #[serde(default)]
    pub workloads: Vec<WorkloadRecord>,
    /// The contenders, in the order of the experiment; empty in runs of earlier builds.
    #[serde(default)]
    pub contenders: Vec<ContenderRecord>,
    /// The conditions under which the source measured, beside this run's; empty if it states none.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// One entry for each combination that was to be run.
    pub cells: Vec<CellResult>,
    /// Every pair of rivals on the same network and workload.
    pub comparisons: Vec<Comparison>,
    /// The claims of the source.
    pub claims: Vec<ClaimResult>,
    /// The runs that this one was [merged](crate::merge) from; empty if it was measured as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl RunResult {
    /// The cell of this name.
    pub fn cell(&self, workload: &str, network: &str, contender: &str) -> Option<&CellResult> {
        self.cells.iter().find(|cell| cell.is(workload, network, contender))
    }

    /// How many cells other programs on the machine disturbed, and what to do; none if it is none.
    pub fn disturbance(&self) -> Option<String> {
        let disturbed = self.cells.iter().filter(|cell| cell.disturbed.is_some()).count();
        let measured = self.cells.iter().filter(|cell| cell.median_s.is_some()).count();
        (disturbed > 0).then(|| {
            format!(
                "{disturbed} of {} could not be measured: the machine kept programs or packets waiting. No rank, no claim and no \
                 comparison rests on them. Run them again on a quiet machine, as root if possible.",
                counted(measured as u64, "cell")
            )
        })
    }

    /// The numbers of cells and of claims by verdict.
    pub fn summary(&self) -> String {
        let cells = counted(self.cells.len() as u64, "cell");
        if self.claims.is_empty() { cells } else { format!("{cells}; {}", self.claim_counts()) }
    }

    /// The number of claims by verdict: `17 claims: 5 reproduced, 2 refuted, 4 inconclusive, 6 not judged`.
    pub fn claim_counts(&self) -> String {
        Verdict::summary(&self.claims.iter().map(|claim| claim.verdict).collect::<Vec<_>>())
    }
}

/// A run that became a part of a merged one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The command that repeats it.
    pub command: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// The machine.
    pub host: Host,
    /// The emulator's accuracy.
    pub calibration: Option<Calibration>,
}

/// The machine that a run was made on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The machine's name; empty in older runs.
    #[serde(default)]
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name and the number of cores.
    pub cpu: String,
    /// Every sysctl that bears on the result, with its value.
    pub sysctls: BTreeMap<String, String>,
    /// Every program that took part, with its version.
    pub tools: BTreeMap<String, String>,
}

/// The emulator's accuracy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The median error of a packet's delay, in microseconds, at 1000 packets a second.
    pub delay_error_p50_us: f64,
    /// The 99th percentile of the error, in microseconds, at 1000 packets a second.
    pub delay_error_p99_us: f64,
    /// The maximum packet rate, in packets a second.
    pub packets_per_s: f64,
    /// The error of a rate of 100 Mbit/s, as a fraction; positive is too fast.
    #[serde(default)]
    pub rate_error: f64,
    /// Whether the relays had real-time priority; none in older runs.
    #[serde(default)]
    pub real_time: Option<bool>,
    /// The error of a packet's delay at several packet rates.
    #[serde(default)]
    pub delay_errors: Vec<DelayError>,
}

/// The error of packets' delay at one packet rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DelayError {
    /// Packets sent in a second.
    pub packets_per_s: u32,
    /// The median, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
    /// The maximum, in microseconds.
    pub max_us: f64,
}

impl From<&link::calibrate::Calibration> for Calibration {
    fn from(measured: &link::calibrate::Calibration) -> Self {
        let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        let delay_errors: Vec<DelayError> = measured
            .delay
            .iter()
            .map(|row| DelayError {
                packets_per_s: row.packets_per_second,
                p50_us: us(row.error.quantile(0.5)),
                p99_us: us(row.error.quantile(0.99)),
                max_us: us(row.error.max()),
            })
            .collect();
        let middle = delay_errors.iter().find(|row| row.packets_per_s == 1000);
        Self {
            delay_error_p50_us: middle.map_or(0.0, |row| row.p50_us),
            delay_error_p99_us: middle.map_or(0.0, |row| row.p99_us),
            packets_per_s: measured.packets_per_second,
            rate_error: measured.rate_error,
            real_time: Some(measured.real_time),
            delay_errors,
        }
    }
}

/// A network of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// Its name.
    pub name: String,
    /// Its description in words: `18ms RTT, 100mbit`.
    pub description: String,
    /// Its round-trip time in seconds.
    pub rtt_s: f64,
    /// Its description, as in the experiment.
    pub link: serde_json::Value,
}

/// A workload of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRecord {
    /// Its name.
    pub name: String,
    /// Its description in words: `upload 200 files of 10KiB`.
    pub description: String,
    /// The number of steps: files, listings, saves.
    pub steps: u32,
    /// The word for a step: file, listing, save.
    pub step: String,
}

/// A contender of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContenderRecord {
    /// Its name, without settings.
    pub name: String,
    /// The version of its program; empty if it has none of its own.
    pub version: String,
    /// One line on what it runs, and what takes its time.
    pub about: String,
}

impl fmt::Display for ContenderRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, about } = self;
        let version = if version.is_empty() { String::new() } else { format!(" ({version})") };
        write!(f, "{name}{version}: {about}")
    }
}

/// A condition under which the source measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is about: `server`, or the name of a network or a contender.
    pub about: String,
    /// The source's.
    pub theirs: String,
    /// This run's.
    pub ours: String,
}

/// The status of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ran, and its work was correct every time.
    Ok,
    /// It could not run here.
    Skipped,
    /// It failed.
    Failed,
}

/// One combination of workload, network and contender.
// One field for each field of the schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The workload.
    pub workload: String,
    /// The network.
    pub network: String,
    /// The contender, with its settings: `rclone transfers=16`.
    pub contender: String,
    /// Whether the contender is a model of a client that cannot run here.
    pub model: bool,
    /// The contender that sends the same requests straight to the server, if this one sends them through a program on
    /// the way, a gateway; none otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_of: Option<String>,
    /// Its status.
    pub status: Status,
    /// Why it was skipped (and how to get it) or how it failed.
    pub reason: Option<String>,
    /// The times in order; of a failed cell, those before the failure, which are not evaluated.
    pub samples_s: Vec<f64>,
    /// The median.
    pub median_s: Option<f64>,
    /// Its bootstrap interval; none of fewer than two samples.
    pub ci95_s: Option<Interval>,
    /// Bytes over the link in both directions, median of the samples.
    pub bytes: Option<u64>,
    /// HTTP requests, median of the samples.
    pub requests: Option<u64>,
    /// HTTP requests by method, medians of the samples; none if not logged.
    #[serde(default)]
    pub methods: Option<BTreeMap<String, u64>>,
    /// The protocols of the requests of all samples; none if not logged.
    #[serde(default)]
    pub protocols: Option<Vec<Protocol>>,
    /// TCP connections, median of the samples.
    pub connections: Option<u64>,
    /// Round trips on the link that followed one another while the clock ran, median of the samples; none if the link has
    /// no delay.
    #[serde(default)]
    pub link_round_trips: Option<u64>,
    /// Counts of SYNs in all samples; none if there was no tap.
    #[serde(default)]
    pub syns: Option<Syns>,
    /// The server's processor time in seconds, median of the samples; none if not measured.
    #[serde(default)]
    pub server_cpu_s: Option<f64>,
    /// The same for each sample, in order; empty if not measured.
    #[serde(default)]
    pub server_cpu_samples_s: Vec<f64>,
    /// The ideal time of a page: its dependencies, handshakes and slow start, with the recorded computation and think
    /// times and without loss; none for other work.
    #[serde(default)]
    pub ideal_s: Option<f64>,
    /// The first contentful paint of a page, in seconds, median of the samples; none if nothing is painted.
    #[serde(default)]
    pub fcp_s: Option<f64>,
    /// The largest contentful paint of a page, in seconds, median of the samples; none if nothing is painted.
    #[serde(default)]
    pub lcp_s: Option<f64>,
    /// The Speed Index of a page, in seconds, median of the samples; none if nothing is painted.
    #[serde(default)]
    pub speed_index_s: Option<f64>,
    /// The page load of the sample nearest to the median; none for other work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_view: Option<PageView>,
    /// The median time in round trips of the network; none where it has no delay.
    pub round_trips: Option<f64>,
    /// The minimum time that physics allows ([`floor`](crate::floor)).
    pub floor_s: f64,
    /// The median as a multiple of the floor.
    pub times_floor: Option<f64>,
    /// The machine during each sample, in order; empty in runs of earlier builds.
    #[serde(default)]
    pub machine_samples: Vec<Machine>,
    /// The number of attempts that were discarded because the machine disturbed them.
    #[serde(default)]
    pub repeated: u32,
    /// How a browser's loads differed from the recording; empty if they did not, and for other contenders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<CountedDeviation>,
    /// Why the cell is marked: other programs on the machine disturbed it. None if it is not, and in runs of earlier
    /// builds.
    #[serde(default)]
    pub disturbed: Option<String>,
    /// The attribution of its typical sample's time; none if its capture was not explained.
    #[serde(default)]
    pub why: Option<TimeAttribution>,
    /// The part of a merged run that measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
}

/// The attribution of a sample's time to causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeAttribution {
    /// The round of the sample.
    pub round: u32,
    /// Seconds by cause: those of `explain`, and `idle`. They add up to the sample's time. Empty if its capture could not
    /// be explained.
    pub seconds: BTreeMap<String, f64>,
    /// The attribution in one sentence, or why there is none.
    pub answer: String,
}

impl CellResult {
    /// Whether this is the cell of these names.
    pub fn is(&self, workload: &str, network: &str, contender: &str) -> bool {
        self.workload == workload && self.network == network && self.contender == contender
    }

    /// Whether the run got as far as this cell.
    pub fn was_reached(&self) -> bool {
        self.reason.as_deref() != Some(NOT_REACHED)
    }

    /// The contender's name, with the word "model" where it is one.
    pub fn label(&self) -> String {
        if self.model { format!("{} (model)", self.contender) } else { self.contender.clone() }
    }

    /// Its workload, network and contender.
    pub(crate) fn names(&self) -> CellName {
        [self.workload.clone(), self.network.clone(), self.contender.clone()]
    }

    /// How a comparison names it: `upload-small/article/rclone`.
    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.workload, self.network, self.contender)
    }
}

/// Two cells of the same workload and network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The cell with the smaller median, as workload/network/contender.
    pub a: String,
    /// The other cell.
    pub b: String,
    /// The ratio of b to a: the Hodges–Lehmann estimate.
    pub ratio: f64,
    /// Its interval.
    pub ci95: Interval,
    /// The confidence of the interval; below 0.95 with few samples.
    pub confidence: f64,
    /// Whether a difference was detected.
    pub differs: bool,
}

/// A claim and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claim's short name.
    pub id: String,
    /// The source of the sentence.
    pub source: String,
    /// The sentence, or the part of it that is checked.
    pub said: String,
    /// The workload whose cells are compared.
    #[serde(default)]
    pub workload: String,
    /// The network on which they are compared.
    #[serde(default)]
    pub network: String,
    /// Whether the run had the cells that the check needs. A check without them is not judged.
    #[serde(default = "yes")]
    pub in_run: bool,
    /// Whether the verdict rests on a model: a contender that decides is one. False in runs of earlier builds.
    #[serde(default)]
    pub model: bool,
    /// What was measured, in a sentence.
    pub measured: String,
    /// The interval that the verdict rests on; counts have none.
    pub ci95: Option<Interval>,
    /// The confidence of the interval; below 0.95 with few samples.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The result that would refute it, in words; none if the experiment does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted_by: Option<String>,
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests;
