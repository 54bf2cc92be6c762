//! What is said while files move.

use std::fs;

use serde_json::Value;

use crate::{
    common::{printed, text},
    place::{Place, write},
};

fn trees(place: &Place) {
    for folder in ["source", "served/from"] {
        write(&place.path(folder), &[("a", "one"), ("b/same", "same"), ("c\x1b[2J", "new")]);
    }
    for folder in ["served/up", "down"] {
        write(&place.path(folder), &[("b/same", "same"), ("old", "")]);
    }
}

#[test]
fn verbose_names_each_file_and_quiet_none() {
    let place = Place::new();
    trees(&place);
    let sync = |options: &[&str]| {
        let ended = place.haul(&[&["sync", "source", &place.at("up"), "--size-only"], options].concat());
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
    let told = text(&place.haul(&["sync", "source", &place.at("up"), "-vv"]).stderr);
    assert!(told.contains("skipped source/a: unchanged"), "{told:?}");
    let told = text(&place.haul(&["sync", "source", &place.at("up"), "-v"]).stderr);
    assert!(!told.contains("unchanged"), "{told:?}");
    let quiet = place.haul(&["sync", "nowhere", &place.at("up"), "-q"]);
    assert!(quiet.status.code() == Some(1) && !quiet.stderr.is_empty(), "errors are told in any case");
    printed(&place.haul(&["sync", &place.at("from"), "down", "-q", "--delete"]));
}

#[test]
fn a_log_has_times_and_is_added_to() {
    let place = Place::new();
    trees(&place);
    for _ in 0..2 {
        let ended = place.haul(&["sync", "source", &place.at("up"), "--delete", "--log-file", "transfer.log"]);
        printed(&ended);
        assert_eq!(text(&ended.stderr).lines().count(), 1);
    }
    let log = fs::read_to_string(place.path("transfer.log")).unwrap();
    assert!(log.contains(" copied source/a (3 B)\n") && log.contains(" deleted /up/old\n"), "{log}");
    assert!(log.lines().all(|line| line.starts_with("20") && line[..25].ends_with("+0000")), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains(" copied in ") || line.contains("0 files (0 B)")).count(), 2);
}

#[test]
fn events_are_lines_of_json() {
    let place = Place::new();
    trees(&place);
    let ended = place.haul(&["sync", &place.at("from"), "down", "--delete", "--events", "-"]);
    let lines: Vec<Value> = printed(&ended).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["schema"] == "longhaul.transfer-event/1" && line["time"].is_string()));
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!((events[0], events[events.len() - 1]), ("begin", "end"));
    let of = |kind: &str| lines.iter().filter(|line| line["event"] == kind).collect::<Vec<_>>();
    let copied = of("copied");
    assert!(copied.iter().any(|line| line["path"] == "/from/a" && line["bytes"] == 3), "{copied:?}");
    assert_eq!((of("deleted")[0]["path"].as_str(), of("end")[0]["deleted"].as_u64()), (Some("down/old"), Some(1)));

    let both = ["sync", "source", &place.at("up"), "--json", "-", "--events", "-"];
    assert_eq!(place.haul(&both).status.code(), Some(2));
    let full = place.haul(&["sync", "source", &place.at("up"), "--events", "/dev/full"]);
    assert!(full.status.code() == Some(1) && text(&full.stderr).contains("they end here"), "{}", text(&full.stderr));
    assert!(!place.served("up/a").exists(), "nobody would know");
}
