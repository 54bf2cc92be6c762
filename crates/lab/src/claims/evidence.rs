//! What a run has to say about one pair of cells.

use super::{Count, Verdict};
use crate::{
    results::{CellResult, Status, WorkloadRecord},
    stats::{
        Interval,
        bootstrap::{Estimate, ratio_of_medians},
    },
    words::counted,
};

/// With fewer samples an interval holds the truth no more often than a coin shows heads.
const FEWEST: usize = 3;

/// The cells of a run, for one claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) cells: &'a [CellResult],
    pub(super) workloads: &'a [WorkloadRecord],
    pub(super) workload: &'a str,
    pub(super) network: &'a str,
    pub(super) seed: u64,
}

/// What one comparison of a claim came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) measured: String,
    pub(super) ci95: Option<Interval>,
    /// How far inside the bound it lies; the smallest is a claim's weakest pair.
    pub(super) margin: f64,
}

impl Finding {
    /// Nothing can be said, and why.
    pub(super) fn open(why: &str) -> Self {
        Self { verdict: Verdict::Inconclusive, measured: format!("{why}."), ci95: None, margin: f64::NEG_INFINITY }
    }
}

impl<'a> Evidence<'a> {
    /// What was found, or why nothing was, with the place where.
    pub(super) fn say(&self, what: &str) -> String {
        format!("{}, {}: {what}", self.workload, self.network)
    }

    /// A cell that was measured, or why there is none.
    pub(super) fn cell(&self, contender: &str) -> Result<&'a CellResult, String> {
        let Some(cell) = self.cells.iter().find(|cell| cell.is(self.workload, self.network, contender)) else {
            return Err(self.say(&format!("{contender} was not run")));
        };
        let because = cell.reason.as_deref().unwrap_or("no reason given");
        match cell.status {
            Status::Ok => Ok(cell),
            Status::Skipped if !cell.was_reached() => {
                Err(self.say(&format!("the run was stopped before {} was measured", cell.label())))
            }
            Status::Skipped => Err(self.say(&format!("{} was skipped: {because}", cell.label()))),
            Status::Failed => Err(self.say(&format!("{} failed: {because}", cell.label()))),
        }
    }

    /// The ratio of the times of two contenders, or why there is none.
    pub(super) fn ratio(&self, of: &str, to: &str) -> Result<(Estimate, &'a CellResult, &'a CellResult), String> {
        let (of, to) = (self.cell(of)?, self.cell(to)?);
        if let Some(few) = [of, to].into_iter().find(|cell| cell.samples_s.len() < FEWEST) {
            let samples = counted(few.samples_s.len() as u64, "sample");
            let why = format!("{samples} of {} cannot bear a verdict; take at least {FEWEST}", few.label());
            return Err(self.say(&why));
        }
        let estimate = ratio_of_medians(&of.samples_s, &to.samples_s, self.seed);
        Ok((estimate.ok_or_else(|| self.say("a time is not above zero"))?, of, to))
    }

    /// What a contender needed, or why that is not known.
    pub(super) fn count(&self, count: Count, contender: &str) -> Result<(u64, &'a CellResult), String> {
        let cell = self.cell(contender)?;
        let (number, name) = match count {
            Count::Connections => (cell.connections, "connections"),
            Count::Requests => (cell.requests, "requests"),
        };
        let uncounted = || self.say(&format!("the {name} of {} were not counted", cell.label()));
        Ok((number.ok_or_else(uncounted)?, cell))
    }

    /// How many things the workload does one by one, and what one is called.
    pub(super) fn steps(&self) -> (u32, &'a str) {
        let record = self.workloads.iter().find(|record| record.name == self.workload);
        record.map_or((1, "step"), |record| (record.steps.max(1), &record.step))
    }
}
