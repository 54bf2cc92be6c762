//! The state of a run in progress, for its watchers: schema `longhaul.live/1`.
//!
//! It follows the run's [`Event`]s and holds the samples so far. Statistics are computed only at the end: until then
//! the processors belong to the contenders.

mod file;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::file::{cancel_file, file, in_progress, read, remove_files, write};
use crate::{
    experiment::{Cell, Experiment, Plan},
    floor::floor,
    results::timestamp,
    run::Event,
};

/// The name of the schema.
pub const SCHEMA: &str = "longhaul.live/1";

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It measures the emulator's accuracy.
    Calibrating,
    /// It takes samples.
    Measuring,
    /// It explains the captures.
    Explaining,
    /// It has ended, and there are results.
    Ended,
}

/// The state of a run in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    schema: String,
    title: String,
    question: String,
    /// RFC 3339, UTC.
    started: String,
    /// Seconds since then.
    elapsed_s: f64,
    stage: Stage,
    /// The number of samples taken, and the number planned unless a cell drops out.
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
    /// Why it was dropped.
    reason: Option<String>,
    planned: u32,
    samples_s: Vec<f64>,
}

impl Live {
    /// A run that has just started.
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

    /// Begins a stage.
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// Sets the time since the run began.
    pub fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed_s = elapsed.as_secs_f64();
    }

    /// Takes an event into account.
    pub fn on_event(&mut self, event: &Event<'_>) {
        let (Event::Started(cell)
        | Event::WarmedUp(cell, _)
        | Event::Finished(cell, _)
        | Event::Repeated(cell)
        | Event::Dropped(cell, ..)) = event;
        let (contender, planned) = (cell.row.name(), &mut self.planned);
        let is = |known: &&mut LiveCell| {
            known.workload == cell.workload.name && known.network == cell.network.name && known.contender == contender
        };
        let Some(known) = self.cells.iter_mut().find(is) else { return };
        match event {
            Event::Started(_) | Event::Repeated(_) => known.status = Status::Running,
            Event::WarmedUp(..) => known.status = Status::Waiting,
            Event::Finished(_, time) => {
                known.samples_s.push(time.as_secs_f64());
                let all = known.samples_s.len() >= known.planned as usize;
                known.status = if all { Status::Done } else { Status::Waiting };
                self.done += 1;
            }
            Event::Dropped(_, left, why) => {
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
    fn events_update_their_cell_and_the_counts() {
        let plan = plan(2);
        let mut live = Live::new(&race(), &plan, true, std::time::SystemTime::UNIX_EPOCH);
        let all = live.planned;
        assert_eq!(all as usize, 2 * plan.cells.len());
        live.enter(Stage::Measuring);
        let (first, second) = (&plan.cells[0], &plan.cells[1]);
        live.on_event(&Event::Started(first));
        assert_eq!(live.cells[0].status, Status::Running);
        live.on_event(&Event::Finished(first, Duration::from_millis(250)));
        assert_eq!((live.cells[0].status, live.done), (Status::Waiting, 1));
        live.on_event(&Event::Finished(first, Duration::from_millis(260)));
        live.on_event(&Event::Dropped(second, 2, "it is not installed"));
        assert_eq!((live.cells[0].status, live.done, live.planned), (Status::Done, 2, all - 2));
        assert_eq!(live.cells[0].samples_s, [0.25, 0.26]);
        assert_eq!(live.cells[1].reason.as_deref(), Some("it is not installed"));
        let json = serde_json::to_value(&live).unwrap();
        assert_eq!((&json["schema"], &json["stage"]), (&SCHEMA.into(), &"measuring".into()));
        assert_eq!(serde_json::from_value::<Live>(json).unwrap(), live);
    }
}
