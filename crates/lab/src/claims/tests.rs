//! Verdicts against runs whose truth is known.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::{Check, Claim, Count, Verdict, judge};
use crate::{
    example::run,
    results::{CellResult, ClaimResult, RunResult, Status},
};

fn claim(check: Check<&str>) -> Claim {
    let check = check.with_names(|name| Ok::<_, ()>(name.to_owned()), |name| Ok(name.to_owned())).unwrap();
    Claim {
        id: "test".into(),
        said: "It is so.".into(),
        workload: "upload-small".into(),
        network: "article".into(),
        check,
    }
}

fn judged(run: &RunResult, check: Check<&str>) -> ClaimResult {
    judge(&claim(check), "an article", &run.cells, &run.workloads, 1)
}

fn ratio<'a>(of: &'a str, to: &'a str, at_least: f64) -> Check<&'a str> {
    Check::Ratio { of, to, at_least: Some(at_least), at_most: None }
}

/// The cell of a contender, to be changed.
fn cell<'a>(run: &'a mut RunResult, contender: &str) -> &'a mut CellResult {
    run.cells.iter_mut().find(|cell| cell.is("upload-small", "article", contender)).unwrap()
}

#[test]
fn an_interval_within_reproduces_without_refutes_and_across_leaves_open() {
    let run = run(5, 1.0, &[]);
    let told = judged(&run, ratio("davfs2", "davfs2-nolocks", 2.0));
    assert_eq!(told.verdict, Verdict::Reproduced);
    let interval = told.ci95.unwrap();
    for (at_least, verdict) in [
        (interval.lo, Verdict::Reproduced),
        (interval.lo + 1e-6, Verdict::Inconclusive),
        (interval.hi, Verdict::Inconclusive),
        (interval.hi + 1e-6, Verdict::Refuted),
    ] {
        assert_eq!(judged(&run, ratio("davfs2", "davfs2-nolocks", at_least)).verdict, verdict);
        let at_most = Check::Ratio { of: "davfs2", to: "davfs2-nolocks", at_least: None, at_most: Some(interval.hi) };
        assert_eq!(judged(&run, at_most).verdict, Verdict::Reproduced);
    }
}

#[test]
fn the_weakest_pair_decides() {
    let run = run(5, 1.0, &[]);
    let slower = |than: &[&'static str], by| {
        judged(&run, Check::Slower { what: vec!["redirector-h1"], than: than.to_vec(), by })
    };
    assert_eq!(slower(&["curl", "rclone"], 2.0).verdict, Verdict::Reproduced);
    let far = slower(&["curl", "samba-davfs2", "rclone"], 1.5);
    assert_eq!(far.verdict, Verdict::Refuted);
    insta::assert_snapshot!(far.measured, @"upload-small, article: redirector-h1 (model) takes 1.22× (1.22–1.23) as long as samba-davfs2, the closest of 3 pairs; the claim needs at least 1.5×.");
    let fastest = judged(&run, Check::Fastest { what: "curl-parallel-h2", among: vec!["curl", "rclone"], by: 3.0 });
    assert_eq!(fastest.verdict, Verdict::Reproduced);
}

#[test]
fn what_is_missing_leaves_open_unless_another_pair_refutes() {
    let run = run(5, 1.0, &["samba-davfs2"]);
    let slower = |what, than| judged(&run, Check::Slower { what: vec![what], than, by: 1.0 });
    let open = slower("redirector-h1", vec!["curl", "samba-davfs2"]);
    assert_eq!(open.verdict, Verdict::Inconclusive);
    insta::assert_snapshot!(open.measured, @"upload-small, article: samba-davfs2 was skipped: mount.davfs is not installed; `apt-get install davfs2` brings it.");
    assert_eq!(slower("curl", vec!["redirector-h1", "samba-davfs2"]).verdict, Verdict::Refuted);
}

#[test]
fn says_why_nothing_can_be_said() {
    let mut run = run(3, 1.0, &[]);
    let failed = cell(&mut run, "rclone");
    (failed.status, failed.reason) = (Status::Failed, Some("it hung".into()));
    cell(&mut run, "curl").samples_s.truncate(2);
    cell(&mut run, "webdrive").connections = None;
    let told = [
        judged(&run, ratio("rclone", "davfs2", 1.0)),
        judged(&run, ratio("curl", "davfs2", 1.0)),
        judged(&run, Check::More { count: Count::Connections, what: "webdrive", than: vec!["davfs2"] }),
        judged(&run, Check::Shrinks { of: "davfs2", to: "davfs2-nolocks", on: "long", by: 1.0 }),
    ];
    assert!(told.iter().all(|told| told.verdict == Verdict::Inconclusive && told.ci95.is_none()));
    insta::assert_snapshot!(told.map(|told| told.measured).join("\n"), @r"
    upload-small, article: rclone failed: it hung.
    upload-small, article: 2 samples of curl cannot bear a verdict; take at least 3.
    upload-small, article: the connections of webdrive (model) were not counted.
    upload-small, long: davfs2 was not run.
    ");
}

#[test]
fn counts_decide_alone() {
    let run = run(1, 1.0, &[]);
    let more = |what, than| judged(&run, Check::More { count: Count::Connections, what, than: vec![than] });
    assert_eq!(more("webdrive", "davfs2").verdict, Verdict::Reproduced);
    // As many is not more.
    assert_eq!(more("davfs2", "redirector-h1").verdict, Verdict::Refuted);
    let each = |at_least| judged(&run, Check::PerStep { count: Count::Requests, what: "davfs2", at_least }).verdict;
    assert_eq!((each(5.0), each(5.1)), (Verdict::Reproduced, Verdict::Refuted));
}

#[test]
fn a_difference_that_grows_with_distance_shrinks_nearby() {
    let mut run = run(5, 1.0, &[]);
    let shrinks = Check::Shrinks { of: "davfs2", to: "davfs2-nolocks", on: "lan", by: 1.0 };
    for sample in &mut cell(&mut run, "davfs2").samples_s {
        *sample *= 2.0;
    }
    let told = judged(&run, shrinks);
    assert_eq!(told.verdict, Verdict::Reproduced);
    insta::assert_snapshot!(told.measured, @"upload-small, article: davfs2 takes 4.57× as long as davfs2-nolocks here and 2.24× on lan, and the first is 2.04× (1.96–2.12) the second; the claim needs more than 1×.");
}

static BASE: LazyLock<RunResult> = LazyLock::new(|| run(1, 1.0, &[]));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Who claims less is refuted by less.
    #[test]
    fn a_weaker_claim_never_fares_worse(
        of in prop::collection::vec(0.5..2.0f64, 3..7),
        to in prop::collection::vec(0.5..2.0f64, 3..7),
        strong in 0.2..4.0f64,
        weaker in 0.1..1.0f64,
    ) {
        let mut run = BASE.clone();
        cell(&mut run, "davfs2").samples_s = of;
        cell(&mut run, "curl").samples_s = to;
        let rank = |at_least| match judged(&run, ratio("davfs2", "curl", at_least)).verdict {
            Verdict::Refuted => 0,
            Verdict::Inconclusive => 1,
            Verdict::Reproduced => 2,
        };
        prop_assert!(rank(strong) <= rank(strong * weaker));
    }
}
