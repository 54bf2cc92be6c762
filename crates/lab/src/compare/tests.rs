//! Runs whose difference is known.

use super::{Trend, compare};
use crate::example::run;

fn trends(change: &super::Change) -> Vec<Trend> {
    change.cells.iter().map(super::CellChange::trend).collect()
}

#[test]
fn a_run_is_like_itself() {
    let run = run(5, 1.0, &[]);
    let change = compare(&run, &run);
    assert!(change.circumstances.is_empty());
    let (failed, same): (Vec<_>, Vec<_>) = trends(&change).into_iter().partition(|trend| *trend == Trend::Unknown);
    assert_eq!((failed.len(), same.len()), (1, 23));
    assert!(same.iter().all(|trend| *trend == Trend::Same));
}

#[test]
fn what_doubled_is_slower_and_the_other_way_round_faster() {
    let (quick, slow) = (run(5, 1.0, &[]), run(5, 2.0, &[]));
    let there = compare(&quick, &slow);
    assert!(trends(&there).iter().all(|trend| matches!(trend, Trend::Slower | Trend::Unknown)));
    assert!(trends(&compare(&slow, &quick)).iter().all(|trend| matches!(trend, Trend::Faster | Trend::Unknown)));
    let ratio = there.cells[0].ratio.as_ref().unwrap();
    assert!(ratio.interval.contains(2.0) && there.cells[0].medians_s.iter().all(Option::is_some));
}

#[test]
fn what_is_not_the_same_is_told_and_not_compared() {
    let (then, mut now) = (run(5, 1.0, &["curl"]), run(5, 1.0, &[]));
    now.host.kernel = "7.0".into();
    now.settings.insert("server".into(), "nginx".into());
    now.host.tools.insert("rclone".into(), "1.75".into());
    now.networks[1].link["rtt"] = "1ms".into();
    now.networks[1].description = "1ms RTT, 1gbit".into();
    now.cells.retain(|cell| cell.contender != "webdrive");
    let change = compare(&then, &now);
    insta::assert_snapshot!(change.circumstances.join("\n"), @r"
    kernel: 6.12, then 7.0
    server: apache, then nginx
    version of rclone: none, then 1.75
    lan: 500us RTT, 1gbit, queue 100p, then 1ms RTT, 1gbit
    ");
    let why = |network: &str, contender: &str| {
        let named = |cell: &&super::CellChange| cell.network == network && cell.contender == contender;
        change.cells.iter().find(named).unwrap().ratio.clone().err()
    };
    assert_eq!(why("article", "davfs2"), None);
    assert_eq!(why("lan", "davfs2"), Some("the network is not the same".into()));
    assert_eq!(why("article", "curl"), Some("skipped in the first run".into()));
    assert_eq!(why("article", "webdrive"), Some("only in the first run".into()));
}
