//! Single samples: what the runner hands in, and one line of `samples.csv` for each.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use super::{ResultsError, store::replace};
use crate::experiment::Plan;

/// One run of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The round, counted from 0.
    pub round: u32,
    /// When it began, in seconds since the run began: what drifts, drifts along this.
    pub start_s: f64,
    /// How long the work took.
    pub seconds: f64,
    /// Bytes that crossed the link in both directions, if a tap saw them.
    pub bytes: Option<u64>,
    /// HTTP requests by method, if a log saw them.
    pub methods: Option<BTreeMap<String, u64>>,
    /// TCP connections, if a tap saw them.
    pub connections: Option<u64>,
}

impl Sample {
    /// HTTP requests of all methods, if a log saw them.
    pub fn requests(&self) -> Option<u64> {
        self.methods.as_ref().map(|methods| methods.values().sum())
    }
}

/// What became of a cell of the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Its samples; none when the run was stopped before it.
    Done(Vec<Sample>),
    /// Why it could not run here, and how to get what it needs.
    Skipped(String),
    /// How it went wrong.
    Failed(String),
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
}

/// Writes every sample of a run, one outcome for each cell of the plan, as CSV with a heading.
pub fn write_samples(path: &Path, plan: &Plan, outcomes: &[Outcome]) -> Result<(), ResultsError> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for (cell, outcome) in plan.cells.iter().zip(outcomes) {
        let Outcome::Done(samples) = outcome else { continue };
        for sample in samples {
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
            };
            csv.serialize(line).map_err(|error| ResultsError::write(path, error))?;
        }
    }
    let bytes = csv.into_inner().map_err(|error| ResultsError::write(path, error.into_error()))?;
    replace(path, &bytes)
}
