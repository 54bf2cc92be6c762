//! From samples to results: medians and intervals, floors, comparisons of contenders, verdicts on claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use crate::{
    conditions::conditions,
    deviations, disturbance,
    experiment::{Cell, Experiment, Network, Plan, Workload},
    floor::{floor, ideal},
    results::{
        Calibration, CellResult, Comparison, ContenderRecord, Host, NOT_REACHED, NetworkRecord, Outcome, PageView,
        RunResult, SCHEMA, Sample, Status, WorkloadRecord, timestamp,
    },
    servers::Protocol,
    stats::{bootstrap, median, shift},
};

/// The circumstances of a run: all of its record but the cells.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// When it began.
    pub started: SystemTime,
    /// The machine.
    pub host: Host,
    /// The contenders.
    pub contenders: Vec<ContenderRecord>,
    /// The emulator's accuracy.
    pub calibration: Option<Calibration>,
    /// The command that repeats it.
    pub command: String,
    /// Settings of the whole run: server, seed, quick, congestion control, …
    pub settings: BTreeMap<String, String>,
    /// Whether the work was done over TLS.
    pub tls: bool,
    /// The seed of the resampling.
    pub seed: u64,
}

/// Summarizes a run. `outcomes` has one entry for each cell of the plan, in its order; a cell without a sample or an
/// entry was not reached.
pub fn summarize(
    experiment: &Experiment,
    plan: &Plan,
    outcomes: &[Outcome],
    circumstances: Circumstances,
) -> RunResult {
    let Circumstances { started, host, contenders, calibration, command, settings, tls, seed } = circumstances;
    let cells: Vec<CellResult> =
        plan.cells.iter().enumerate().map(|(index, planned)| cell(planned, outcomes.get(index), tls, seed)).collect();
    let workloads = workloads(plan);
    let networks = networks(plan);
    let conditions = conditions(experiment, &networks, &contenders, &host, settings.get("server"));
    let claims = experiment.claims.iter().map(|claim| experiment.judge(claim, &cells, &workloads, seed)).collect();
    RunResult {
        schema: SCHEMA.to_owned(),
        experiment: experiment.name.clone(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        command,
        started: timestamp(started),
        host,
        calibration,
        settings,
        commands: commands(plan),
        networks,
        workloads,
        contenders,
        conditions,
        comparisons: comparisons(&cells),
        claims,
        cells,
        parts: Vec::new(),
    }
}

fn cell(cell: &Cell, outcome: Option<&Outcome>, tls: bool, seed: u64) -> CellResult {
    let floor = floor(&cell.workload.work, &cell.network, tls);
    let ideal = ideal(&cell.workload.work, &cell.network, &cell.row.contender);
    let taken = outcome.map_or(&[][..], Outcome::samples);
    // A cell that failed has no statistics; only its samples are kept.
    let (status, reason, samples): (_, _, &[Sample]) = match outcome {
        Some(Outcome::Done(samples)) if !samples.is_empty() => (Status::Ok, None, samples),
        Some(Outcome::Skipped(why)) => (Status::Skipped, Some(why.clone()), &[]),
        Some(Outcome::Failed { why, .. }) => (Status::Failed, Some(why.clone()), &[]),
        Some(Outcome::Done(_)) | None => (Status::Skipped, Some(NOT_REACHED.to_owned()), &[]),
    };
    let samples_s: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
    let median_s = median(&samples_s);
    let used = samples.iter().map(|sample| sample.server_cpu_s).collect::<Option<Vec<_>>>().unwrap_or_default();
    let rtt_s = cell.network.rtt().as_secs_f64();
    CellResult {
        workload: cell.workload.name.clone(),
        network: cell.network.name.clone(),
        contender: cell.row.name(),
        model: cell.row.model,
        requests_of: cell.row.requests_of.clone(),
        status,
        reason,
        median_s,
        ci95_s: bootstrap::of_median(&samples_s, seed).map(|estimate| estimate.interval),
        bytes: middle(samples, |sample| sample.bytes),
        requests: middle(samples, Sample::requests),
        methods: methods(samples),
        protocols: protocols(samples),
        connections: middle(samples, |sample| sample.connections),
        link_round_trips: middle(samples, |sample| sample.link_round_trips),
        syns: samples.iter().map(|sample| sample.syns).reduce(|all, one| Some(all?.and(one?))).flatten(),
        server_cpu_s: median(&used),
        server_cpu_samples_s: used,
        ideal_s: ideal.map(|ideal| ideal.as_secs_f64()),
        fcp_s: painted(samples, |view| view.fcp_s),
        lcp_s: painted(samples, |view| view.lcp_s),
        speed_index_s: painted(samples, |view| view.speed_index_s),
        page_view: median_s.and_then(|median| nearest(samples, median)).and_then(|sample| sample.page_view.clone()),
        round_trips: median_s.filter(|_| rtt_s > 0.0).map(|median| median / rtt_s),
        floor_s: floor.time.as_secs_f64(),
        times_floor: median_s
            .and_then(|median| floor.multiple(Duration::try_from_secs_f64(median).unwrap_or_default())),
        samples_s: taken.iter().map(|sample| sample.seconds).collect(),
        machine_samples: samples.iter().filter_map(|sample| sample.machine.clone()).collect(),
        repeated: samples.iter().map(|sample| sample.repeated).sum(),
        deviations: deviations::of(samples),
        disturbed: disturbance::mark(samples, rtt_s),
        why: None,
        part: None,
    }
}

/// The median time of a paint, if every sample has it.
fn painted(samples: &[Sample], time: impl Fn(&PageView) -> Option<f64>) -> Option<f64> {
    let times: Option<Vec<f64>> = samples.iter().map(|sample| sample.page_view.as_ref().and_then(&time)).collect();
    median(&times?)
}

/// The sample whose time is nearest to the median.
fn nearest(samples: &[Sample], median: f64) -> Option<&Sample> {
    let distance = |sample: &Sample| (sample.seconds - median).abs();
    samples.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)))
}

/// The median of a count, if every sample has it.
fn middle(samples: &[Sample], count: impl Fn(&Sample) -> Option<u64>) -> Option<u64> {
    let counts: Option<Vec<f64>> = samples.iter().map(|sample| count(sample).map(|count| count as f64)).collect();
    median(&counts?).map(|middle| middle.round() as u64)
}

/// The median count of each method; a method that a sample did not use counts as 0.
fn methods(samples: &[Sample]) -> Option<BTreeMap<String, u64>> {
    let counted: Vec<&BTreeMap<String, u64>> =
        samples.iter().map(|sample| sample.methods.as_ref()).collect::<Option<_>>()?;
    let names: BTreeSet<&String> = counted.iter().flat_map(|methods| methods.keys()).collect();
    let count = |name: &String| {
        middle(samples, |sample| sample.methods.as_ref().map(|methods| methods.get(name).copied().unwrap_or(0)))
    };
    (!samples.is_empty()).then(|| names.into_iter().filter_map(|name| Some((name.clone(), count(name)?))).collect())
}

/// The protocols of the requests of all samples.
fn protocols(samples: &[Sample]) -> Option<Vec<Protocol>> {
    let used: Vec<&BTreeSet<Protocol>> =
        samples.iter().map(|sample| sample.protocols.as_ref()).collect::<Option<_>>()?;
    let all: BTreeSet<&Protocol> = used.into_iter().flatten().collect();
    (!samples.is_empty()).then(|| all.into_iter().cloned().collect())
}

/// Every pair of rivals that were measured undisturbed, block by block.
pub(crate) fn comparisons(cells: &[CellResult]) -> Vec<Comparison> {
    let usable = |cell: &&CellResult| cell.median_s.is_some() && cell.disturbed.is_none();
    let measured: Vec<&CellResult> = cells.iter().filter(usable).collect();
    let same_block = |a: &&CellResult, b: &&CellResult| a.workload == b.workload && a.network == b.network;
    measured
        .chunk_by(|a, b| same_block(a, b))
        .flat_map(|block| {
            let mut block = block.to_vec();
            block.sort_by(|a, b| a.median_s.unwrap_or_default().total_cmp(&b.median_s.unwrap_or_default()));
            let pairs = (0..block.len()).flat_map(|a| (a + 1..block.len()).map(move |b| (a, b)));
            pairs.filter_map(|(a, b)| comparison(block[a], block[b])).collect::<Vec<_>>()
        })
        .collect()
}

fn comparison(a: &CellResult, b: &CellResult) -> Option<Comparison> {
    let ratio = shift::ratio(&a.samples_s, &b.samples_s)?;
    Some(Comparison {
        a: a.path(),
        b: b.path(),
        ratio: ratio.value,
        ci95: ratio.interval,
        confidence: ratio.confidence,
        differs: ratio.differs(),
    })
}

fn commands(plan: &Plan) -> BTreeMap<String, String> {
    let custom = plan.cells.iter().filter_map(|cell| cell.row.custom.as_ref());
    custom.map(|custom| (custom.name().to_owned(), custom.describe())).collect()
}

fn networks(plan: &Plan) -> Vec<NetworkRecord> {
    let mut seen = BTreeSet::new();
    let networks = plan.cells.iter().map(|cell| &cell.network).filter(|network| seen.insert(&network.name));
    networks.map(NetworkRecord::from).collect()
}

fn workloads(plan: &Plan) -> Vec<WorkloadRecord> {
    let mut seen = BTreeSet::new();
    let workloads = plan.cells.iter().map(|cell| &cell.workload).filter(|workload| seen.insert(&workload.name));
    workloads.map(WorkloadRecord::from).collect()
}

impl From<&Network> for NetworkRecord {
    fn from(network: &Network) -> Self {
        Self {
            name: network.name.clone(),
            description: network.describe(),
            rtt_s: network.rtt().as_secs_f64(),
            link: network.record(),
        }
    }
}

impl From<&Workload> for WorkloadRecord {
    fn from(workload: &Workload) -> Self {
        Self {
            name: workload.name.clone(),
            description: workload.work.to_string(),
            steps: workload.work.steps(),
            step: workload.work.step().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
