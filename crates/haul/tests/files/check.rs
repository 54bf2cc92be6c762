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

/// Links to a file, a folder, nowhere, a folder above and each other; a FIFO, a socket.
fn lay_out_special_files(root: &std::path::Path) -> std::os::unix::net::UnixListener {
    use std::os::unix::{fs::symlink, net::UnixListener};
    write(root, &[("d/a", "1"), ("b", "2")]);
    for (name, to) in [
        ("to-file", "b"),
        ("to-folder", "d"),
        ("dangling", "nowhere"),
        ("d/loop", ".."),
        ("one", "two"),
        ("two", "one"),
    ] {
        symlink(to, root.join(name)).unwrap();
    }
    nix::unistd::mkfifo(&root.join("d/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    UnixListener::bind(root.join("socket")).unwrap()
}

#[test]
fn check_after_sync_of_special_files_finds_no_difference() {
    let place = Place::new();
    let _socket = lay_out_special_files(&place.path("here"));
    let there = place.at("there");
    for links in ["skip", "follow"] {
        let synced = place.haul(&["sync", "here", &there, "--delete", "--links", links]);
        printed(&synced);
        let warnings = |output: &std::process::Output| {
            let told = text(&output.stderr);
            let mut told: Vec<_> =
                told.lines().filter(|line| line.contains("skipped: it is")).map(str::to_owned).collect();
            told.sort();
            told
        };
        for arguments in [["here", &there], [&there, "here"]] {
            let checked = place.haul(&[&["check"], &arguments[..], &["--links", links, "--download"]].concat());
            printed(&checked);
            assert_eq!(warnings(&checked), warnings(&synced));
            assert_eq!(warnings(&checked).len(), 8);
        }
    }
    assert!(fs::symlink_metadata(place.served("there/to-folder")).unwrap().is_dir(), "links were followed");

    // Whatever stands under the name of what is skipped is neither missing nor different.
    write(&place.served("there"), &[("socket/deep/x", ""), ("dangling", ""), ("d/pipe", "")]);
    let checked = place.haul(&["check", "here", &there]);
    printed(&checked);
    printed(&place.haul(&["check", &there, "here"]));
    write(&place.served("there"), &[("d/other", "")]);
    let checked = place.haul(&["check", "here", &there]);
    assert_eq!((checked.status.code(), text(&checked.stdout)), (Some(1), "missing in FROM: d/other\n".into()));
    let local = place.haul(&["check", "here", "here"]);
    printed(&local);
}

#[test]
fn check_after_sync_with_the_same_filters_finds_no_difference() {
    let place = Place::new();
    write(&place.path("here"), &[("a", "1"), ("long", "12345678"), (".x.0123456789abcdef.part", "half")]);
    write(&place.served("there"), &[("long", "1"), ("a", "123456789"), (".y.0123456789abcdef.part", "half")]);
    let there = place.at("there");
    let filter = ["--max-size", "5B"];
    printed(&place.haul(&[&["sync", "here", &there, "--delete"], &filter[..]].concat()));
    for (from, to) in [("here", there.as_str()), (&there, "here")] {
        let checked = place.haul(&[&["check", from, to], &filter[..]].concat());
        assert_eq!(
            text(&checked.stdout),
            if from == "here" { "" } else { "differs: long: 1 bytes in FROM, 8 in TO\n" }
        );
    }
    // An unreadable folder is a failure, and nothing is said of what is in it.
    let broken = place.haul(&["check", "here/a", &there]);
    assert!(broken.status.code() == Some(1) && text(&broken.stdout).is_empty());
}
