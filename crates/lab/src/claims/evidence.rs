//! What a run has to say about one pair of cells.

use super::{Count, Verdict};
use crate::{
    results::{CellResult, Status, WorkloadRecord},
    stats::{
        Interval,
        bootstrap::{Estimate, ratio_of_medians},
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
    pub(super) fn open(why: String) -> Self {
        Self { verdict: Verdict::Inconclusive, measured: why, ci95: None, margin: f64::NEG_INFINITY }
    }
}

impl<'a> Evidence<'a> {
    /// A cell that was measured, or why there is none.
    pub(super) fn cell(&self, contender: &str) -> Result<&'a CellResult, String> {
        let place = format!("{}, {}", self.workload, self.network);
        let Some(cell) = self.cells.iter().find(|cell| cell.is(self.workload, self.network, contender)) else {
            return Err(format!("{contender} was not run ({place})"));
        };
        let because = cell.reason.as_deref().unwrap_or("no reason given");
        match cell.status {
            Status::Ok => Ok(cell),
            Status::Skipped => Err(format!("{} was skipped ({place}): {because}", cell.label())),
            Status::Failed => Err(format!("{} failed ({place}): {because}", cell.label())),
        }
    }

    /// The ratio of the times of two contenders, or why there is none.
    pub(super) fn ratio(&self, of: &str, to: &str) -> Result<(Estimate, &'a CellResult, &'a CellResult), String> {
        let (of, to) = (self.cell(of)?, self.cell(to)?);
        let estimate = ratio_of_medians(&of.samples_s, &to.samples_s, self.seed).ok_or_else(|| {
            format!("{} and {} were not sampled twice, so there is no interval", of.label(), to.label())
        })?;
        Ok((estimate, of, to))
    }

    /// What a contender needed, or why that is not known.
    pub(super) fn count(&self, count: Count, contender: &str) -> Result<(u64, &'a CellResult), String> {
        let cell = self.cell(contender)?;
        let (number, name) = match count {
            Count::Connections => (cell.connections, "connections"),
            Count::Requests => (cell.requests, "requests"),
        };
        Ok((number.ok_or_else(|| format!("the {name} of {} were not counted", cell.label()))?, cell))
    }

    /// How many things the workload does one by one.
    pub(super) fn steps(&self) -> u32 {
        self.workloads.iter().find(|record| record.name == self.workload).map_or(1, |record| record.steps.max(1))
    }
}
