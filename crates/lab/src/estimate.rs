//! How long a run will take, before anything is measured.
//!
//! Only the order of magnitude matters: a person wants to know whether to wait, to have lunch, or to go home. Some contenders
//! send one request after another and some send hundreds at once, so the round trips of a sample grow more slowly than its
//! files: about [`TRIPS`] times the square root of their number. A page's requests share connections; its load is a multiple of
//! its floor. To this adds the time to set up the testbed, to start the programs and to compare the files. The book's twenty
//! kept runs took 0.4 to 2.3 times the estimate.

use std::time::Duration;

use crate::{
    experiment::{Cell, Plan},
    floor::floor,
    work::Work,
};

/// The round trips of a sample with one step.
const TRIPS: f64 = 6.0;

/// A page load as a multiple of its floor.
const PAGE: u32 = 4;

/// The time of a sample besides the work.
const SETUP: Duration = Duration::from_millis(1500);

/// The estimated time of all samples.
pub fn run_time(plan: &Plan, tls: bool) -> Duration {
    let times = plan.cells.iter().map(|cell| sample_time(cell, tls));
    let round = times.fold(Duration::ZERO, Duration::saturating_add);
    round.saturating_mul(plan.samples + plan.warmup)
}

fn sample_time(Cell { workload, network, .. }: &Cell, tls: bool) -> Duration {
    let floor = floor(&workload.work, network, tls).time;
    let work = match &workload.work {
        Work::Load { .. } => floor.saturating_mul(PAGE),
        work => floor.saturating_add(network.rtt().mul_f64(TRIPS * f64::from(work.steps()).sqrt())),
    };
    SETUP.saturating_add(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{plan, race};

    #[test]
    fn whole_race_takes_hours_and_the_quick_part_minutes() {
        let whole = race().plan(&crate::experiment::Selection::default()).unwrap();
        let [quick, whole] = [plan(4), whole].map(|plan| run_time(&plan, true).as_secs() / 60);
        assert!((1..30).contains(&quick), "{quick} min");
        assert!((90..600).contains(&whole), "{whole} min");
    }
}
