//! Making and judging the cases of a run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use explain::KeepPackets;

use super::{
    BOTH, CLIENT, SERVER, VANTAGES,
    account::Account,
    case::{Case, MeasuredCase},
    facts::{Facts, facts},
    judge::{Captured, Judgement, blames, judge},
    knobs::Knob,
    measure::{MeasureError, measure},
    programs::Installed,
    results::{CaseResult, Split, TruthResult, bars},
    scenario::Scenario,
    variants::{BEGUN_LATE, VARIANTS, derive},
};
use crate::deadline::Deadline;

/// The folder of the cases in the run's folder.
pub const CASES: &str = "cases";

/// The name of captures that are not derived.
pub(super) const FULL: &str = "full";

/// The parameters of a run.
pub struct TruthRun<'a> {
    /// The seed of everything random.
    pub seed: u64,
    /// How many cases.
    pub cases: u32,
    /// The knobs to turn.
    pub knobs: Vec<&'static Knob>,
    /// The programs of this machine.
    pub installed: &'a Installed,
    /// The time limit of one of a case's two runs.
    pub timeout: Duration,
    /// The folder of the run.
    pub folder: &'a Path,
    /// An empty folder on a fast file system.
    pub scratch: &'a Path,
    /// Cancels the run when it becomes true.
    pub cancel: Arc<AtomicBool>,
}

/// What has just happened, for progress displays.
#[derive(Debug)]
pub enum TruthEvent<'a> {
    /// A case has started.
    Started(&'a Case),
    /// A case is measured and judged; `bool` is whether it was measured by an earlier run.
    Finished(&'a CaseResult, bool),
    /// A case was skipped, and why.
    Skipped(&'a str),
}

/// A run until its end, or until it was cancelled.
pub struct TruthOutcome {
    /// The results.
    pub result: TruthResult,
    /// Whether it was cancelled.
    pub is_cancelled: bool,
}

impl TruthRun<'_> {
    /// Makes and judges the cases. One that cannot be measured is skipped.
    pub fn run(&self, mut watch: impl FnMut(TruthEvent<'_>)) -> TruthOutcome {
        let mut cases = Vec::new();
        let mut skipped: Vec<String> = self.installed.missing.iter().map(ToString::to_string).collect();
        for index in 0..self.cases {
            if self.is_cancelled() {
                break;
            }
            let done = Case::draw(self.seed, index, &self.knobs, self.installed).and_then(|case| {
                watch(TruthEvent::Started(&case));
                self.case(&case).map_err(|error| format!("{}: {error}", case.folder()))
            });
            match done {
                Ok((case, is_stored)) => {
                    watch(TruthEvent::Finished(&case, is_stored));
                    cases.push(case);
                }
                Err(_) if self.is_cancelled() => break,
                Err(why) => {
                    watch(TruthEvent::Skipped(&why));
                    skipped.push(why);
                }
            }
        }
        TruthOutcome { result: self.result(cases, skipped), is_cancelled: self.is_cancelled() }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    fn result(&self, cases: Vec<CaseResult>, skipped: Vec<String>) -> TruthResult {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        TruthResult {
            schema: "longhaul.truth/1",
            seed: self.seed,
            split: Split::of(self.seed),
            kernel,
            programs: self.installed.versions.iter().cloned().collect::<BTreeMap<_, _>>(),
            skipped,
            bars: bars(&cases),
            cases,
        }
    }

    /// Measures a case, unless an earlier run has, and judges it.
    fn case(&self, case: &Case) -> Result<(CaseResult, bool), MeasureError> {
        let folder = self.folder.join(CASES).join(case.folder());
        let stored = MeasuredCase::read(&folder, case);
        let is_stored = stored.is_some();
        let measured = match stored {
            Some(measured) => recount(measured, &folder)?,
            None => self.measure(case, &folder).inspect_err(|_| {
                let _ = fs::remove_dir_all(&folder);
            })?,
        };
        let judgements = self.judge(&measured, &folder)?;
        let without = account(&measured, &[capture_in(&folder.join("back"), CLIENT)])?;
        let is_still_blamed = blames(&without, expected(&measured));
        Ok((CaseResult::new(measured, judgements, is_still_blamed), is_stored))
    }

    fn measure(&self, case: &Case, folder: &Path) -> Result<MeasuredCase, MeasureError> {
        let _ = fs::remove_dir_all(folder);
        let run = |scenario: &Scenario, name: &str| -> Result<Facts, MeasureError> {
            let deadline = Deadline::new(self.timeout, self.cancel.clone());
            measure(scenario, &folder.join(name), self.scratch, &deadline)
        };
        let measured =
            MeasuredCase { case: case.clone(), turned: run(&case.turned, "turned")?, back: run(&case.back, "back")? };
        measured.write(folder)?;
        Ok(measured)
    }

    /// Explains all captures of a case, and judges what they say.
    fn judge(&self, measured: &MeasuredCase, folder: &Path) -> Result<Vec<Judgement>, MeasureError> {
        let turned = folder.join("turned");
        let mut captures: Vec<_> = VANTAGES.map(|vantage| (vantage, FULL, vec![capture_in(&turned, vantage)])).into();
        captures.push((BOTH, FULL, [CLIENT, SERVER].map(|vantage| capture_in(&turned, vantage)).into()));
        for (vantage, name, variant) in VARIANTS {
            let file = turned.join(format!("{vantage}-{name}.pcap"));
            if !file.exists() {
                derive(&capture_in(&turned, vantage), variant, &file)?;
            }
            captures.push((vantage, name, vec![file]));
        }
        let each = captures.into_iter();
        each.map(|(vantage, variant, files)| self.judge_captures(measured, (vantage, variant), &files)).collect()
    }

    /// Judges what `explain` says of captures that it gets together.
    fn judge_captures(
        &self,
        measured: &MeasuredCase,
        (vantage, variant): (&'static str, &'static str),
        files: &[PathBuf],
    ) -> Result<Judgement, MeasureError> {
        let account = account(measured, files)?;
        let paths = files.iter().map(|file| file.strip_prefix(self.folder).unwrap_or(file).display().to_string());
        let path = paths.collect::<Vec<_>>().join(" ");
        // All others contain the whole transfer, truncated or not.
        let captured = match files {
            [file] if variant == BEGUN_LATE => facts(file, measured.case.turned.counted())?,
            _ => Some(measured.turned),
        };
        let duration_s = captured.map_or(0.0, |facts| facts.duration_s);
        let captured = Captured { vantage, variant, path, duration_s };
        Ok(judge(measured, &account, captured))
    }
}

/// Counts again what the captures of a stored case contain: they outlive the rules by which they were counted.
fn recount(mut measured: MeasuredCase, folder: &Path) -> Result<MeasuredCase, MeasureError> {
    let again = |stored: Facts, scenario: &Scenario, name: &str| -> Result<Facts, MeasureError> {
        let counted =
            facts(&capture_in(&folder.join(name), CLIENT), scenario.counted())?.ok_or(MeasureError::Nothing)?;
        Ok(Facts { is_complete: stored.is_complete, emulator_drops: stored.emulator_drops, ..counted })
    };
    measured.turned = again(measured.turned, &measured.case.turned, "turned")?;
    measured.back = again(measured.back, &measured.case.back, "back")?;
    Ok(measured)
}

/// The capture of a place in the folder of one of a case's two runs.
fn capture_in(folder: &Path, vantage: &str) -> PathBuf {
    folder.join(vantage).with_extension("pcapng")
}

/// What `explain` says of captures that it gets together.
fn account(measured: &MeasuredCase, files: &[PathBuf]) -> Result<Account, MeasureError> {
    let keep = KeepPackets { for_pairing: files.len() > 1, ..KeepPackets::default() };
    let mut explanations = Vec::new();
    for file in files {
        let mut source = capture::open(file, None)?;
        explanations.push(explain::explain_keeping(&mut *source, keep).0);
    }
    let connections = explain::pair_captures(explanations);
    // iperf3 has a connection for control, which waits for the other one.
    Ok(Account::of(&connections, expected(measured), measured.case.turned.counted()))
}

fn expected(measured: &MeasuredCase) -> &'static [&'static str] {
    measured.case.kind().map(|knob| knob.expected).unwrap_or_default()
}
