//! Comparisons of runs with a known difference.

use super::{Change, Tally, Trend, compare};
use crate::{
    results::RunResult,
    test_data::{disturbed_run, run},
};

fn two(then: &RunResult, now: &RunResult) -> Change {
    compare(&[("then", then), ("now", now)])
}

#[test]
fn run_does_not_differ_from_itself() {
    let run = run(5, 1.0, &[]);
    let change = two(&run, &run);
    assert!(change.runs.iter().all(|run| run.unlike.is_empty()));
    assert_eq!(change.tallies(), [Tally { same: 29, unknown: 1, ..Tally::default() }]);
}

#[test]
fn doubled_time_is_slower_and_inverse_faster() {
    let (quick, slow) = (run(5, 1.0, &[]), run(5, 2.0, &[]));
    let there = two(&quick, &slow);
    assert_eq!(there.tallies(), [Tally { slower: 29, unknown: 1, ..Tally::default() }]);
    assert_eq!(two(&slow, &quick).tallies(), [Tally { faster: 29, unknown: 1, ..Tally::default() }]);
    let [now] = &there.cells[0].later[..] else { panic!("{there:?}") };
    assert!(now.ratio.as_ref().unwrap().interval.contains(2.0));
    assert!(there.cells[0].median_s.is_some() && now.median_s.is_some());
}

#[test]
fn each_run_is_compared_with_the_first() {
    let runs = [1.0, 1.0, 2.0, 0.5, 2.0].map(|factor| run(5, factor, &[]));
    let named: Vec<(&str, &RunResult)> = ["a", "b", "c", "d", "e"].into_iter().zip(&runs).collect();
    let change = compare(&named);
    let cell = &change.cells[0];
    let trends: Vec<Trend> = cell.later.iter().map(super::Later::trend).collect();
    assert_eq!(trends, [Trend::Same, Trend::Slower, Trend::Faster, Trend::Slower]);
    let alone = two(&runs[0], &runs[3]);
    assert_eq!(cell.later[2], alone.cells[0].later[0], "as if the two were alone");
    assert_eq!(change.runs.iter().map(|run| run.name.as_str()).collect::<String>(), "abcde");
}

#[test]
fn run_on_a_busier_machine_is_no_regression() {
    let all = |run: &RunResult| run.cells.iter().map(|cell| cell.contender.clone()).collect::<Vec<_>>();
    let quiet = run(4, 1.0, &[]);
    let names = all(&quiet);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Beyond the bounds: the cells are named, and left out of the verdict.
    let disturbed = two(&quiet, &disturbed_run(2.0, &["curl", "haul"], 0.5));
    let why = |change: &Change, contender: &str| {
        change.cells.iter().find(|cell| cell.contender == contender).unwrap().later[0].ratio.clone().err()
    };
    assert_eq!(why(&disturbed, "curl"), Some("disturbed in run 2".into()));
    assert_eq!(disturbed.tallies(), [Tally { slower: 25, unknown: 5, ..Tally::default() }]);
    // Within the bounds: a tenth more may be the machine's, twice the time is not.
    let busier = two(&quiet, &disturbed_run(1.08, &names, 0.12));
    assert_eq!(why(&busier, "davfs2"), Some("the machine may have made the difference".into()));
    assert_eq!(busier.tallies()[0].slower, 0);
    let calmer = two(&disturbed_run(1.08, &names, 0.12), &quiet);
    assert_eq!(calmer.tallies()[0].faster, 0);
    let slower = two(&quiet, &disturbed_run(2.0, &names, 0.12));
    assert_eq!(slower.tallies(), two(&quiet, &run(4, 2.0, &[])).tallies());
}

#[test]
fn other_machine_and_other_calibration_are_reported() {
    let (mut then, mut now) = (run(4, 1.0, &[]), run(4, 1.0, &[]));
    (then.host.name, now.host.name) = ("a".into(), "b".into());
    now.calibration.as_mut().unwrap().delay_error_p99_us *= 2.0;
    assert_eq!(two(&then, &now).runs[1].unlike, ["machine: a → b"]);
    now.calibration.as_mut().unwrap().delay_error_p99_us = 2085.0;
    assert_eq!(two(&then, &now).runs[1].unlike, ["machine: a → b", "delay error, 99th percentile: 90 µs → 2085 µs"]);
    let said = "The machine or the emulator's accuracy is not that of run 1 in run 2: differences may be theirs.";
    assert_eq!(two(&then, &now).elsewhere().as_deref(), Some(said));
    then.calibration = None;
    assert_eq!(two(&then, &now).runs[1].unlike, ["machine: a → b"]);
    // A container gets a new name each time.
    assert_eq!(two(&then, &now).elsewhere(), None);
    now.host.cpu = "another".into();
    assert!(two(&then, &now).elsewhere().is_some());
}

#[test]
fn cells_of_a_block_stay_together() {
    let (mut then, now) = (run(5, 1.0, &[]), run(5, 1.0, &[]));
    then.cells.retain(|cell| cell.contender != "haul");
    let change = two(&then, &now);
    assert_eq!(change.cells.len(), now.cells.len());
    let places = change.cells.chunk_by(|a, b| (&a.workload, &a.network) == (&b.workload, &b.network)).count();
    assert_eq!(places, 2);
    let haul = change.cells.iter().find(|cell| cell.contender == "haul").unwrap();
    assert_eq!((haul.median_s, haul.later[0].ratio.clone()), (None, Err("not in run 1".into())));
    assert!(haul.later[0].median_s.is_some());
}

#[test]
fn changed_network_is_reported_and_not_compared() {
    let (then, mut now) = (run(5, 1.0, &["curl"]), run(5, 1.0, &[]));
    now.host.kernel = "7.0".into();
    now.settings.insert("server".into(), "nginx".into());
    now.host.tools.insert("rclone".into(), "1.75".into());
    now.networks[1].link["rtt"] = "1ms".into();
    now.networks[1].description = "1ms RTT, 1gbit".into();
    now.cells.retain(|cell| cell.contender != "webdrive");
    let change = two(&then, &now);
    insta::assert_snapshot!(change.runs[1].unlike.join("\n"), @r"
    kernel: 6.12 → 7.0
    server: apache → nginx
    version of rclone: none → 1.75
    lan: 500us RTT, 1gbit, queue 100p → 1ms RTT, 1gbit
    ");
    let why = |network: &str, contender: &str| {
        let named = |cell: &&super::CellChange| cell.network == network && cell.contender == contender;
        change.cells.iter().find(named).unwrap().later[0].ratio.clone().err()
    };
    assert_eq!(why("article", "davfs2"), None);
    assert_eq!(why("lan", "davfs2"), Some("run 2 has a different network".into()));
    assert_eq!(why("article", "curl"), Some("skipped in run 1".into()));
    assert_eq!(why("article", "webdrive"), Some("not in run 2".into()));
}
