//! `cp` and `sync`, between here and a server.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;

use crate::{
    common::{Running, eventually, one_sentence, printed, text},
    place::{Place, json, tree, write},
};

/// A tree with many small files, odd names, an empty folder and a file that is moved in parts.
fn grow(place: &Place) {
    let names: Vec<String> = (0..60).map(|number| format!("many/{number:02}")).collect();
    let source = place.path("source");
    write(&source, &names.iter().map(|name| (name.as_str(), name.as_str())).collect::<Vec<_>>());
    write(&source, &[("ü b/#?%41+;", "odd"), ("none", ""), ("x/y/z", "deep")]);
    fs::create_dir(source.join("empty")).unwrap();
    let big = (0..253).collect::<Vec<u8>>().repeat(35_573);
    fs::write(source.join("big"), big).unwrap();
}

fn last_line(output: &std::process::Output) -> String {
    text(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_tree_goes_there_and_comes_back() {
    let place = Place::secured(&[]);
    grow(&place);
    for way in
        [&["--http", "1.1"][..], &["--http", "2"], &["--http", "3"], &["--pipeline", "off", "--connections", "1"]]
    {
        let with = |arguments: &[&str]| place.haul(&[arguments, way, &["--ca", "cert.pem"]].concat());
        let there = place.at("there");
        let up = with(&["cp", "-r", "source", &there, "--json", "up.json"]);
        printed(&up);
        assert!(last_line(&up).starts_with("haul: 64 files (8.6 MiB) copied in "), "{}", last_line(&up));
        let found = json(&fs::read(place.path("up.json")).unwrap(), "cp");
        assert_eq!((&found["files"], &found["dry_run"]), (&64.into(), &false.into()));
        assert!(tree(&place.path("source")) == tree(&place.served("there")), "{way:?}");
        printed(&with(&["cp", "-r", &there, "back"]));
        assert!(tree(&place.path("source")) == tree(&place.path("back")), "{way:?}");
        printed(&with(&["rm", "-r", &there]));
        fs::remove_dir_all(place.path("back")).unwrap();
    }
}

#[test]
fn many_small_files_are_one_request_each() {
    let place = Place::new();
    grow(&place);
    printed(&place.haul(&["cp", "-r", "source", &place.at("there")]));
    assert_eq!((place.requests("PUT"), place.requests("MKCOL"), place.requests("LOCK")), (64, 6, 0));
}

#[test]
fn files_go_into_a_folder_or_get_its_name() {
    let place = Place::new();
    write(&place.path("."), &[("a", "1"), ("b", "2"), ("dir/c", "3")]);
    printed(&place.haul(&["mkdir", &place.at("into")]));
    printed(&place.haul(&["cp", "a", "b", &place.at("into")]));
    printed(&place.haul(&["cp", "a", &place.at("named")]));
    printed(&place.haul(&["cp", "-r", "dir", &place.at("into")]));
    let there: Vec<_> = tree(&place.path("served")).into_keys().collect();
    assert_eq!(there, ["into/", "into/a", "into/b", "into/dir/", "into/dir/c", "named"]);
    printed(&place.haul(&["cp", &place.at("named"), &place.at("into/b"), "dir"]));
    assert_eq!(tree(&place.path("dir")).into_keys().collect::<Vec<_>>(), ["b", "c", "named"]);
    for (arguments, said) in [
        (["cp", "dir", &place.at("into")], "-r"),
        (["cp", "nothing", &place.at("into")], "nothing"),
        (["cp", &place.at("into"), "."], "-r"),
        (["cp", &place.at("none"), "."], "/none"),
    ] {
        let told = one_sentence(&place.haul(&arguments), 1);
        assert!(told.contains(said), "{told}");
    }
}

#[test]
fn locks_temporary_names_and_digests_are_there_if_asked_for() {
    let place = Place::new();
    write(&place.path("."), &[("a", "one")]);
    printed(&place.haul(&["cp", "a", &place.at("a"), "--temporary", "--verify", "digest"]));
    assert_eq!((place.requests("MOVE"), place.requests("LOCK")), (1, 0));
    printed(&place.haul(&["cp", "a", &place.at("a"), "--lock", "edit", "--verify", "none", "--temporary=no"]));
    assert_eq!((place.requests("LOCK"), place.requests("UNLOCK"), place.requests("MOVE")), (1, 1, 1));
    let mut locked = place.command(&["cp", "a", &place.at("b")]);
    printed(&crate::common::output({
        locked.env("HAUL_LOCK", "always");
        locked
    }));
    assert_eq!((place.requests("LOCK"), place.requests("UNLOCK")), (2, 2));
    assert_eq!(tree(&place.path("served")).into_keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn what_is_there_already_stays_when_a_copy_is_resumed() {
    let place = Place::new();
    grow(&place);
    printed(&place.haul(&["cp", "-r", "source", &place.at("there")]));
    fs::remove_file(place.served("there/many/07")).unwrap();
    fs::write(place.served("there/many/08"), "cut").unwrap();
    // As with cp(1), a folder that is there is one to copy into: the same place has another name now.
    fs::create_dir(place.path("all")).unwrap();
    fs::rename(place.path("source"), place.path("all/there")).unwrap();
    let before = place.requests("PUT");
    let resumed = place.haul(&["cp", "-r", "all/there", &place.url, "--resume"]);
    printed(&resumed);
    assert!(last_line(&resumed).contains("62 skipped"), "{}", last_line(&resumed));
    assert_eq!(place.requests("PUT"), before + 2);
    assert!(tree(&place.path("all/there")) == tree(&place.served("there")));
}

#[test]
fn a_mirror_becomes_what_it_mirrors() {
    let place = Place::new();
    grow(&place);
    let there = place.at("mirror");
    printed(&place.haul(&["sync", "source", &there]));
    assert!(tree(&place.path("source")) == tree(&place.served("mirror")));
    let again = place.haul(&["sync", "source", &there]);
    assert_eq!(last_line(&again), "haul: 0 files (0 B) copied; 64 skipped");

    write(&place.path("source"), &[("new", "n"), ("many/03", "longer than before")]);
    fs::remove_dir_all(place.path("source/x")).unwrap();
    let later = SystemTime::now() + Duration::from_mins(1);
    fs::File::options().append(true).open(place.path("source/many/04")).unwrap().set_modified(later).unwrap();
    let before = tree(&place.served("mirror"));
    let would = place.haul(&["sync", "source", &there, "--delete", "--dry-run"]);
    let mut lines: Vec<_> = printed(&would).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["copy source/many/03", "copy source/many/04", "copy source/new", "delete /mirror/x/"]);
    assert!(last_line(&would).starts_with("haul: 3 files (") && last_line(&would).contains("1 would be deleted"));
    assert!(before == tree(&place.served("mirror")), "a dry run changes nothing");

    printed(&place.haul(&["sync", "source", &there]));
    assert!(place.served("mirror/x/y/z").exists(), "nothing is deleted unasked");
    printed(&place.haul(&["sync", "source", &there, "--delete"]));
    assert!(tree(&place.path("source")) == tree(&place.served("mirror")));
}

#[test]
fn a_mirror_here_is_made_in_the_same_way() {
    let place = Place::new();
    write(&place.path("served"), &[("a/x", "1"), ("a/sub/y", "2")]);
    printed(&place.haul(&["sync", &place.at("a"), "here"]));
    assert!(tree(&place.path("here")) == tree(&place.served("a")));
    write(&place.path("here"), &[("extra", ""), ("more/z", "")]);
    write(&place.path("served"), &[("a/x", "other")]);
    let would = place.haul(&["sync", &place.at("a"), "here", "--delete", "--dry-run", "--json", "-"]);
    let found = json(printed(&would).as_bytes(), "sync");
    assert_eq!((&found["dry_run"], &found["files"], &found["deleted"]), (&true.into(), &1.into(), &2.into()));
    assert_eq!(found["changes"].as_array().unwrap().len(), 3);
    printed(&place.haul(&["sync", &place.at("a"), "here", "--delete"]));
    assert!(tree(&place.path("here")) == tree(&place.served("a")));
}

#[test]
fn what_is_in_the_way_is_named_once_and_stays() {
    let place = Place::new();
    write(&place.path("source"), &[("a/1", ""), ("a/2", ""), ("a/3", ""), ("b", ""), ("c", "")]);
    write(&place.path("served"), &[("there/a", "mine"), ("there/b/x", "mine")]);
    let ended = place.haul(&["sync", "source", &place.at("there"), "--json", "up.json"]);
    let told = text(&ended.stderr);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!((ended.status.code(), lines.len()), (Some(1), 3), "{told}");
    for (path, what) in [
        ("/there/a/", "a file on the server and a folder here"),
        ("/there/b", "a folder on the server and a file here"),
    ] {
        let line = format!("haul: {path}: it is {what}");
        assert_eq!(lines.iter().filter(|told| told.starts_with(&line)).count(), 1, "{told}");
    }
    assert!(lines[2].ends_with("5 failed") && tree(&place.served("there")).contains_key("b/x"), "{told}");
    let failed = json(&fs::read(place.path("up.json")).unwrap(), "sync")["failed"].as_array().unwrap().len();
    assert_eq!(failed, 5);

    write(&place.path("here"), &[("there/b", "mine"), ("there/a/1", "mine")]);
    let told = text(&place.haul(&["sync", &place.at("there"), "here/there"]).stderr);
    assert!(
        told.contains("here/there/b: a file of this name") && told.contains("here/there/a: a folder of this name"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(place.path("here/there/a/1")).unwrap(), "mine");
    assert!(told.contains("sync --delete"), "{told}");

    printed(&place.haul(&["sync", &place.at("there"), "here/there", "--delete"]));
    assert!(tree(&place.path("here/there")) == tree(&place.served("there")));
    printed(&place.haul(&["sync", "source", &place.at("there"), "--delete"]));
    assert!(tree(&place.path("source")) == tree(&place.served("there")));
}

#[test]
fn links_and_pipes_are_skipped_with_a_warning_and_do_not_stop_deletions() {
    let place = Place::new();
    write(&place.path("source"), &[("a/1", "1"), ("b", "2")]);
    write(&place.path("served"), &[("there/gone", "old")]);
    std::os::unix::fs::symlink("a", place.path("source/link")).unwrap();
    nix::unistd::mkfifo(&place.path("source/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ended = place.haul(&["sync", "source", &place.at("there"), "--delete"]);
    printed(&ended);
    let told = text(&ended.stderr);
    assert!(told.contains("haul: source/link: skipped: it is a symbolic link (`--links follow"), "{told}");
    assert!(told.contains("haul: source/pipe: skipped: it is a FIFO"), "{told}");
    assert_eq!(tree(&place.served("there")).into_keys().collect::<Vec<_>>(), ["a/", "a/1", "b"]);
    printed(&place.haul(&["sync", "source", &place.at("there"), "--delete", "--links", "follow"]));
    assert_eq!(tree(&place.served("there")).into_keys().collect::<Vec<_>>(), ["a/", "a/1", "b", "link/", "link/1"]);
}

#[test]
fn a_mirror_that_was_interrupted_in_a_large_file_goes_on_in_it() {
    let place = Place::new();
    fs::create_dir(place.served("a")).unwrap();
    let content = (0..251).collect::<Vec<u8>>().repeat(240_000);
    fs::write(place.served("a/big"), &content).unwrap();
    fs::create_dir(place.path("here")).unwrap();
    let arguments = ["sync", &place.at("a"), "here", "--resume", "--delete", "--connections", "1"];
    let parts = || fs::read_dir(place.path("here")).unwrap().flatten().filter(|entry| entry.file_name() != "big");
    let begun = || parts().any(|entry| entry.metadata().is_ok_and(|about| about.len() > 4_000_000));
    let mut command = place.command(&arguments);
    command.stderr(std::process::Stdio::null());
    let mut running = Running::start(command);
    assert!(eventually(begun));
    running.send(Signal::SIGINT);
    // On a quick machine it may have been done by then.
    if running.status().code() == Some(1) {
        assert!(begun(), "what had come is gone");
    }
    printed(&place.haul(&arguments));
    assert!(fs::read(place.path("here/big")).unwrap() == content && parts().next().is_none());
}

#[test]
fn a_name_that_a_terminal_would_obey_is_told_harmlessly() {
    let place = Place::new();
    write(&place.path("served"), &[("there/e\x1b[2J/x", "1")]);
    write(&place.path("here"), &[("there/e\x1b[2J", "mine")]);
    let told = text(&place.haul(&["cp", "-r", &place.at("there"), "here"]).stderr);
    assert!(told.contains("here/there/e\\u{1b}[2J") && !told.contains('\x1b'), "{told:?}");
}
