//! A run while it goes on, for whoever watches: schema `longhaul.live/1`.
//!
//! It is told what happens ([`Event`]) and holds what is known so far. No statistics are made of it before the end:
//! the processors are the contenders'.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    experiment::{Cell, Experiment, Plan},
    floor::floor,
    results::timestamp,
    run::Event,
};

/// The name of the schema.
pub const SCHEMA: &str = "longhaul.live/1";

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The emulator is measured.
    Calibrating,
    /// Samples are taken.
    Measuring,
    /// The packets are looked through.
    Explaining,
    /// Nothing more: there are results.
    Ended,
}

/// A run that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    schema: String,
    title: String,
    question: String,
    /// RFC 3339, UTC.
    started: String,
    /// Since then, when this was told.
    elapsed_s: f64,
    stage: Stage,
    /// How many samples are taken, and how many there will be if no cell drops out.
    done: u32,
    planned: u32,
    cells: Vec<LiveCell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Waiting,
    Running,
    Done,
    Dropped,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LiveCell {
    workload: String,
    network: String,
    contender: String,
    model: bool,
    floor_s: f64,
    status: Status,
    /// Why no more samples of it are taken.
    reason: Option<String>,
    planned: u32,
    samples_s: Vec<f64>,
}

impl Live {
    /// Nothing has happened yet.
    pub fn new(experiment: &Experiment, plan: &Plan, tls: bool, started: std::time::SystemTime) -> Self {
        let cell = |cell: &Cell| LiveCell {
            workload: cell.workload.name.clone(),
            network: cell.network.name.clone(),
            contender: cell.row.name(),
            model: cell.row.model,
            floor_s: floor(&cell.workload.work, &cell.network, tls).time.as_secs_f64(),
            status: Status::Waiting,
            reason: None,
            planned: plan.samples,
            samples_s: Vec::new(),
        };
        Self {
            schema: SCHEMA.to_owned(),
            title: experiment.title.clone(),
            question: experiment.question.clone(),
            started: timestamp(started),
            elapsed_s: 0.0,
            stage: Stage::Calibrating,
            done: 0,
            planned: plan.samples * plan.cells.len() as u32,
            cells: plan.cells.iter().map(cell).collect(),
        }
    }

    /// Something else is being done now.
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// So much time has passed since the beginning.
    pub fn at(&mut self, elapsed: Duration) {
        self.elapsed_s = elapsed.as_secs_f64();
    }

    /// Something has happened.
    pub fn hear(&mut self, event: &Event<'_>) {
        let (Event::Begins(cell) | Event::Took(cell, _) | Event::Drops(cell, ..)) = event;
        let (contender, planned) = (cell.row.name(), &mut self.planned);
        let is = |known: &&mut LiveCell| {
            known.workload == cell.workload.name && known.network == cell.network.name && known.contender == contender
        };
        let Some(known) = self.cells.iter_mut().find(is) else { return };
        match event {
            Event::Begins(_) => known.status = Status::Running,
            Event::Took(_, time) => {
                known.samples_s.push(time.as_secs_f64());
                let all = known.samples_s.len() >= known.planned as usize;
                known.status = if all { Status::Done } else { Status::Waiting };
                self.done += 1;
            }
            Event::Drops(_, left, why) => {
                known.status = Status::Dropped;
                known.reason = Some((*why).to_owned());
                *planned = planned.saturating_sub(*left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{plan, race};

    #[test]
    fn what_happens_is_counted_where_it_happens() {
        let plan = plan(2);
        let mut live = Live::new(&race(), &plan, true, std::time::SystemTime::UNIX_EPOCH);
        let all = live.planned;
        assert_eq!(all as usize, 2 * plan.cells.len());
        live.enter(Stage::Measuring);
        let (first, second) = (&plan.cells[0], &plan.cells[1]);
        live.hear(&Event::Begins(first));
        assert_eq!(live.cells[0].status, Status::Running);
        live.hear(&Event::Took(first, Duration::from_millis(250)));
        assert_eq!((live.cells[0].status, live.done), (Status::Waiting, 1));
        live.hear(&Event::Took(first, Duration::from_millis(260)));
        live.hear(&Event::Drops(second, 2, "it is not installed"));
        assert_eq!((live.cells[0].status, live.done, live.planned), (Status::Done, 2, all - 2));
        assert_eq!(live.cells[0].samples_s, [0.25, 0.26]);
        assert_eq!(live.cells[1].reason.as_deref(), Some("it is not installed"));
        let json = serde_json::to_value(&live).unwrap();
        assert_eq!((&json["schema"], &json["stage"]), (&SCHEMA.into(), &"measuring".into()));
        assert_eq!(serde_json::from_value::<Live>(json).unwrap(), live);
    }
}
