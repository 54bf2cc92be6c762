//! Results are read back as they were written, or the error says why not.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::*;
use crate::test_data::{outcomes, plan, run};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn later(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_289_880 + seconds)
}

/// The name of a run's folder.
fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn run_is_read_as_written() {
    let folder = folder();
    let path = folder.path().join("run.json");
    for run in [run(4, 1.0, &["davfs2"]), run(1, 1.0, &[])] {
        write(&path, &run).unwrap();
        assert!(read(&path).unwrap() == run, "it came back changed");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something is left beside the file");
}

#[test]
fn unjudged_claim_of_an_earlier_build_is_read_as_not_judged() {
    let folder = folder();
    let path = folder.path().join("run.json");
    let run = run(4, 1.0, &["davfs2"]);
    let json = serde_json::to_string(&run).unwrap();
    assert!(json.contains("\"not-judged\"") && json.contains("\"inconclusive\""));
    fs::write(&path, json.replace("\"not-judged\"", "\"inconclusive\"")).unwrap();
    assert!(read(&path).unwrap() == run);
}

#[test]
fn json_has_the_names_of_the_schema() {
    let json = serde_json::to_value(run(3, 1.0, &["davfs2"])).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(json["schema"], "longhaul.run/1");
    let names =
        [&json, &json["host"], &json["calibration"], &json["cells"][0], &json["comparisons"][0], &json["claims"][0]];
    insta::assert_snapshot!(names.map(keys).join("\n"), @r"
    calibration cells claims command comparisons conditions contenders experiment host networks question schema settings started title workloads
    cpu kernel name sysctls tools
    delay_error_p50_us delay_error_p99_us delay_errors packets_per_s rate_error real_time
    bytes ci95_s connections contender disturbed fcp_s floor_s ideal_s lcp_s link_round_trips machine_samples median_s methods model network protocols reason repeated requests round_trips samples_s server_cpu_s server_cpu_samples_s speed_index_s status syns times_floor why workload
    a b ci95 confidence differs ratio
    ci95 confidence id in_run measured model network refuted_by said source verdict workload
    ");
    let cells = json["cells"].as_array().unwrap();
    let statuses: Vec<_> = cells.iter().map(|cell| cell["status"].as_str().unwrap()).collect();
    assert!(["ok", "skipped", "failed"].iter().all(|status| statuses.contains(status)), "{statuses:?}");
    assert_eq!(cells[0]["ci95_s"].as_array().unwrap().len(), 2);
}

#[test]
fn unknown_fields_are_ignored() {
    let folder = folder();
    let path = folder.path().join("run.json");
    let mut json = serde_json::to_value(run(2, 1.0, &[])).unwrap();
    json["moon"] = "full".into();
    fs::write(&path, json.to_string()).unwrap();
    assert!(read(&path).unwrap() == run(2, 1.0, &[]), "it came back changed");
}

#[test]
fn older_runs_without_new_fields_are_read() {
    let folder = folder();
    let path = folder.path().join("run.json");
    let mut json = serde_json::to_value(run(3, 1.0, &[])).unwrap();
    for field in ["methods", "protocols", "machine_samples", "repeated", "disturbed", "fcp_s", "lcp_s", "speed_index_s"]
    {
        json["cells"][0].as_object_mut().unwrap().remove(field);
    }
    for field in ["workload", "network", "in_run", "confidence"] {
        json["claims"][0].as_object_mut().unwrap().remove(field);
    }
    fs::write(&path, json.to_string()).unwrap();
    let run = read(&path).unwrap();
    assert_eq!(
        (run.cells[0].methods.as_ref(), run.cells[0].protocols.as_ref(), run.claims[0].in_run),
        (None, None, true)
    );
    assert_eq!((&run.cells[0].disturbed, run.cells[0].machine_samples.len()), (&None, 0));
}

#[test]
fn unreadable_results_are_named() {
    let folder = folder();
    let path = folder.path().join("run.json");
    let message = |text: &str| {
        fs::write(&path, text).unwrap();
        read(&path).unwrap_err().to_string().replace(&path.display().to_string(), "run.json")
    };
    let cases = [
        message(r#"{"schema": "longhaul.explain/1"}"#),
        message("{}"),
        message(r#"{"schema": "longhaul.run/1", "experiment": 7}"#),
        message("half of {"),
    ];
    insta::assert_snapshot!(cases.join("\n"), @r#"
    run.json has schema `longhaul.explain/1`, but this version of haul reads `longhaul.run/1`; use the version that wrote it
    run.json has schema `none`, but this version of haul reads `longhaul.run/1`; use the version that wrote it
    cannot read the results in run.json: invalid type: integer `7`, expected a string at line 1 column 44
    cannot read the results in run.json: expected value at line 1 column 1
    "#);
}

#[test]
fn failed_write_keeps_the_old_file() {
    let folder = folder();
    let path = folder.path().join("run.json");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("old"), "old").unwrap();
    let message = write(&path, &run(2, 1.0, &[])).unwrap_err().to_string();
    assert!(
        message.starts_with("cannot write the results to ") && message.ends_with("choose another folder"),
        "{message}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something is left beside the file");
    assert!(write(&folder.path().join("absent/run.json"), &run(2, 1.0, &[])).is_err());
}

#[test]
fn each_sample_is_written_at_once() {
    let folder = folder();
    let path = folder.path().join("samples.csv");
    let plan = plan(2);
    let mut log = SampleLog::create(&path).unwrap();
    let mut lines = 1;
    for (cell, outcome) in plan.cells.iter().zip(outcomes(&plan, 1.0, &["curl"])) {
        for sample in outcome.samples() {
            log.append(cell, sample).unwrap();
            lines += 1;
            assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), lines);
        }
    }
    // Twice twelve cells, less curl on both networks; rclone fails on one after its first sample.
    assert_eq!(lines, 1 + (2 * 15 - 3) * 2 + 1);
    let csv = fs::read_to_string(&path).unwrap();
    insta::assert_snapshot!(csv.lines().take(3).collect::<Vec<_>>().join("\n"), @r"
    workload,network,contender,model,round,start_s,seconds,bytes,requests,connections,server_cpu_s,link_round_trips,added_s,disturbed
    upload-small,article,curl-parallel-h1,false,0,0.0,0.092628,180000,16,16,,4,,
    upload-small,article,curl-parallel-h1,false,1,1.0,0.090528,180000,16,16,,4,,
    ");
    assert!(SampleLog::create(&path).is_err(), "another run's samples are not written over");
}

#[test]
fn full_disk_is_reported() {
    // Every write to it fails.
    let full = Path::new("/dev/full");
    let plan = plan(1);
    let mut log = SampleLog::on(full, fs::OpenOptions::new().write(true).open(full).unwrap());
    let message = log.append(&plan.cells[0], &Sample::default()).unwrap_err().to_string();
    assert!(message.starts_with("cannot write the results to /dev/full: No space left on device"), "{message}");
}

#[test]
fn summary_counts_cells_and_claims() {
    let mut run = run(2, 1.0, &[]);
    let summary = run.summary();
    assert!(summary.starts_with("30 cells; 17 claims: ") && summary.ends_with(" not judged"), "{summary}");
    run.cells.truncate(1);
    run.claims.clear();
    assert_eq!(run.summary(), "1 cell");
}

#[test]
fn runs_are_named_by_time_and_found() {
    let runs = folder();
    let at = |seconds, name| create_folder(runs.path(), name, later(seconds)).unwrap();
    let (first, again, newest) = (at(0, "webdav-race"), at(0, "webdav-race"), at(61, "webdav-race"));
    assert_eq!(name(&first), "20261121-193800-webdav-race");
    assert_eq!(name(&again), "20261121-193800-webdav-race-2");
    assert_eq!(name(&newest), "20261121-193901-webdav-race");
    write(&first.join("run.json"), &run(2, 1.0, &[])).unwrap();
    write(&again.join("run.json"), &run(2, 3.0, &[])).unwrap();

    let listed = list(runs.path()).unwrap();
    assert_eq!(listed.iter().map(|listed| listed.run.is_ok()).collect::<Vec<_>>(), [false, true, true]);
    // The newest that has ended.
    assert!(find(runs.path(), None).unwrap() == run(2, 3.0, &[]), "another run was found");
    for id in [name(&first), first.to_str().unwrap(), first.join("run.json").to_str().unwrap()] {
        assert!(find(runs.path(), Some(id)).unwrap() == run(2, 1.0, &[]), "{id} is another run");
    }
    let message = find(runs.path(), Some("20261121-193800-webdav-rce")).unwrap_err().to_string();
    assert!(message.ends_with("did you mean `20261121-193800-webdav-race`?"), "{message}");
}

#[test]
fn missing_runs_folder_has_no_runs() {
    let runs = folder().path().join("runs");
    assert!(list(&runs).unwrap().is_empty());
    let message = find(&runs, None).unwrap_err().to_string();
    assert!(message.ends_with("no finished run there; `haul race` makes one"), "{message}");
}
