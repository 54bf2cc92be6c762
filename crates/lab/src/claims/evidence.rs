//! What a run measured for one pair of cells of a claim.

use std::collections::{BTreeMap, BTreeSet};

use super::{Count, Measure, Unit, Verdict};
use crate::{
    results::{CellResult, Status, WorkloadRecord},
    stats::{
        Interval, range_coverage,
        shift::{CONFIDENCE, LEAST_CONFIDENCE, Shift, hodges_lehmann, ratio},
    },
};

/// The cells of a run, for one claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) cells: &'a [CellResult],
    pub(super) workloads: &'a [WorkloadRecord],
    pub(super) workload: &'a str,
    pub(super) network: &'a str,
    pub(super) seed: u64,
}

/// Why a claim cannot be judged.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Gap {
    /// The cell is not part of the run.
    NotInRun,
    /// The cell has no usable result, and why.
    Unusable(String),
}

/// The result of one comparison of a claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// What was measured: the beginning of a sentence.
    pub(super) measured: String,
    /// The requirement: the end of the sentence; none if nothing was measured.
    pub(super) needs: Option<String>,
    /// The interval that decides, and its confidence.
    pub(super) interval: Option<(Interval, f64)>,
    /// The distance to the bound; the pair with the smallest is the weakest.
    pub(super) margin: f64,
    /// Whether the run had the cells.
    pub(super) in_run: bool,
}

impl From<Gap> for Finding {
    fn from(gap: Gap) -> Self {
        let in_run = gap != Gap::NotInRun;
        let measured = match gap {
            Gap::NotInRun => "not part of this run".to_owned(),
            Gap::Unusable(why) => why,
        };
        let verdict = Verdict::NotJudged;
        Self { verdict, measured, needs: None, interval: None, margin: f64::NEG_INFINITY, in_run }
    }
}

fn too_few(samples: usize) -> Gap {
    unusable(format!("too few samples for a verdict ({samples}); take at least 3"))
}

fn unusable(why: impl Into<String>) -> Gap {
    Gap::Unusable(why.into())
}

impl<'a> Evidence<'a> {
    pub(super) fn find(&self, contender: &str) -> Option<&'a CellResult> {
        self.cells.iter().find(|cell| cell.is(self.workload, self.network, contender))
    }

    /// Whether a comparison of these contenders tells nothing of a program: all of them are models, whose requests are our
    /// choice. It does tell something if they send the same requests and one of them sends them through a program.
    pub(super) fn are_only_models(&self, contenders: &[&str]) -> bool {
        let cells = || contenders.iter().filter_map(|contender| self.find(contender));
        let clients: BTreeSet<&str> =
            cells().map(|cell| cell.requests_of.as_ref().unwrap_or(&cell.contender).as_str()).collect();
        let has_program = cells().any(|cell| cell.requests_of.is_some());
        cells().count() == contenders.len() && cells().all(|cell| cell.model) && !(has_program && clients.len() == 1)
    }

    /// Whether a contender failed.
    pub(super) fn has_failed(&self, contender: &str) -> bool {
        self.find(contender).is_some_and(|cell| cell.status == Status::Failed)
    }

    /// A measured cell, or why there is none.
    pub(super) fn cell(&self, contender: &str) -> Result<&'a CellResult, Gap> {
        let cell = self.find(contender).ok_or(Gap::NotInRun)?;
        match cell.status {
            Status::Ok => match &cell.disturbed {
                None => Ok(cell),
                Some(why) => Err(unusable(format!("{} was disturbed: {why}", cell.label()))),
            },
            Status::Skipped if !cell.was_reached() => Err(Gap::NotInRun),
            Status::Skipped => Err(unusable(format!("{} was skipped", cell.label()))),
            Status::Failed => Err(unusable(format!("{} failed", cell.label()))),
        }
    }

    /// The ratio of `of` to `to`, or why there is none.
    pub(super) fn ratio(&self, of: &str, to: &str) -> Result<(Shift, &'a CellResult, &'a CellResult), Gap> {
        ratio_of(Measure::Time, self.cell(of)?, self.cell(to)?)
    }

    /// How much longer `what` takes than `than`, in seconds, or why that is unknown.
    pub(super) fn difference(&self, what: &str, than: &str) -> Result<(Shift, &'a CellResult, &'a CellResult), Gap> {
        let (_, what, than) = self.ratio(what, than)?;
        let shift = hodges_lehmann(&than.samples_s, &what.samples_s).ok_or_else(|| unusable("there are no samples"))?;
        Ok((shift, what, than))
    }

    /// A contender's median in round trips, floors or seconds, or why there is none. Its confidence is what the samples allow.
    pub(super) fn multiple(&self, contender: &str, unit: Unit) -> Result<(f64, Interval, f64, &'a CellResult), Gap> {
        let cell = self.cell(contender)?;
        let (median, interval) =
            cell.median_s.zip(cell.ci95_s).ok_or_else(|| unusable("it has no confidence interval"))?;
        let samples = cell.samples_s.len();
        if samples < 3 {
            return Err(too_few(samples));
        }
        let one = match (unit, cell.round_trips) {
            (Unit::RoundTrips, Some(trips)) if trips > 0.0 => median / trips,
            (Unit::RoundTrips, _) => return Err(unusable("the network has no delay")),
            (Unit::Seconds, _) => 1.0,
            _ if cell.floor_s > 0.0 => cell.floor_s,
            _ => return Err(unusable("the network has neither delay nor rate limit")),
        };
        let interval = Interval { lo: interval.lo / one, hi: interval.hi / one };
        let confidence = range_coverage(samples).min(CONFIDENCE);
        Ok((median / one, interval, confidence, cell))
    }

    /// A count of a contender, or why it is unknown.
    pub(super) fn count(&self, count: Count, contender: &str) -> Result<(u64, &'a CellResult), Gap> {
        let cell = self.cell(contender)?;
        let number = match count {
            Count::Connections => cell.connections,
            Count::Requests => cell.requests,
            Count::LinkRoundTrips => cell.link_round_trips,
        };
        let uncounted = || unusable(format!("the {}s of {} were not counted", count.one(), cell.label()));
        Ok((number.ok_or_else(uncounted)?, cell))
    }

    /// A contender's requests by method, or why they are unknown.
    pub(super) fn methods(&self, contender: &str) -> Result<(&'a BTreeMap<String, u64>, &'a CellResult), Gap> {
        let cell = self.cell(contender)?;
        let uncounted = || unusable(format!("the requests of {} were not counted by method", cell.label()));
        Ok((cell.methods.as_ref().ok_or_else(uncounted)?, cell))
    }

    /// The number of the workload's steps, and the word for one.
    pub(super) fn steps(&self) -> (u32, &'a str) {
        let record = self.workloads.iter().find(|record| record.name == self.workload);
        record.map_or((1, "step"), |record| (record.steps.max(1), &record.step))
    }
}

/// The ratio of a measure of two cells, or why there is none.
pub(super) fn ratio_of<'a>(
    measure: Measure,
    of: &'a CellResult,
    to: &'a CellResult,
) -> Result<(Shift, &'a CellResult, &'a CellResult), Gap> {
    let samples = |cell: &CellResult| match measure {
        Measure::Time => cell.samples_s.clone(),
        Measure::ServerCpu => cell.server_cpu_samples_s.clone(),
        Measure::ServerAndPackets => with_packets(cell),
    };
    let ratio = ratio(&samples(to), &samples(of)).ok_or_else(|| unusable("a time is missing or zero"))?;
    if ratio.confidence < LEAST_CONFIDENCE - 1e-9 {
        return Err(too_few(of.samples_s.len().min(to.samples_s.len())));
    }
    Ok((ratio, of, to))
}

/// The processor time of the server and for the packets to it, of each sample; empty if either is unknown.
fn with_packets(cell: &CellResult) -> Vec<f64> {
    let (server, machines) = (&cell.server_cpu_samples_s, &cell.machine_samples);
    let both = server.iter().zip(machines).map(|(server, machine)| Some(server + machine.to_server_s?));
    both.collect::<Option<Vec<f64>>>().filter(|all| all.len() == server.len()).unwrap_or_default()
}
