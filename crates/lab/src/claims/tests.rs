//! Verdicts on runs with known results.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::{Check, Claim, Count, Gain, Measure, Unit, Verdict, judge::judge};
use crate::{
    disturbance::Machine,
    results::{CellResult, ClaimResult, RunResult, Status, Syns},
    test_data::run,
};

pub(super) fn claim(check: Check<&str>) -> Claim {
    let check = check.with_names(|name| Ok::<_, ()>(name.to_owned()), |name| Ok(name.to_owned())).unwrap();
    Claim {
        id: "test".into(),
        said: "It is so.".into(),
        workload: "upload-small".into(),
        network: "article".into(),
        check,
        refuted_by: String::new(),
    }
}

fn judged(run: &RunResult, check: Check<&str>) -> ClaimResult {
    judge(&claim(check), "an article", &run.cells, &run.workloads, 1)
}

fn ratio<'a>(of: &'a str, to: &'a str, at_least: f64) -> Check<&'a str> {
    Check::Ratio { of, to, at_least: Some(at_least), at_most: None, measure: Measure::Time }
}

/// A contender's cell.
fn cell<'a>(run: &'a mut RunResult, contender: &str) -> &'a mut CellResult {
    run.cells.iter_mut().find(|cell| cell.is("upload-small", "article", contender)).unwrap()
}

#[test]
fn interval_decides_the_verdict() {
    let run = run(5, 1.0, &[]);
    let result = judged(&run, ratio("davfs2", "davfs2-nolocks", 2.0));
    assert_eq!(result.verdict, Verdict::Reproduced);
    let interval = result.ci95.unwrap();
    for (at_least, verdict) in [
        (interval.lo, Verdict::Reproduced),
        (interval.lo + 1e-6, Verdict::Inconclusive),
        (interval.hi, Verdict::Inconclusive),
        (interval.hi + 1e-6, Verdict::Refuted),
    ] {
        assert_eq!(judged(&run, ratio("davfs2", "davfs2-nolocks", at_least)).verdict, verdict);
        let at_most = Check::Ratio {
            of: "davfs2",
            to: "davfs2-nolocks",
            at_least: None,
            at_most: Some(interval.hi),
            measure: Measure::Time,
        };
        assert_eq!(judged(&run, at_most).verdict, Verdict::Reproduced);
    }
}

#[test]
fn figure_is_reproduced_only_if_the_interval_contains_it() {
    let mut run = run(5, 1.0, &[]);
    let slow = cell(&mut run, "curl").samples_s.clone();
    // Of each time, 18 to 22 %.
    let quick = slow.iter().zip([0.78, 0.79, 0.80, 0.81, 0.82]).map(|(slow, share)| slow * share).collect();
    cell(&mut run, "rclone").samples_s = quick;
    let figure = |run: &RunResult, saves| judged(run, Check::Figure { of: "curl", to: "rclone", saves });
    let result = figure(&run, 0.2);
    let interval = result.ci95.unwrap();
    assert!(interval.lo > 0.1 && interval.hi < 0.3, "{}", result.measured);
    for (saves, verdict) in [
        (0.2, Verdict::Reproduced),
        (interval.lo - 0.0004, Verdict::Reproduced),
        (interval.lo - 0.0006, Verdict::Exceeded),
        (interval.hi + 0.0004, Verdict::Reproduced),
        (interval.hi + 0.0006, Verdict::Missed),
    ] {
        assert_eq!(figure(&run, saves).verdict, verdict, "{saves}");
    }
    // An interval that contains every figure reproduces none.
    let noisy = slow.iter().zip([0.4, 1.3, 0.8, 1.9, 0.6]).map(|(slow, share)| slow * share).collect();
    cell(&mut run, "rclone").samples_s = noisy;
    assert_eq!(figure(&run, 0.2).verdict, Verdict::Inconclusive);
}

#[test]
fn weakest_pair_decides_the_verdict() {
    let run = run(5, 1.0, &[]);
    let slower =
        |than: &[&'static str], by| judged(&run, Check::Slower { what: vec!["samba-davfs2"], than: than.to_vec(), by });
    assert_eq!(slower(&["curl", "rclone"], 2.0).verdict, Verdict::Reproduced);
    let far = slower(&["curl", "davfs2", "rclone"], 1.5);
    assert_eq!((far.verdict, far.model), (Verdict::Refuted, false));
    insta::assert_snapshot!(far.measured, @"samba-davfs2 takes 1.18× (1.17–1.18) as long as davfs2, the closest of 3 pairs; the claim requires at least 1.5×.");
    let fastest = judged(&run, Check::Fastest { what: "curl-parallel-h2", among: vec!["curl", "rclone"], by: 3.0 });
    assert_eq!(fastest.verdict, Verdict::Reproduced);
}

#[test]
fn missing_contender_is_not_judged_unless_another_pair_refutes() {
    let run = run(5, 1.0, &["samba-davfs2"]);
    let slower = |what, than| judged(&run, Check::Slower { what: vec![what], than, by: 1.0 });
    let open = slower("redirector-h1", vec!["curl", "samba-davfs2"]);
    assert_eq!(open.verdict, Verdict::NotJudged);
    insta::assert_snapshot!(open.measured, @"samba-davfs2 was skipped.");
    assert_eq!(slower("curl", vec!["davfs2", "samba-davfs2"]).verdict, Verdict::Refuted);
}

#[test]
fn unmeasured_claim_says_why() {
    let mut run = run(3, 1.0, &[]);
    let failed = cell(&mut run, "rclone");
    (failed.status, failed.reason) = (Status::Failed, Some("it hung".into()));
    cell(&mut run, "curl").samples_s.truncate(2);
    cell(&mut run, "webdrive").connections = None;
    let result = [
        judged(&run, ratio("rclone", "davfs2", 1.0)),
        judged(&run, ratio("curl", "davfs2", 1.0)),
        judged(&run, Check::More { count: Count::Connections, what: "webdrive", than: vec!["davfs2"] }),
        judged(&run, Check::Shrinks { of: "davfs2", to: "davfs2-nolocks", on: "long", by: 1.0 }),
    ];
    assert!(result.iter().all(|result| result.verdict == Verdict::NotJudged && result.ci95.is_none()));
    assert_eq!(result.each_ref().map(|result| result.in_run), [true, true, true, false]);
    insta::assert_snapshot!(result.map(|result| result.measured).join("\n"), @r"
    rclone failed.
    too few samples for a verdict (2); take at least 3.
    the connections of webdrive (model) were not counted.
    not part of this run.
    ");
}

#[test]
fn times_are_compared_with_round_trips_and_floors() {
    let mut run = run(5, 1.0, &[]);
    let takes =
        |run: &RunResult, unit, at_least, at_most| judged(run, Check::Takes { what: "curl", unit, at_least, at_most });
    let within = takes(&run, Unit::RoundTrips, Some(39.0), Some(41.0));
    assert_eq!(within.verdict, Verdict::Reproduced);
    insta::assert_snapshot!(within.measured, @"curl takes 40.8 (40.7–40.8, 94 % confidence) round trips; the claim requires 39 to 41 round trips.");
    let interval = within.ci95.unwrap();
    assert_eq!(takes(&run, Unit::RoundTrips, None, Some(interval.hi - 1e-6)).verdict, Verdict::Inconclusive);
    assert_eq!(takes(&run, Unit::RoundTrips, None, Some(interval.lo - 1e-6)).verdict, Verdict::Refuted);
    let floor = takes(&run, Unit::Floors, None, Some(2.0));
    assert_eq!(floor.verdict, Verdict::Refuted);
    insta::assert_snapshot!(floor.measured, @"curl takes 10.9 (10.9–11.0, 94 % confidence) floors; the claim requires at most 2 floors.");
    let requests = takes(&run, Unit::Requests, None, Some(16.0));
    assert_eq!((requests.verdict, requests.ci95), (Verdict::Reproduced, None));
    assert_eq!(takes(&run, Unit::Connections, Some(17.0), None).verdict, Verdict::Refuted);
    cell(&mut run, "curl").samples_s.truncate(2);
    assert_eq!(takes(&run, Unit::Floors, None, Some(2.0)).verdict, Verdict::NotJudged);
}

#[test]
fn link_round_trips_are_a_count_of_the_tap() {
    let mut run = run(3, 1.0, &[]);
    cell(&mut run, "curl").link_round_trips = Some(35);
    let takes = |run: &RunResult, at_most| {
        judged(run, Check::Takes { what: "curl", unit: Unit::LinkRoundTrips, at_least: None, at_most: Some(at_most) })
    };
    let within = takes(&run, 35.0);
    assert_eq!((within.verdict, within.ci95), (Verdict::Reproduced, None));
    insta::assert_snapshot!(within.measured, @"curl takes 35 link round trips; the claim requires at most 35 link round trips.");
    assert_eq!(takes(&run, 34.0).verdict, Verdict::Refuted);
    insta::assert_snapshot!(takes(&run, 1.0).measured, @"curl takes 35 link round trips; the claim requires at most 1 link round trip.");
    insta::assert_snapshot!(takes(&run, 0.0).measured, @"curl takes 35 link round trips; the claim requires no link round trips.");
    cell(&mut run, "curl").link_round_trips = None;
    let unknown = takes(&run, 34.0);
    assert_eq!(unknown.verdict, Verdict::NotJudged);
    insta::assert_snapshot!(unknown.measured, @"the link round trips of curl were not counted.");
}

#[test]
fn loss_is_a_difference_and_a_gain_is_no_loss() {
    let run = run(5, 1.0, &[]);
    let loses = |what, than, at_most: &str| {
        judged(&run, Check::Loses { what, than, at_most: at_most.parse().unwrap(), control: None })
    };
    let within = loses("davfs2", "curl", "3600s");
    assert_eq!(within.verdict, Verdict::Reproduced);
    let lost = within.ci95.unwrap();
    let (more, less) = if lost.lo > 0.0 { ("davfs2", "curl") } else { ("curl", "davfs2") };
    assert_eq!(loses(more, less, "1ms").verdict, Verdict::Refuted);
    assert_eq!(loses(less, more, "1ms").verdict, Verdict::Reproduced);
    assert!(within.measured.contains(" ms (") && within.measured.ends_with("the claim requires at most +3600000 ms."));
}

#[test]
fn precaution_is_judged_only_where_its_control_fails() {
    let mut run = run(5, 1.0, &[]);
    let set = |run: &mut RunResult, contender: &str, time: f64| {
        cell(run, contender).samples_s = (0..5).map(|i| time + 0.001 * f64::from(i)).collect();
    };
    for (contender, time) in [("haul", 1.2), ("curl", 1.0), ("rclone", 3.0), ("webdrive", 1.0)] {
        set(&mut run, contender, time);
    }
    let loses = |run: &RunResult, at_most: &str| {
        let control = Some(["rclone", "webdrive"]);
        judged(run, Check::Loses { what: "haul", than: "curl", at_most: at_most.parse().unwrap(), control })
    };
    let holds = loses(&run, "500ms");
    assert_eq!(holds.verdict, Verdict::Reproduced);
    insta::assert_snapshot!(holds.measured, @"haul takes +200 ms (+197 to +203) compared with curl; without the precaution, rclone takes +2000 ms (+1997 to +2003) compared with webdrive (model); the claim requires at most +500 ms.");
    assert_eq!(loses(&run, "100ms").verdict, Verdict::Refuted);
    // It loses no more than the contender with the precaution.
    set(&mut run, "rclone", 1.2);
    let same = loses(&run, "500ms");
    assert_eq!(same.verdict, Verdict::Inconclusive);
    insta::assert_snapshot!(same.measured, @"haul takes +200 ms (+197 to +203) compared with curl, but the control does not tell it apart: rclone takes +200 ms (+197 to +203) compared with webdrive (model); the claim requires at most +500 ms.");
    let failed = cell(&mut run, "rclone");
    (failed.status, failed.reason) = (Status::Failed, Some("no response".into()));
    assert_eq!(loses(&run, "500ms").verdict, Verdict::Reproduced);
    cell(&mut run, "rclone").status = Status::Skipped;
    assert_eq!(loses(&run, "500ms").verdict, Verdict::Inconclusive);
}

#[test]
fn highest_rate_is_judged_only_if_the_server_was_at_work() {
    let mut run = run(5, 1.0, &[]);
    let busy = |run: &mut RunResult, share: f64| {
        for contender in ["curl", "haul"] {
            let cell = cell(run, contender);
            cell.server_cpu_s = cell.median_s.map(|median| share * median);
        }
    };
    let limit = |run: &RunResult, cores| judged(run, Check::AtTheLimit { what: "haul", than: "curl", cores, by: 1.0 });
    assert_eq!(limit(&run, 1).verdict, Verdict::NotJudged);
    busy(&mut run, 0.27);
    insta::assert_snapshot!(limit(&run, 1).measured, @"the server of curl was at work for 27 % of the time of its processor, so that something else limited the rate.");
    busy(&mut run, 0.96);
    assert_eq!(limit(&run, 1).verdict, Verdict::Reproduced);
    insta::assert_snapshot!(limit(&run, 2).measured, @"the server of curl was at work for 48 % of the time of its 2 processors, so that something else limited the rate.");
}

#[test]
fn work_on_packets_is_added_to_the_servers() {
    let mut run = run(5, 1.0, &[]);
    let mut set = |contender: &str, server: f64, packets: Option<f64>| {
        let cell = cell(&mut run, contender);
        cell.server_cpu_samples_s = vec![server; 5];
        cell.machine_samples = vec![Machine { to_server_s: packets, ..Machine::default() }; 5];
        let check = |measure| {
            judged(&run, Check::Ratio { of: "haul", to: "curl", at_least: None, at_most: Some(1.05), measure }).verdict
        };
        [check(Measure::ServerCpu), check(Measure::ServerAndPackets)]
    };
    set("curl", 1.0, Some(1.0));
    assert_eq!(set("haul", 1.0, Some(2.0)), [Verdict::Reproduced, Verdict::Refuted]);
    assert_eq!(set("haul", 1.2, Some(0.5)), [Verdict::Refuted, Verdict::Reproduced]);
    assert_eq!(set("haul", 1.0, None), [Verdict::Reproduced, Verdict::NotJudged]);
}

#[test]
fn benefit_is_compared_with_another_one() {
    let mut run = run(5, 1.0, &[]);
    let mut set = |network, contender: &str, time: f64| {
        let named = |cell: &&mut CellResult| cell.is("upload-small", network, contender);
        let cell = run.cells.iter_mut().find(named).unwrap();
        (cell.status, cell.median_s) = (Status::Ok, Some(1.002 * time));
        cell.samples_s = (0..5).map(|i| time * (1.0 + 0.001 * f64::from(i))).collect();
    };
    for (network, contender, time) in [
        ("article", "davfs2", 2.0),
        ("article", "davfs2-nolocks", 1.6),
        ("article", "curl", 1.0),
        ("article", "rclone", 0.9),
        ("lan", "davfs2", 0.4),
        ("lan", "davfs2-nolocks", 0.32),
    ] {
        set(network, contender, time);
    }
    let of_pair = |gain, other, on, at_least, at_most| {
        let (of, to) = ("davfs2", "davfs2-nolocks");
        judged(&run, Check::Benefit { of, to, gain, other, on, at_least, at_most })
    };
    let pair = Some(["curl", "rclone"]);
    // 20 % against 10 %, and 400 ms against 100 ms.
    assert_eq!(of_pair(Gain::Share, pair, None, Some(1.9), None).verdict, Verdict::Reproduced);
    let refuted = of_pair(Gain::Share, pair, None, Some(2.5), None);
    assert_eq!(refuted.verdict, Verdict::Refuted);
    insta::assert_snapshot!(refuted.measured, @"davfs2-nolocks saves 20.0 % compared with davfs2 on article, and rclone saves 10.0 % compared with curl on article; the first is 2.00× (1.95–2.05) the second; the claim requires at least 2.5×.");
    assert_eq!(of_pair(Gain::Time, pair, None, None, Some(3.0)).verdict, Verdict::Refuted);
    // On the other network the same share, but a fifth of the time.
    assert_eq!(of_pair(Gain::Share, None, Some("lan"), Some(1.2), None).verdict, Verdict::Refuted);
    let longer = of_pair(Gain::Time, None, Some("lan"), Some(4.5), None);
    assert_eq!(longer.verdict, Verdict::Reproduced);
    let said = "davfs2-nolocks saves 401 ms compared with davfs2 on article, and davfs2-nolocks saves 80 ms compared with davfs2 on lan";
    assert!(longer.measured.starts_with(said), "{}", longer.measured);
    // There is nothing to compare with.
    assert_eq!(of_pair(Gain::Share, Some(["rclone", "curl"]), None, Some(1.0), None).verdict, Verdict::NotJudged);
}

#[test]
fn syns_must_be_as_full_as_possible() {
    let mut run = run(3, 1.0, &[]);
    let judge = |run: &RunResult| judged(run, Check::SynData { what: "haul" });
    let mut set = |later_full, later_beside| {
        let syns = Syns { firsts: 3, firsts_with_data: 0, later: 30, later_with_data: 29, later_beside, later_full };
        cell(&mut run, "haul").syns = Some(syns);
        judge(&run)
    };
    assert_eq!(set(Some(29), 1).verdict, Verdict::Reproduced);
    assert_eq!(set(Some(28), 1).verdict, Verdict::Refuted, "one SYN carried a single byte");
    assert_eq!(set(Some(29), 0).verdict, Verdict::Refuted);
    assert_eq!(set(None, 1).verdict, Verdict::NotJudged);
}

#[test]
fn counts_need_no_interval() {
    let run = run(1, 1.0, &[]);
    let more = |what, than| judged(&run, Check::More { count: Count::Connections, what, than: vec![than] });
    assert_eq!(more("davfs2", "curl").verdict, Verdict::Reproduced);
    // Equal is not more.
    assert_eq!(more("curl-parallel-h2", "davfs2-nolocks").verdict, Verdict::Refuted);
}

#[test]
fn requests_are_counted_by_method() {
    let run = run(1, 1.0, &[]);
    let sends = |what, methods: &[&str], at_least, at_most| {
        let methods = methods.iter().map(|&method| method.to_owned()).collect();
        judged(&run, Check::PerStep { what, methods, at_least, at_most })
    };
    assert_eq!(sends("davfs2", &["LOCK", "PUT", "UNLOCK"], Some(1.0), None).verdict, Verdict::Reproduced);
    assert_eq!(sends("davfs2-nolocks", &["LOCK"], None, Some(0.0)).verdict, Verdict::Reproduced);
    let result = [
        sends("davfs2", &["LOCK"], None, Some(0.0)),
        sends("davfs2", &["PROPFIND", "PUT"], Some(1.0), None),
        sends("davfs2", &["PUT"], Some(1.5), Some(2.0)),
    ];
    assert!(result.iter().all(|result| result.verdict == Verdict::Refuted));
    insta::assert_snapshot!(result.map(|result| result.measured).join("\n"), @r"
    davfs2 sends 16 LOCK for 16 files; the claim requires none per file.
    davfs2 sends 0 PROPFIND and 16 PUT for 16 files; the claim requires at least 1 of each per file.
    davfs2 sends 16 PUT for 16 files; the claim requires 1.5 to 2 per file.
    ");
}

#[test]
fn more_connections_must_be_faster() {
    let mut run = run(4, 1.0, &[]);
    let pays = |run: &RunResult, what, than| judged(run, Check::Pays { count: Count::Connections, what, than });
    // Seventeen connections, one after another, and slower than with one.
    let result = pays(&run, "davfs2", "davfs2-nolocks");
    assert_eq!(result.verdict, Verdict::Refuted);
    insta::assert_snapshot!(result.measured, @"davfs2 with 17 connections takes 2.28× (2.28–2.29) as long as davfs2-nolocks with 1 connection; the claim requires less than 1×.");
    assert_eq!(pays(&run, "curl-parallel-h1", "rclone").verdict, Verdict::Reproduced);
    let as_many = pays(&run, "davfs2-nolocks", "curl-parallel-h2");
    assert_eq!((as_many.verdict, as_many.ci95), (Verdict::NotJudged, None));
    cell(&mut run, "davfs2").connections = None;
    assert_eq!(pays(&run, "davfs2", "davfs2-nolocks").verdict, Verdict::NotJudged);
}

#[test]
fn model_alone_refutes_nothing() {
    let mut run = run(4, 1.0, &[]);
    let slower = |run: &RunResult, what: &'static str, than: &[&'static str], by| {
        judged(run, Check::Slower { what: vec![what], than: than.to_vec(), by })
    };
    // What agrees is reproduced, and says that it rests on a model.
    let agrees = slower(&run, "redirector-h1", &["curl", "rclone"], 1.5);
    assert_eq!((agrees.verdict, agrees.model), (Verdict::Reproduced, true));
    let differs = slower(&run, "redirector-h1", &["curl", "samba-davfs2"], 1.5);
    assert_eq!((differs.verdict, differs.model), (Verdict::Inconclusive, true));
    insta::assert_snapshot!(differs.measured, @"redirector-h1 (model) takes 1.22× (1.22–1.23) as long as samba-davfs2, the closest of 2 pairs; the claim requires at least 1.5×, which a model alone does not refute, since its requests are inferred.");
    // Neither does a count of it, while a pair of programs does refute, although the model is further away.
    let more = Check::More { count: Count::Connections, what: "davfs2-nolocks", than: vec!["webdrive"] };
    cell(&mut run, "webdrive").connections = Some(4);
    let fewer = judged(&run, more);
    assert_eq!((fewer.verdict, fewer.model), (Verdict::Inconclusive, true));
    let programs = slower(&run, "rclone", &["redirector-h1", "davfs2"], 1.0);
    assert_eq!((programs.verdict, programs.model), (Verdict::Refuted, false));
    // What was not measured rests on nothing.
    cell(&mut run, "redirector-h1").status = Status::Failed;
    assert!(!slower(&run, "redirector-h1", &["curl"], 1.0).model);
}

#[test]
fn pairs_of_models_are_inconclusive() {
    let mut run = run(4, 1.0, &[]);
    for sample in &mut cell(&mut run, "redirector-h2").samples_s {
        *sample /= 2.0;
    }
    let result = judged(&run, ratio("redirector-h1", "redirector-h2", 1.2));
    assert_eq!(result.verdict, Verdict::Inconclusive);
    insta::assert_snapshot!(result.measured, @"redirector-h1 (model) takes 2.00× (2.00–2.00) as long as redirector-h2 (model); only models take part, and Longhaul chooses what they send in parallel.");
    let methods = vec!["LOCK".to_owned()];
    let sends = Check::PerStep { what: "redirector-h1", methods, at_least: Some(1.0), at_most: None };
    assert_eq!(judged(&run, sends).verdict, Verdict::Inconclusive);
    // A pair with a real client is judged, and the pair of models is skipped.
    let slower = |than, by| judged(&run, Check::Slower { what: vec!["redirector-h1"], than, by });
    assert_eq!(slower(vec!["redirector-h2", "davfs2"], 1.1).verdict, Verdict::Reproduced);
    assert_eq!(slower(vec!["webdrive", "redirector-h2"], 1.1).verdict, Verdict::Inconclusive);
}

#[test]
fn models_of_the_same_requests_are_compared_if_a_program_is_on_the_way() {
    let mut run = run(4, 1.0, &[]);
    for sample in &mut cell(&mut run, "redirector-h2").samples_s {
        *sample /= 2.0;
    }
    let faster = |run: &RunResult, by| judged(run, ratio("redirector-h1", "redirector-h2", by)).verdict;
    let writes = |run: &RunResult| {
        let methods = vec!["PUT".to_owned()];
        judged(run, Check::PerStep { what: "redirector-h2", methods, at_least: Some(1.0), at_most: None }).verdict
    };
    assert_eq!((faster(&run, 1.9), writes(&run)), (Verdict::Inconclusive, Verdict::Inconclusive));
    cell(&mut run, "redirector-h2").requests_of = Some("redirector-h1".to_owned());
    assert_eq!((faster(&run, 1.9), writes(&run)), (Verdict::Reproduced, Verdict::Reproduced));
    assert_eq!(faster(&run, 2.1), Verdict::Refuted);
    // A program on the way, and the requests of another model.
    cell(&mut run, "redirector-h2").requests_of = Some("webdrive".to_owned());
    assert_eq!(faster(&run, 1.9), Verdict::Inconclusive);
}

#[test]
fn verdict_of_three_samples_states_confidence() {
    for (samples, confidence) in [(3, 0.9), (4, 1.0 - 2.0 / 70.0)] {
        let run = run(samples, 1.0, &[]);
        let result = judged(&run, ratio("davfs2", "davfs2-nolocks", 2.0));
        assert_eq!(result.verdict, Verdict::Reproduced);
        assert_eq!(judged(&run, ratio("davfs2", "davfs2-nolocks", 2.5)).verdict, Verdict::Refuted);
        assert!((result.confidence.unwrap() - confidence).abs() < 1e-9, "{result:?}");
        assert_eq!(result.measured.contains("90 % confidence"), samples == 3);
    }
}

#[test]
fn shrinking_requires_a_benefit() {
    let mut run = run(5, 1.0, &[]);
    let shrinks = || Check::Shrinks { of: "curl", to: "rclone", on: "lan", by: 1.0 };
    let mut set = |network, contender: &str, time: f64| {
        let named = |cell: &&mut CellResult| cell.is("upload-small", network, contender);
        let cell = run.cells.iter_mut().find(named).unwrap();
        (cell.status, cell.samples_s) = (Status::Ok, (0..5).map(|i| time * (1.0 + 0.001 * f64::from(i))).collect());
    };
    // 0.98 here and 0.74 nearby: the first is greater, but neither is a benefit.
    for (network, curl) in [("article", 0.98), ("lan", 0.74)] {
        set(network, "curl", curl);
        set(network, "rclone", 1.0);
    }
    let result = judged(&run, shrinks());
    assert_eq!(result.verdict, Verdict::Refuted);
    insta::assert_snapshot!(result.measured, @"curl takes 0.98× (0.98–0.98) as long as rclone, so there is no benefit here; the claim requires more than 1×.");
    // Equal here: whether there is a benefit is open.
    cell(&mut run, "curl").samples_s = cell(&mut run, "rclone").samples_s.clone();
    assert_eq!(judged(&run, shrinks()).verdict, Verdict::Inconclusive);
}

#[test]
fn ratio_that_grows_with_rtt_shrinks_nearby() {
    let mut run = run(5, 1.0, &[]);
    let shrinks = Check::Shrinks { of: "davfs2", to: "davfs2-nolocks", on: "lan", by: 1.0 };
    for sample in &mut cell(&mut run, "davfs2").samples_s {
        *sample *= 2.0;
    }
    let result = judged(&run, shrinks);
    assert_eq!(result.verdict, Verdict::Reproduced);
    insta::assert_snapshot!(result.measured, @"davfs2 takes 4.57× as long as davfs2-nolocks on article and 2.24× on lan; the first ratio is 2.04× (1.96–2.12) the second; the claim requires more than 1×.");
}

static BASE: LazyLock<RunResult> = LazyLock::new(|| run(1, 1.0, &[]));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A claim with a lower bound is judged at least as well.
    #[test]
    fn weaker_claim_is_never_judged_worse(
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
            verdict => unreachable!("a ratio is no figure, but is {verdict:?}"),
        };
        prop_assert!(rank(strong) <= rank(strong * weaker));
    }
}

#[test]
fn summary_counts_every_claim_once() {
    let mut verdicts = vec![Verdict::Reproduced, Verdict::Inconclusive, Verdict::NotJudged, Verdict::NotJudged];
    assert_eq!(Verdict::summary(&verdicts), "4 claims: 1 reproduced, 0 refuted, 1 inconclusive, 2 not judged");
    verdicts.push(Verdict::Exceeded);
    assert_eq!(
        Verdict::summary(&verdicts),
        "5 claims: 1 reproduced, 1 exceeded, 0 refuted, 1 inconclusive, 2 not judged"
    );
}
