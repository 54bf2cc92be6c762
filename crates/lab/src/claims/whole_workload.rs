//! Judging a claim of an experiment by a run, which may have done only a part of the workload.
//!
//! The quick part of an experiment may have fewer files. A ratio still says something then, but a bound on a count or a time
//! was chosen for all of them: 16 files take fewer round trips than 200 are allowed, however many each takes.

use super::{Check, Claim, Unit, Verdict, judge::judge};
use crate::{
    experiment::Experiment,
    results::{CellResult, ClaimResult, WorkloadRecord},
};

impl Experiment {
    /// Judges one of its claims by the cells of a run. `seed` is that of the run.
    pub(crate) fn judge(
        &self,
        claim: &Claim,
        cells: &[CellResult],
        workloads: &[WorkloadRecord],
        seed: u64,
    ) -> ClaimResult {
        let result = judge(claim, &self.source.to_string(), cells, workloads, seed);
        let defined = self.workloads.iter().find(|one| one.name == claim.workload).map(WorkloadRecord::from);
        let done = workloads.iter().find(|record| record.name == claim.workload);
        match defined.zip(done) {
            Some((defined, done)) if defined != *done && is_of_all_steps(&claim.check) && result.in_run => {
                ClaimResult {
                    verdict: Verdict::NotJudged,
                    in_run: false,
                    measured: format!("its bound is for: {}", defined.description),
                    ci95: None,
                    confidence: None,
                    ..result
                }
            }
            _ => result,
        }
    }
}

/// Whether a check has a bound that grows with the number of steps.
fn is_of_all_steps(check: &Check<String>) -> bool {
    matches!(check, Check::Takes { unit, .. } if *unit != Unit::Floors)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::claim, *};
    use crate::test_data::{race, run};

    #[test]
    fn bound_on_a_count_is_not_judged_for_a_part_of_the_workload() {
        let quick = run(3, 1.0, &[]);
        let takes = |unit| {
            let check = Check::Takes { what: "curl", unit, at_least: None, at_most: Some(1000.0) };
            race().judge(&claim(check), &quick.cells, &quick.workloads, 1)
        };
        let requests = takes(Unit::Requests);
        assert_eq!((requests.in_run, requests.verdict), (false, Verdict::NotJudged));
        insta::assert_snapshot!(requests.measured, @"its bound is for: upload 200 files of 10KiB");
        let floors = takes(Unit::Floors);
        assert_eq!((floors.in_run, floors.verdict), (true, Verdict::Reproduced));
    }
}
