//! Output during a transfer.

use std::fs;

use serde_json::Value;

use crate::{
    common::{printed, text},
    fixture::{Fixture, write},
};

fn trees(fixture: &Fixture) {
    for folder in ["source", "served/from"] {
        write(&fixture.path(folder), &[("a", "one"), ("b/same", "same"), ("c\x1b[2J", "new")]);
    }
    for folder in ["served/up", "down"] {
        write(&fixture.path(folder), &[("b/same", "same"), ("old", "")]);
    }
}

#[test]
fn verbose_names_each_file_and_quiet_none() {
    let fixture = Fixture::new();
    trees(&fixture);
    let sync = |options: &[&str]| {
        let ended = fixture.haul(&[&["sync", "source", &fixture.at("up"), "--size-only"], options].concat());
        printed(&ended);
        text(&ended.stderr)
    };
    let told = sync(&["-v"]);
    for line in ["copied source/a (3 B)", "skipped source/b/same: same size at the target", "copied source/c\\u{1b}[2J"]
    {
        assert!(told.contains(&format!("haul: {line}")), "{told:?}");
    }
    assert!(!told.contains('\x1b') && told.lines().count() == 4, "{told:?}");
    let told = sync(&["-q", "--delete"]);
    assert_eq!(told, "", "there is no error");
    let told = text(&fixture.haul(&["sync", "source", &fixture.at("up"), "-vv"]).stderr);
    assert!(told.contains("skipped source/a: unchanged"), "{told:?}");
    let told = text(&fixture.haul(&["sync", "source", &fixture.at("up"), "-v"]).stderr);
    assert!(!told.contains("unchanged"), "{told:?}");
    let quiet = fixture.haul(&["sync", "nowhere", &fixture.at("up"), "-q"]);
    assert!(quiet.status.code() == Some(1) && !quiet.stderr.is_empty(), "errors are told in any case");
    printed(&fixture.haul(&["sync", &fixture.at("from"), "down", "-q", "--delete"]));
}

#[test]
fn log_file_has_times_and_is_appended_to() {
    let fixture = Fixture::new();
    trees(&fixture);
    for _ in 0..2 {
        let ended = fixture.haul(&["sync", "source", &fixture.at("up"), "--delete", "--log-file", "transfer.log"]);
        printed(&ended);
        assert_eq!(text(&ended.stderr).lines().count(), 1);
    }
    let log = fs::read_to_string(fixture.path("transfer.log")).unwrap();
    assert!(log.contains(" copied source/a (3 B)\n") && log.contains(" deleted /up/old\n"), "{log}");
    assert!(log.lines().all(|line| line.starts_with("20") && line[..25].ends_with("+0000")), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains(" copied in ") || line.contains("0 files (0 B)")).count(), 2);
}

#[test]
fn events_are_lines_of_json() {
    let fixture = Fixture::new();
    trees(&fixture);
    let ended = fixture.haul(&["sync", &fixture.at("from"), "down", "--delete", "--events", "-"]);
    let lines: Vec<Value> = printed(&ended).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["schema"] == "longhaul.transfer-event/1" && line["time"].is_string()));
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!((events[0], events[events.len() - 1]), ("begin", "end"));
    let of = |kind: &str| lines.iter().filter(|line| line["event"] == kind).collect::<Vec<_>>();
    let copied = of("copied");
    assert!(copied.iter().any(|line| line["path"] == "/from/a" && line["bytes"] == 3), "{copied:?}");
    assert_eq!((of("deleted")[0]["path"].as_str(), of("end")[0]["deleted"].as_u64()), (Some("down/old"), Some(1)));

    let both = ["sync", "source", &fixture.at("up"), "--json", "-", "--events", "-"];
    assert_eq!(fixture.haul(&both).status.code(), Some(2));
    let full = fixture.haul(&["sync", "source", &fixture.at("up"), "--events", "/dev/full"]);
    assert!(full.status.code() == Some(1) && text(&full.stderr).contains("they end here"), "{}", text(&full.stderr));
    assert!(!fixture.served("up/a").exists(), "nobody would know");
}
