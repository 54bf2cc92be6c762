//! All claims of some experiments, with what would refute them and the verdicts of kept runs. The book keeps this list as
//! `results/claims.txt`.
//!
//! A kept run says what was measured, and the experiment says what is claimed. So the verdicts of a run are not copied but
//! judged again, by the experiment of today: a check that has become stricter is strict for old runs, too. A run whose
//! network or workload was defined otherwise has nothing to say about a claim.

use crate::{
    claims::{Check, Claim, Verdict},
    experiment::Experiment,
    results::{ClaimResult, NetworkRecord, RunResult, WorkloadRecord},
    table::Look,
};

/// A run that verdicts may rest on.
#[derive(Debug)]
pub struct KeptRun {
    /// How to name it: its id, or the path of its file.
    pub name: String,
    /// Its results.
    pub run: RunResult,
}

impl KeptRun {
    /// The day, the server, and whether it was the quick part.
    fn conditions(&self) -> String {
        let RunResult { started, settings, .. } = &self.run;
        let day = started.split('T').next().unwrap_or_default();
        let server = settings.get("server").map_or("unknown", String::as_str);
        let quick = if settings.get("quick").is_some_and(|quick| quick == "true") { ", quick" } else { "" };
        format!("{day}, server {server}{quick}")
    }

    /// Whether it has the workload and the networks of a claim, as the experiment defines them now.
    fn has_definitions_of(&self, experiment: &Experiment, claim: &Claim) -> bool {
        let other = match &claim.check {
            Check::Shrinks { on, .. } | Check::Overhead { on, .. } => Some(on),
            Check::Benefit { on, .. } => on.as_ref(),
            _ => None,
        };
        let quick = experiment.quick.iter().flat_map(|quick| &quick.workloads);
        let mut workloads = experiment.workloads.iter().chain(quick).map(WorkloadRecord::from);
        let mut networks = std::iter::once(&claim.network).chain(other);
        workloads.any(|record| record.name == claim.workload && self.run.workloads.contains(&record))
            && networks.all(|name| {
                let defined = experiment.networks.iter().find(|network| network.name == *name);
                defined.is_some_and(|network| self.run.networks.contains(&NetworkRecord::from(network)))
            })
    }

    fn judge(&self, experiment: &Experiment, claim: &Claim) -> Option<ClaimResult> {
        let RunResult { cells, workloads, settings, .. } = &self.run;
        let is_of_it = self.run.experiment == experiment.name && self.has_definitions_of(experiment, claim);
        let seed = settings.get("seed").and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let result = is_of_it.then(|| experiment.judge(claim, cells, workloads, seed))?;
        result.in_run.then_some(result)
    }
}

/// A claim with its verdict.
struct Row<'a> {
    claim: &'a Claim,
    /// The verdict, and the run that it rests on; none if no run has the cells.
    judged: Option<(ClaimResult, &'a KeptRun)>,
}

/// The verdict of the newest run that measured a claim; else why the newest one that has its cells could not.
fn row<'a>(experiment: &Experiment, claim: &'a Claim, runs: &[&'a KeptRun]) -> Row<'a> {
    let judged = runs.iter().filter_map(|run| Some((run.judge(experiment, claim)?, *run)));
    let mut unmeasured = None;
    for (result, run) in judged {
        if result.verdict != Verdict::NotJudged {
            return Row { claim, judged: Some((result, run)) };
        }
        unmeasured.get_or_insert((result, run));
    }
    Row { claim, judged: unmeasured }
}

fn rows<'a>(experiment: &'a Experiment, runs: &'a [KeptRun]) -> Vec<Row<'a>> {
    let mut newest: Vec<&KeptRun> = runs.iter().collect();
    newest.sort_by(|a, b| b.run.started.cmp(&a.run.started).then_with(|| a.name.cmp(&b.name)));
    experiment.claims.iter().map(|claim| row(experiment, claim, &newest)).collect()
}

impl Row<'_> {
    fn verdict(&self) -> Verdict {
        self.judged.as_ref().map_or(Verdict::NotJudged, |(result, _)| result.verdict)
    }

    /// Where it is judged.
    fn place(&self) -> String {
        format!("{}, {}", self.claim.workload, self.claim.network)
    }
}

/// The numbers of claims by verdict.
fn summary<'a>(rows: impl IntoIterator<Item = &'a Row<'a>>) -> String {
    Verdict::summary(&rows.into_iter().map(Row::verdict).collect::<Vec<_>>())
}

/// The claims, one block for each, and their numbers by verdict.
pub fn text(experiments: &[Experiment], runs: &[KeptRun], look: Look) -> String {
    let mut text = String::new();
    let mut all = Vec::new();
    for experiment in experiments {
        let rows = rows(experiment, runs);
        if !rows.is_empty() {
            text += &look.title(&experiment.name);
        }
        for row in &rows {
            text += &look.paragraph("  ", 2, &format!("{}: {} ({})", row.verdict(), row.claim.id, row.place()));
            text += &look.paragraph("    ", 4, &format!("“{}”", row.claim.said));
            if !row.claim.refuted_by.is_empty() {
                text += &look.paragraph("    ", 4, &format!("would be refuted if: {}", row.claim.refuted_by));
            }
            if let Some((result, run)) = &row.judged {
                text +=
                    &look.paragraph("    ", 4, &format!("{} Run {}, {}.", result.measured, run.name, run.conditions()));
            }
        }
        all.extend(rows);
    }
    text + "\n" + &look.paragraph("", 0, &(summary(&all) + "."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{race, run};

    fn kept(name: &str, run: RunResult) -> KeptRun {
        KeptRun { name: name.to_owned(), run }
    }

    fn verdicts(runs: &[KeptRun]) -> Vec<(Verdict, Option<String>)> {
        let experiment = race();
        let rows = rows(&experiment, runs);
        rows.iter().map(|row| (row.verdict(), row.judged.as_ref().map(|(_, run)| run.name.clone()))).collect()
    }

    #[test]
    fn every_claim_has_a_row_and_unmeasured_ones_say_so() {
        let none = verdicts(&[]);
        assert_eq!(none.len(), race().claims.len());
        assert!(none.iter().all(|(verdict, run)| *verdict == Verdict::NotJudged && run.is_none()));
        let some = verdicts(&[kept("quick.json", run(4, 1.0, &[]))]);
        // The quick race has no long network.
        assert!(some.iter().any(|(verdict, _)| *verdict == Verdict::NotJudged));
        assert!(
            some.iter().any(|(verdict, run)| *verdict == Verdict::Reproduced && run.as_deref() == Some("quick.json"))
        );
    }

    #[test]
    fn newest_run_that_measured_a_claim_decides() {
        let mut old = run(4, 1.0, &[]);
        old.started = "2026-01-01T00:00:00Z".into();
        // The newer one has no davfs2.
        let new = run(4, 1.0, &["davfs2", "davfs2-nolocks"]);
        let judged = verdicts(&[kept("old", old), kept("new", new)]);
        let of = |id: &str| {
            let at = race().claims.iter().position(|claim| claim.id == id).unwrap();
            judged[at].1.clone().unwrap()
        };
        assert_eq!([of("no-locks-doubles"), of("http2-helps-in-parallel")], ["old", "new"]);
    }

    #[test]
    fn run_with_other_definitions_decides_nothing() {
        let mut other = run(4, 1.0, &[]);
        for network in &mut other.networks {
            network.rtt_s *= 2.0;
        }
        assert!(verdicts(&[kept("other", other)]).iter().all(|(verdict, _)| *verdict == Verdict::NotJudged));
        let mut foreign = run(4, 1.0, &[]);
        foreign.experiment = "another".into();
        assert!(verdicts(&[kept("foreign", foreign)]).iter().all(|(verdict, _)| *verdict == Verdict::NotJudged));
    }

    #[test]
    fn list_has_every_claim_and_names_its_run() {
        let run = kept("results/runs/race.json", run(4, 1.0, &[]));
        let list = text(&[race()], &[run], Look { width: 200, colour: false });
        let count = list.lines().filter(|line| line.starts_with("    “")).count();
        assert_eq!(count, race().claims.len());
        assert!(list.contains(" Run results/runs/race.json, "), "{list}");
        let unmeasured = text(&[race()], &[], Look { width: 80, colour: false });
        assert!(unmeasured.contains("not judged: no-locks-doubles"), "{unmeasured}");
    }
}
