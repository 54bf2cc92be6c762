//! `sync` from one server to another, and between folders of one server.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;

use crate::{
    common::{Running, eventually, one_sentence, printed, text},
    fixture::{Fixture, json, tree, write},
};

/// Sets the times of all files below a folder back by an hour.
fn age(root: &Path) {
    let time = SystemTime::now() - Duration::from_hours(1);
    for name in tree(root).keys().filter(|name| !name.ends_with('/')) {
        fs::File::options().append(true).open(root.join(name)).unwrap().set_modified(time).unwrap();
    }
}

fn last_line(output: &std::process::Output) -> String {
    text(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// A tree with odd names, an empty folder, and a file too large to be held in memory.
fn grow(fixture: &Fixture) {
    let root = fixture.served("source");
    write(&root, &[("a", "1"), ("ü b/#?%41+;", "odd"), ("none", ""), ("x/y/z", "deep"), ("e\u{301}/.dot", "2")]);
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("big"), (0..251).collect::<Vec<u8>>().repeat(36_000)).unwrap();
    age(&root);
}

#[test]
fn sync_between_servers_makes_an_exact_mirror_and_check_agrees() {
    let (fixture, other) = (Fixture::new(), Fixture::secured(&[]));
    let ca = ["--ca", &other.path("cert.pem").display().to_string()];
    let (from, to) = (fixture.at("source"), other.at("mirror"));
    let sync = |options: &[&str]| fixture.haul(&[&["sync", &from, &to], &ca[..], options].concat());
    let check = || fixture.haul(&[&["check", &from, &to, "--download"], &ca[..]].concat());
    grow(&fixture);
    let first = sync(&["--json", "first.json"]);
    printed(&first);
    let said = json(&fs::read(fixture.path("first.json")).unwrap(), "sync");
    assert_eq!((&said["files"], &said["skipped"], &said["folders"]), (&6.into(), &0.into(), &6.into()));
    assert!(tree(&fixture.served("source")) == tree(&other.served("mirror")));
    assert!(last_line(&sync(&[])).starts_with("haul: 0 files (0 B) copied; 6 "));
    printed(&check());

    write(&fixture.served("source"), &[("new", "n"), ("a", "22")]);
    fs::remove_dir_all(fixture.served("source/x")).unwrap();
    write(&other.served("mirror"), &[("extra/deep/er", ""), ("x/y/mine", "")]);
    let before = tree(&other.served("mirror"));
    let would = sync(&["--delete", "--dry-run"]);
    let mut lines: Vec<_> = printed(&would).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["copy /source/a", "copy /source/new", "delete /mirror/extra/", "delete /mirror/x/"]);
    assert!(before == tree(&other.served("mirror")), "a dry run changes nothing");
    let refused = sync(&["--delete", "--max-delete", "2"]);
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("would be deleted"));
    assert_eq!(check().status.code(), Some(1));
    let told = text(&sync(&["--delete", "-v"]).stderr);
    for line in ["haul: deleted /mirror/x/", "haul: deleted /mirror/extra/"] {
        assert_eq!(told.lines().filter(|told| *told == line).count(), 1, "{told}");
    }
    assert!(tree(&fixture.served("source")) == tree(&other.served("mirror")));
    printed(&check());
    assert_eq!(other.requests("PUT"), 8, "no file went twice");
}

#[test]
fn sync_between_two_folders_of_a_server_is_refused_where_they_overlap() {
    let fixture = Fixture::new();
    grow(&fixture);
    let before = tree(&fixture.served("."));
    for (from, to, why) in [
        ("source", "source", "the source itself"),
        ("source/", "source/x/", "inside the source folder"),
        ("source/x", "source", "contains the source folder"),
        ("source", "", "contains the source folder"),
    ] {
        let told = one_sentence(&fixture.haul(&["sync", &fixture.at(from), &fixture.at(to), "--delete"]), 1);
        assert!(told.contains(why), "{told}");
    }
    assert!(tree(&fixture.served(".")) == before);
    printed(&fixture.haul(&["sync", &fixture.at("source"), &fixture.at("copy"), "--header", "X-Key: one server"]));
    assert!(tree(&fixture.served("source")) == tree(&fixture.served("copy")));
}

#[test]
fn usage_errors_are_reported_before_any_change() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    grow(&fixture);
    let to = other.at("to");
    for (arguments, code, said) in [
        (vec![fixture.at("nothing"), to.clone()], 1, "nothing"),
        (vec![fixture.at("source/a"), to.clone()], 1, "haul cp"),
        (vec![fixture.at("source"), to.clone(), "--header".into(), "X-Key: hunter2".into()], 2, "settings file"),
        (
            vec![fixture.at("source"), to.clone(), "--delete".into(), "--backup-dir".into(), "here".into()],
            2,
            "same side as TO",
        ),
    ] {
        let ended = fixture.haul(&[vec!["sync".to_owned()], arguments].concat());
        let told = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{told}");
        assert!(told.contains(said) && !told.contains("hunter2"), "{told}");
    }
    assert!(tree(&other.served(".")).is_empty());
    let kept = fixture.haul(&["sync", &fixture.at("source"), &to, "--delete", "--backup-dir", &other.at("kept")]);
    printed(&kept);
    write(&fixture.served("source"), &[("a", "new content")]);
    fs::remove_file(fixture.served("source/none")).unwrap();
    printed(&fixture.haul(&["sync", &fixture.at("source"), &to, "--delete", "--backup-dir", &other.at("kept")]));
    assert_eq!(tree(&other.served("kept")).into_keys().collect::<Vec<_>>(), ["a", "none"]);
}

#[test]
fn interrupted_sync_continues_and_leaves_nothing_behind() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    for number in 0..12 {
        let folder = fixture.served(&format!("source/{}", number % 3));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(number.to_string()), vec![number; 6_000_000]).unwrap();
    }
    age(&fixture.served("source"));
    let arguments = ["sync", &fixture.at("source"), &other.at("to"), "--delete", "--temporary", "--bwlimit", "30M"];
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut command = fixture.command(&arguments);
        command.stderr(std::process::Stdio::null());
        let had = other.requests("PUT");
        let mut running = Running::start(command);
        assert!(eventually(|| other.requests("PUT") > had));
        running.send(signal);
        let _ = running.status();
        for name in tree(&fixture.served("source")).into_keys().filter(|name| !name.ends_with('/')) {
            let content = fs::read(other.served("to").join(&name)).ok();
            let is_whole =
                content.is_none_or(|content| fs::read(fixture.served("source").join(&name)).unwrap() == content);
            assert!(is_whole, "{name} is half there");
        }
    }
    printed(&fixture.haul(&arguments[..4]));
    for (name, content) in tree(&fixture.served("source")).into_iter().filter(|(name, _)| !name.ends_with('/')) {
        assert!(fs::read(other.served("to").join(&name)).unwrap() == content, "{name}");
    }
    // Temporary names of the killed run are swept when they are old.
    let left = tree(&other.served("to")).into_keys().filter(|name| !name.ends_with('/') && !name.contains("/."));
    assert_eq!(left.count(), 12);
}

#[test]
fn second_attempt_does_the_rest_and_deletes() {
    use std::os::unix::fs::PermissionsExt;
    let (fixture, other) = (Fixture::new(), Fixture::new());
    write(&fixture.served("source"), &[("a", "1"), ("d/b", "2")]);
    write(&other.served("to"), &[("extra", "")]);
    let lock = |mode| fs::set_permissions(fixture.served("source/d"), fs::Permissions::from_mode(mode)).unwrap();
    lock(0o000);
    // Root may read everything.
    let is_locked = fs::read_dir(fixture.served("source/d")).is_err();
    let ended = fixture.haul(&["sync", &fixture.at("source"), &other.at("to"), "--delete", "--retries", "2"]);
    lock(0o755);
    assert!(!is_locked || ended.status.code() == Some(1), "{}", text(&ended.stderr));
    assert!(!is_locked || tree(&other.served("to")).contains_key("extra"), "nothing is deleted after an error");
    printed(&fixture.haul(&["sync", &fixture.at("source"), &other.at("to"), "--delete", "--retries", "2"]));
    assert!(tree(&fixture.served("source")) == tree(&other.served("to")));
}
