//! The report's data for an invented race.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    compare::compare,
    results::{RunResult, TimeAttribution},
    test_data::{self, DAVFS2},
};

fn page(run: &RunResult) -> Value {
    serde_json::to_value(super::of_run(run, |file| file.ends_with("upload-small-article-curl.pcapng"))).unwrap()
}

fn answer(run: &RunResult) -> String {
    let answer = page(run)["page"]["answer"].clone();
    let said = |part: &Value| format!("{}: {}", part["about"].as_str().unwrap(), part["text"].as_str().unwrap());
    answer.as_array().unwrap().iter().map(said).collect::<Vec<_>>().join("\n")
}

#[test]
fn report_embeds_run_and_conclusions() {
    let mut run = test_data::run(4, 1.0, &DAVFS2);
    let slow = run.cells.iter_mut().find(|cell| cell.contender == "redirector-h2").unwrap();
    slow.why = Some(TimeAttribution {
        round: 0,
        seconds: [("propagation".to_owned(), 2.0)].into(),
        answer: "100 % round trips".to_owned(),
    });
    let page = page(&run);
    for (key, value) in serde_json::to_value(&run).unwrap().as_object().unwrap() {
        assert_eq!(&page[key], value, "{key}");
    }
    let cell = run.cells.iter().position(|cell| cell.contender == "curl" && cell.network == "article").unwrap();
    let beside = &page["page"]["cells"][cell];
    assert_eq!(beside["capture"], json!("captures/upload-small-article-curl.pcapng"));
    assert_eq!((&beside["slowest"], &beside["view"]), (&json!(null), &json!(null)));
    assert!(beside["place"].as_str().is_some_and(|place| place.contains(char::is_numeric)));
    insta::assert_snapshot!(answer(&run));
}

#[test]
fn block_names_fastest_and_ratio() {
    let mut run = test_data::run(4, 1.0, &[]);
    run.cells.retain(|cell| cell.network == "article" && ["curl", "webdrive"].contains(&cell.contender.as_str()));
    run.claims.clear();
    insta::assert_snapshot!(answer(&run));
}

#[test]
fn run_without_results_says_why() {
    let mut run = test_data::run(1, 1.0, &DAVFS2);
    run.cells.retain(|cell| cell.contender == "davfs2");
    run.claims.clear();
    assert_eq!(
        answer(&run),
        "Fastest: Nothing was measured: mount.davfs is not installed; install it with `apt-get install davfs2`."
    );
    run.cells.clear();
    assert_eq!(answer(&run), "Fastest: Nothing was measured: the run has no cells.");
}

/// What the page of compared runs is filled with.
fn compared(runs: &[(&str, &RunResult)]) -> Value {
    serde_json::to_value(super::of_comparison(runs, &compare(runs))).unwrap()
}

fn sentences(page: &Value) -> String {
    serde_json::from_value::<Vec<String>>(page["answer"].clone()).unwrap().join("\n")
}

#[test]
fn two_runs_are_compared() {
    let (then, now) = (test_data::run(4, 1.0, &[]), test_data::run(4, 0.5, &DAVFS2));
    let page = compared(&[("then", &then), ("now", &now)]);
    assert_eq!(page["schema"], json!("longhaul.compare/1"));
    let cell = page["cells"].as_array().unwrap().iter().find(|cell| cell["contender"] == "haul").unwrap();
    let [was, is] = cell["runs"].as_array().unwrap().as_slice() else { panic!("{cell:#}") };
    assert_eq!((&was["trend"], &was["ratio"], &is["trend"]), (&json!("baseline"), &json!(null), &json!("faster")));
    assert_eq!(is["samples_s"].as_array().unwrap().len(), 4);
    insta::assert_snapshot!(sentences(&page));
    let same = compared(&[("then", &then), ("then", &then)]);
    assert!(sentences(&same).starts_with("Nothing changed beyond noise"));
}

#[test]
fn each_of_many_runs_is_compared() {
    let runs = [(4, 1.0), (5, 1.0), (4, 0.5), (4, 1.2)].map(|(samples, factor)| test_data::run(samples, factor, &[]));
    let mut other = test_data::run(4, 1.0, &[]);
    other.networks.iter_mut().for_each(|network| network.link["rtt"] = "3ms".into());
    let names = ["a", "b", "c", "d", "e"];
    let runs: Vec<(&str, &RunResult)> = names.into_iter().zip(runs.iter().chain([&other])).collect();
    insta::assert_snapshot!(sentences(&compared(&runs)));
}

#[test]
fn missing_captures_are_not_linked() {
    let run = test_data::run(1, 1.0, &[]);
    let page = serde_json::to_value(super::of_run(&run, |_: &Path| false)).unwrap();
    let cells = page["page"]["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["capture"].is_null()));
}
