use super::*;
use crate::{
    experiment::{Plan, Selection},
    summarize::summarize,
    test_data::{circumstances, outcomes, plan, race},
};

/// The quick race, network by network.
fn parts() -> Vec<Source> {
    let whole = plan(4);
    let networks: BTreeSet<&str> = whole.cells.iter().map(|cell| cell.network.name.as_str()).collect();
    networks.into_iter().map(|network| part(network, &whole)).collect()
}

fn part(network: &str, whole: &Plan) -> Source {
    let cells = whole.cells.iter().filter(|cell| cell.network.name == network).cloned().collect();
    let plan = Plan { cells, ..*whole };
    let mut run = summarize(&race(), &plan, &outcomes(&plan, 1.0, &[]), circumstances());
    run.settings = [("samples".to_owned(), "4".to_owned()), ("server".to_owned(), "apache".to_owned())].into();
    network.clone_into(&mut run.host.name);
    Source { folder: network.into(), run }
}

fn refused(change: impl FnOnce(&mut Vec<Source>)) -> String {
    let mut parts = parts();
    change(&mut parts);
    merge(&race(), &parts, String::new()).unwrap_err().to_string()
}

#[test]
fn parts_make_the_same_run_as_one_measurement_of_all() {
    let whole = summarize(&race(), &plan(4), &outcomes(&plan(4), 1.0, &[]), circumstances());
    for reversed in [false, true] {
        let mut parts = parts();
        assert!(parts.len() > 1, "the quick race has several networks");
        if reversed {
            parts.reverse();
        }
        let merged = merge(&race(), &parts, whole.command.clone()).unwrap();
        let without_part = merged.cells.iter().map(|cell| CellResult { part: None, ..cell.clone() });
        assert_eq!(without_part.collect::<Vec<_>>(), whole.cells);
        assert_eq!(merged.comparisons, whole.comparisons);
        assert_eq!(merged.claims, whole.claims, "also those that compare networks");
        assert_eq!((merged.networks, merged.workloads), (whole.networks.clone(), whole.workloads.clone()));
        for cell in &merged.cells {
            assert_eq!(merged.parts[cell.part.unwrap()].host.name, cell.network);
        }
    }
}

#[test]
fn a_merged_run_is_a_part_too() {
    let mut parts = parts();
    let last = parts.pop().unwrap();
    let some = merge(&race(), &parts, String::new()).unwrap();
    let all = merge(&race(), &[last, Source { folder: "some".into(), run: some }], String::new()).unwrap();
    assert_eq!(all.parts.len(), parts.len() + 1);
    for cell in &all.cells {
        assert_eq!(all.parts[cell.part.unwrap()].host.name, cell.network);
    }
}

#[test]
fn the_least_true_calibration_stands_for_all() {
    let mut parts = parts();
    parts[0].run.calibration.as_mut().unwrap().delay_error_p99_us = 4000.0;
    let merged = merge(&race(), &parts, String::new()).unwrap();
    assert!((merged.calibration.unwrap().delay_error_p99_us - 4000.0).abs() < 1e-9);
    assert!(merged.parts.iter().any(|part| part.calibration.as_ref().unwrap().delay_error_p99_us < 4000.0));
}

#[test]
fn what_would_mislead_is_refused() {
    let twice = refused(|parts| {
        let again = part(&parts[0].run.networks[0].name, &plan(4));
        parts.push(Source { folder: "again".into(), ..again });
    });
    assert!(twice.contains("and again both have cells of"), "{twice}");

    let incomplete = refused(|parts| {
        parts[0].run.cells[0].samples_s.pop();
    });
    assert!(incomplete.contains("was complete; run that part again"), "{incomplete}");

    let not_reached = refused(|parts| {
        let cell = &mut parts[0].run.cells[0];
        (cell.status, cell.reason) = (Status::Skipped, Some(crate::results::NOT_REACHED.to_owned()));
    });
    assert!(not_reached.contains("was complete; run that part again"), "{not_reached}");

    let network = refused(|parts| parts[0].run.networks[0].link["rtt"] = "99ms".into());
    assert!(network.contains("is not that of the experiment"), "{network}");

    let rival = refused(|parts| {
        parts[0].run.cells.pop();
    });
    assert!(rival.contains("a rival in the other parts; run that part again with it"), "{rival}");

    let server = refused(|parts| {
        parts[1].run.settings.insert("server".to_owned(), "nginx".to_owned());
    });
    assert!(server.contains("`server` is `apache` in") && server.contains("`nginx` in"), "{server}");

    let experiment = refused(|parts| "mounts".clone_into(&mut parts[1].run.experiment));
    assert!(experiment.contains("of the experiment `mounts`, not of `webdav-race`"), "{experiment}");
}

#[test]
fn swept_networks_are_the_networks_of_the_merged_run() {
    let mut swept = race();
    swept.sweep_networks("loss", &["0.1%".to_owned(), "1%".to_owned()]).unwrap();
    let selection = |network: &str| Selection { quick: true, networks: vec![network.into()], ..Selection::default() };
    let source = |network: &str| {
        let plan = swept.plan(&selection(network)).unwrap();
        let run = summarize(&swept, &plan, &outcomes(&plan, 1.0, &[]), circumstances());
        Source { folder: network.into(), run }
    };
    let parts = [source("article loss=1%"), source("article loss=0.1%")];
    let merged = merge(&swept, &parts, String::new()).unwrap();
    let names: Vec<&str> = merged.networks.iter().map(|network| network.name.as_str()).collect();
    assert_eq!(names, ["article loss=0.1%", "article loss=1%"]);
    assert_eq!(merged.networks[1].link["loss"], "1%");
    let refused = merge(&race(), &parts, String::new()).unwrap_err().to_string();
    assert!(refused.contains("network `article loss=1%` of article loss=1% is not that"), "{refused}");
}
