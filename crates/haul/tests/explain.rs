//! `haul explain`, as a person and a program meet it.

use std::{error::Error, fs, path::Path};

use assert_cmd::Command;

const SLOW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../explain/tests/seed/ie.snoop.txt");
const HEALTHY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../explain/tests/seed/netscape.snoop.txt");

fn explain(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo_bin!("haul"));
    command.arg("explain").args(args);
    command
}

fn said(args: &[&str]) -> Result<String, Box<dyn Error>> {
    Ok(String::from_utf8(explain(args).assert().success().get_output().stdout.clone())?)
}

#[test]
fn the_first_line_is_the_answer() -> Result<(), Box<dyn Error>> {
    let slow = said(&["--format", "snoop", SLOW, "--bytes", "18MB"])?;
    assert!(
        slow.starts_with("93 ms of 113 ms (82 %) were lost to acknowledgements that the receiver held back."),
        "{slow}"
    );
    assert!(slow.contains("With deferred-ack=1ms: 37 s in place of 4.1 min for 18 MB"), "{slow}");
    assert!(said(&[HEALTHY])?.starts_with("Healthy: "));
    Ok(())
}

#[test]
fn times_in_the_json_add_up() -> Result<(), Box<dyn Error>> {
    let text = said(&[SLOW, HEALTHY, "--json", "-"])?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    assert_eq!(json["schema"], "longhaul.explain/1");
    let connections = json["connections"].as_array().ok_or("a list")?;
    assert_eq!(connections.len(), 2);
    for transfer in connections.iter().filter_map(|one| one["transfers"].as_array()).flatten() {
        let times = transfer["time_s"].as_object().ok_or("a table")?.values().filter_map(serde_json::Value::as_f64);
        let duration = transfer["duration_s"].as_f64().ok_or("a number")?;
        assert!((times.sum::<f64>() - duration).abs() < 1e-9);
    }
    Ok(())
}

#[test]
fn what_is_no_capture_is_refused_in_a_sentence() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("no.pcap");
    fs::write(&file, b"\x00\x01no capture\xff")?;
    for file in [&*file, Path::new("/nowhere/at/all.pcap")] {
        let told = explain(&[&file.display().to_string()]).assert().failure().code(1).get_output().stderr.clone();
        let told = String::from_utf8(told)?;
        assert!(told.starts_with("haul: ") && told.lines().count() == 1, "{told}");
    }
    explain(&["--what-if", "speed=3", SLOW]).assert().code(2);
    Ok(())
}
