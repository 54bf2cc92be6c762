//! Whether two folders are the same.

use std::fs;

use crate::{
    common::{printed, text},
    place::{Place, json, write},
};

#[test]
fn check_tells_what_is_missing_and_what_differs() {
    let place = Place::new();
    let files = [("same", "1"), ("d/long", "22"), ("d/other", "abc"), ("here only", "x")];
    let other = [("same", "1"), ("d/long", "333"), ("d/other", "xyz"), ("there only", "x")];
    for (folder, files) in [("here", files), ("served/a", files), ("copy", other), ("served/b", other)] {
        write(&place.path(folder), &files);
    }
    let (a, b) = (place.at("a"), place.at("b"));
    let lines = |options: &[&str]| {
        let ended = place.haul(&[&["check"], options].concat());
        let mut lines: Vec<_> = text(&ended.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        (ended.status.code(), lines, text(&ended.stderr))
    };
    let long = "differs: d/long: 2 bytes in FROM, 3 in TO";
    let content = "differs: d/other: same size, different content";
    let (from, to) = ("missing in FROM: there only", "missing in TO: here only");
    for [source, target] in [["here", &b], ["here", "copy"], [&a, "copy"]] {
        let (code, told, said) = lines(&[source, target, "--download"]);
        assert_eq!((code, &told[..]), (Some(1), &[long, content, from, to].map(str::to_owned)[..]), "{source} {said}");
        assert!(said.contains("1 file equal; 2 differ; 1 missing in TO; 1 missing in FROM"), "{said}");
    }
    let (code, told, said) = lines(&[&a, &b, "--download"]);
    assert_eq!((code, told.len()), (Some(1), 4), "{said}");
    let (code, told, said) = lines(&["here", &b, "--size-only", "--one-way"]);
    assert_eq!((code, &told[..]), (Some(1), &[long, to].map(str::to_owned)[..]));
    assert!(said.contains("2 of the same size, content not compared"), "{said}");
    let (code, ..) = lines(&["here", &b, "--include", "same", "--download"]);
    assert_eq!(code, Some(0), "filters hold on both sides");
    for [source, target] in [["here", a.as_str()], [&a, "here"], ["here", "here"]] {
        let (code, told, said) = lines(&[source, target]);
        assert!(code == Some(0) && told.is_empty(), "{told:?} {said}");
    }
    let ended = place.haul(&["check", "here", &b, "--json", "-", "--download"]);
    let found = json(&ended.stdout, "check");
    assert_eq!((ended.status.code(), &found["equal"]), (Some(1), &1.into()));
    assert_eq!(found["differ"][0]["path"], "d/long");
    let ended = place.haul(&["check", "here", &place.at("nowhere")]);
    assert!(ended.status.code() == Some(1) && !ended.stderr.is_empty());
}

#[test]
fn files_and_trees_go_from_server_to_server() {
    let (place, other) = (Place::new(), Place::new());
    write(&place.path("served"), &[("tree/a", "1"), ("tree/d/b c", "22"), ("tree/d/e/f", "333"), ("x.tmp", "")]);
    fs::create_dir_all(place.served("tree/empty")).unwrap();
    fs::write(place.served("tree/large"), vec![5; 9_000_000]).unwrap();
    printed(&place.haul(&["cp", &place.at("tree/a"), &other.at("renamed")]));
    assert_eq!(fs::read_to_string(other.served("renamed")).unwrap(), "1");
    printed(&place.haul(&["cp", "-r", &place.at("tree"), &other.at("")]));
    printed(&place.haul(&["check", &place.at("tree"), &other.at("tree"), "--download"]));
    assert!(other.served("tree/empty").is_dir());

    fs::write(place.served("tree/a"), "changed").unwrap();
    printed(&place.haul(&["cp", "-r", &place.at("tree"), &other.at(""), "--exclude", "large", "--verify", "digest"]));
    assert_eq!(fs::read_to_string(other.served("tree/a")).unwrap(), "changed");
    let ended = place.haul(&["cp", "-r", &place.at("tree"), &other.at(""), "--ignore-existing"]);
    printed(&ended);
    assert!(text(&ended.stderr).contains("0 files (0 B) copied"), "{}", text(&ended.stderr));
    let ended = place.haul(&["cp", &place.at("tree"), &other.at("")]);
    assert!(ended.status.code() == Some(1) && text(&ended.stderr).contains("add `-r`"), "{}", text(&ended.stderr));
    let ended = place.haul(&["cp", &place.at("tree/a"), &other.at(""), "--header", "X-Key: hunter2"]);
    assert!(ended.status.code() == Some(2) && !text(&ended.stderr).contains("hunter2"));
}
