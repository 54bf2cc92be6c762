//! `haul check`.

use std::fs;

use crate::{
    common::{printed, text},
    fixture::{Fixture, json, write},
};

#[test]
fn check_reports_missing_and_different_files() {
    let fixture = Fixture::new();
    let files = [("same", "1"), ("d/long", "22"), ("d/other", "abc"), ("here only", "x")];
    let other = [("same", "1"), ("d/long", "333"), ("d/other", "xyz"), ("there only", "x")];
    for (folder, files) in [("here", files), ("served/a", files), ("copy", other), ("served/b", other)] {
        write(&fixture.path(folder), &files);
    }
    let (a, b) = (fixture.at("a"), fixture.at("b"));
    let lines = |options: &[&str]| {
        let ended = fixture.haul(&[&["check"], options].concat());
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
    let ended = fixture.haul(&["check", "here", &b, "--json", "-", "--download"]);
    let found = json(&ended.stdout, "check");
    assert_eq!((ended.status.code(), &found["equal"]), (Some(1), &1.into()));
    assert_eq!(found["differ"][0]["path"], "d/long");
    let ended = fixture.haul(&["check", "here", &fixture.at("nowhere")]);
    assert!(ended.status.code() == Some(1) && !ended.stderr.is_empty());
}

#[test]
fn files_and_trees_are_copied_between_servers() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    write(&fixture.path("served"), &[("tree/a", "1"), ("tree/d/b c", "22"), ("tree/d/e/f", "333"), ("x.tmp", "")]);
    fs::create_dir_all(fixture.served("tree/empty")).unwrap();
    fs::write(fixture.served("tree/large"), vec![5; 9_000_000]).unwrap();
    printed(&fixture.haul(&["cp", &fixture.at("tree/a"), &other.at("renamed")]));
    assert_eq!(fs::read_to_string(other.served("renamed")).unwrap(), "1");
    printed(&fixture.haul(&["cp", "-r", &fixture.at("tree"), &other.at("")]));
    printed(&fixture.haul(&["check", &fixture.at("tree"), &other.at("tree"), "--download"]));
    assert!(other.served("tree/empty").is_dir());

    fs::write(fixture.served("tree/a"), "changed").unwrap();
    printed(&fixture.haul(&[
        "cp",
        "-r",
        &fixture.at("tree"),
        &other.at(""),
        "--exclude",
        "large",
        "--verify",
        "digest",
    ]));
    assert_eq!(fs::read_to_string(other.served("tree/a")).unwrap(), "changed");
    let ended = fixture.haul(&["cp", "-r", &fixture.at("tree"), &other.at(""), "--ignore-existing"]);
    printed(&ended);
    assert!(text(&ended.stderr).contains("0 files (0 B) copied"), "{}", text(&ended.stderr));
    let ended = fixture.haul(&["cp", &fixture.at("tree"), &other.at("")]);
    assert!(ended.status.code() == Some(1) && text(&ended.stderr).contains("add `-r`"), "{}", text(&ended.stderr));
    let ended = fixture.haul(&["cp", &fixture.at("tree/a"), &other.at(""), "--header", "X-Key: hunter2"]);
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
    let fixture = Fixture::new();
    let _socket = lay_out_special_files(&fixture.path("here"));
    let there = fixture.at("there");
    for links in ["skip", "follow"] {
        let synced = fixture.haul(&["sync", "here", &there, "--delete", "--links", links]);
        printed(&synced);
        let warnings = |output: &std::process::Output| {
            let told = text(&output.stderr);
            let mut told: Vec<_> =
                told.lines().filter(|line| line.contains("skipped: it is")).map(str::to_owned).collect();
            told.sort();
            told
        };
        for arguments in [["here", &there], [&there, "here"]] {
            let checked = fixture.haul(&[&["check"], &arguments[..], &["--links", links, "--download"]].concat());
            printed(&checked);
            assert_eq!(warnings(&checked), warnings(&synced));
            assert_eq!(warnings(&checked).len(), 8);
        }
    }
    assert!(fs::symlink_metadata(fixture.served("there/to-folder")).unwrap().is_dir(), "links were followed");

    // Remote entries under the names of skipped files are neither missing nor different.
    write(&fixture.served("there"), &[("socket/deep/x", ""), ("dangling", ""), ("d/pipe", "")]);
    let checked = fixture.haul(&["check", "here", &there]);
    printed(&checked);
    printed(&fixture.haul(&["check", &there, "here"]));
    write(&fixture.served("there"), &[("d/other", "")]);
    let checked = fixture.haul(&["check", "here", &there]);
    assert_eq!((checked.status.code(), text(&checked.stdout)), (Some(1), "missing in FROM: d/other\n".into()));
    let local = fixture.haul(&["check", "here", "here"]);
    printed(&local);
}

#[test]
fn check_after_sync_with_the_same_filters_finds_no_difference() {
    let fixture = Fixture::new();
    write(&fixture.path("here"), &[("a", "1"), ("long", "12345678"), (".x.0123456789abcdef.part", "half")]);
    write(&fixture.served("there"), &[("long", "1"), ("a", "123456789"), (".y.0123456789abcdef.part", "half")]);
    let there = fixture.at("there");
    let filter = ["--max-size", "5B"];
    printed(&fixture.haul(&[&["sync", "here", &there, "--delete"], &filter[..]].concat()));
    for (from, to) in [("here", there.as_str()), (&there, "here")] {
        let checked = fixture.haul(&[&["check", from, to], &filter[..]].concat());
        assert_eq!(text(&checked.stdout), if from == "here" { "" } else { "differs: long: 1 byte in FROM, 8 in TO\n" });
    }
    // An unreadable folder is a failure, and its contents are not reported.
    let broken = fixture.haul(&["check", "here/a", &there]);
    assert!(broken.status.code() == Some(1) && text(&broken.stdout).is_empty());
}
