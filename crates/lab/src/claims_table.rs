//! All claims of some experiments, with what would refute them and the verdicts of kept runs: the book's page, and a list
//! for the terminal.
//!
//! A kept run says what was measured, and the experiment says what is claimed. So the verdicts of a run are not copied but
//! judged again, by the experiment of today: a check that has become stricter is strict for old runs, too. A run whose
//! network or workload was defined otherwise has nothing to say about a claim.

use std::fmt::Write as _;

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
    /// Whether the name is a path to link to.
    pub is_path: bool,
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

/// The claims as a page of the book. `command` is what made it.
pub fn markdown(experiments: &[Experiment], runs: &[KeptRun], command: &str) -> String {
    let tables: Vec<(&Experiment, Vec<Row<'_>>)> =
        experiments.iter().map(|experiment| (experiment, rows(experiment, runs))).collect();
    let mut text = format!(
        "# All claims\n\nEvery claim of every experiment that comes with Longhaul: what would refute it, its verdict, and the run \
         that the verdict\nrests on. [The experiment file](experiment-file.md#verdicts) explains the verdicts. `{command}`\n\
         makes this page: it judges kept runs by the experiments as they are now. A claim without a kept run is *not\n\
         judged* here. The results on the page of its experiment are older than some of the checks; `haul lab run` and the\n\
         experiment's name measure it again.\n\n{}.\n",
        summary(tables.iter().flat_map(|(_, rows)| rows))
    );
    for (experiment, rows) in tables.iter().filter(|(_, rows)| !rows.is_empty()) {
        let _ = writeln!(text, "\n## {}\n\n{} {}.\n", experiment.name, experiment.question, summary(rows));
        text += "| claim | would be refuted if | verdict | run |\n|---|---|---|---|\n";
        for row in rows {
            let (measured, run) = match &row.judged {
                Some((result, run)) => (format!(": {}", result.measured), linked(run)),
                None => (String::new(), String::new()),
            };
            let claim = format!("**{}** ({}): “{}”", row.claim.id, row.place(), row.claim.said);
            let verdict = format!("**{}**{measured}", row.verdict());
            let cells = [claim, row.claim.refuted_by.clone(), verdict, run].map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    text
}

fn linked(run: &KeptRun) -> String {
    let conditions = run.conditions();
    if run.is_path { format!("[{conditions}]({})", run.name) } else { format!("{}: {conditions}", run.name) }
}

/// The claims for a terminal.
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
        KeptRun { name: name.to_owned(), is_path: true, run }
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
    fn page_has_one_line_for_each_claim_and_links_its_run() {
        let page = markdown(&[race()], &[kept("results/runs/race.json", run(4, 1.0, &[]))], "haul lab claims");
        let lines = page.lines().filter(|line| line.starts_with("| **")).count();
        assert_eq!(lines, race().claims.len());
        assert!(page.contains("](results/runs/race.json) |"), "{page}");
        let text = text(&[race()], &[], Look { width: 80, colour: false });
        assert!(text.contains("not judged: no-locks-doubles"), "{text}");
    }
}
