//! `cp` and `sync` between a local folder and a server.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;

use crate::{
    common::{Running, eventually, one_sentence, printed, text},
    fixture::{Fixture, json, tree, write},
};

/// A tree with many small files, odd names, an empty folder and a file that is transferred in parts.
fn grow(fixture: &Fixture) {
    let names: Vec<String> = (0..60).map(|number| format!("many/{number:02}")).collect();
    let source = fixture.path("source");
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
fn tree_is_uploaded_and_downloaded_unchanged() {
    let fixture = Fixture::secured(&[]);
    grow(&fixture);
    for way in
        [&["--http", "1.1"][..], &["--http", "2"], &["--http", "3"], &["--pipeline", "off", "--connections", "1"]]
    {
        let with = |arguments: &[&str]| fixture.haul(&[arguments, way, &["--ca", "cert.pem"]].concat());
        let there = fixture.at("there");
        let up = with(&["cp", "-r", "source", &there, "--json", "up.json"]);
        printed(&up);
        assert!(last_line(&up).starts_with("haul: 64 files (8.6 MiB) copied in "), "{}", last_line(&up));
        let found = json(&fs::read(fixture.path("up.json")).unwrap(), "cp");
        assert_eq!((&found["files"], &found["dry_run"]), (&64.into(), &false.into()));
        assert!(tree(&fixture.path("source")) == tree(&fixture.served("there")), "{way:?}");
        printed(&with(&["cp", "-r", &there, "back"]));
        assert!(tree(&fixture.path("source")) == tree(&fixture.path("back")), "{way:?}");
        printed(&with(&["rm", "-r", &there]));
        fs::remove_dir_all(fixture.path("back")).unwrap();
    }
}

#[test]
fn small_files_take_one_request_each() {
    let fixture = Fixture::new();
    grow(&fixture);
    printed(&fixture.haul(&["cp", "-r", "source", &fixture.at("there")]));
    assert_eq!((fixture.requests("PUT"), fixture.requests("MKCOL"), fixture.requests("LOCK")), (64, 6, 0));
}

#[test]
fn file_is_copied_into_a_folder_or_under_a_new_name() {
    let fixture = Fixture::new();
    write(&fixture.path("."), &[("a", "1"), ("b", "2"), ("dir/c", "3")]);
    printed(&fixture.haul(&["mkdir", &fixture.at("into")]));
    printed(&fixture.haul(&["cp", "a", "b", &fixture.at("into")]));
    printed(&fixture.haul(&["cp", "a", &fixture.at("named")]));
    printed(&fixture.haul(&["cp", "-r", "dir", &fixture.at("into")]));
    let there: Vec<_> = tree(&fixture.path("served")).into_keys().collect();
    assert_eq!(there, ["into/", "into/a", "into/b", "into/dir/", "into/dir/c", "named"]);
    printed(&fixture.haul(&["cp", &fixture.at("named"), &fixture.at("into/b"), "dir"]));
    assert_eq!(tree(&fixture.path("dir")).into_keys().collect::<Vec<_>>(), ["b", "c", "named"]);
    for (arguments, said) in [
        (["cp", "dir", &fixture.at("into")], "-r"),
        (["cp", "nothing", &fixture.at("into")], "nothing"),
        (["cp", &fixture.at("into"), "."], "-r"),
        (["cp", &fixture.at("none"), "."], "/none"),
    ] {
        let told = one_sentence(&fixture.haul(&arguments), 1);
        assert!(told.contains(said), "{told}");
    }
}

#[test]
fn locks_staging_and_digests_are_used_on_request() {
    let fixture = Fixture::new();
    write(&fixture.path("."), &[("a", "one")]);
    printed(&fixture.haul(&["cp", "a", &fixture.at("a"), "--temporary", "--verify", "digest"]));
    assert_eq!((fixture.requests("MOVE"), fixture.requests("LOCK")), (1, 0));
    printed(&fixture.haul(&["cp", "a", &fixture.at("a"), "--lock", "edit", "--verify", "none", "--temporary=no"]));
    assert_eq!((fixture.requests("LOCK"), fixture.requests("UNLOCK"), fixture.requests("MOVE")), (1, 1, 1));
    let mut locked = fixture.command(&["cp", "a", &fixture.at("b")]);
    printed(&crate::common::output({
        locked.env("HAUL_LOCK", "always");
        locked
    }));
    assert_eq!((fixture.requests("LOCK"), fixture.requests("UNLOCK")), (2, 2));
    assert_eq!(tree(&fixture.path("served")).into_keys().collect::<Vec<_>>(), ["a", "b"]);
}

/// The times of a tree's files, in seconds.
fn times(root: &Path) -> BTreeMap<String, u64> {
    let seconds = |name: &String| {
        let modified = fs::metadata(root.join(name)).unwrap().modified().unwrap();
        modified.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    };
    tree(root).into_keys().filter(|name| !name.ends_with('/')).map(|name| (name.clone(), seconds(&name))).collect()
}

#[test]
fn copied_tree_keeps_its_times_there_and_back() {
    let fixture = Fixture::new();
    grow(&fixture);
    for (day, name) in (1..).zip(times(&fixture.path("source")).keys()) {
        let then = SystemTime::UNIX_EPOCH + Duration::from_hours(400_000 + 24 * day);
        fs::File::options().append(true).open(fixture.path("source").join(name)).unwrap().set_modified(then).unwrap();
    }
    let there = fixture.at("there");
    printed(&fixture.haul(&["cp", "-r", "source", &there, "--temporary"]));
    printed(&fixture.haul(&["cp", "-r", &there, "back"]));
    let [source, served, back] =
        [fixture.path("source"), fixture.served("there"), fixture.path("back")].map(|root| times(&root));
    assert_eq!(source.len(), 64);
    assert_eq!(source, served);
    assert_eq!(source, back);
}

#[test]
fn older_version_of_equal_length_is_copied_again() {
    let fixture = Fixture::new();
    write(&fixture.path("source"), &[("a", "new")]);
    printed(&fixture.haul(&["cp", "-r", "source", &fixture.at("there")]));
    write(&fixture.path("there"), &[("a", "old")]);
    let then = SystemTime::now() - Duration::from_hours(24);
    fs::File::options().append(true).open(fixture.path("there/a")).unwrap().set_modified(then).unwrap();
    printed(&fixture.haul(&["cp", "-r", "there", &fixture.url, "--resume"]));
    assert_eq!(fs::read_to_string(fixture.served("there/a")).unwrap(), "old");
}

#[test]
fn resumed_copy_keeps_complete_files() {
    let fixture = Fixture::new();
    grow(&fixture);
    printed(&fixture.haul(&["cp", "-r", "source", &fixture.at("there")]));
    fs::remove_file(fixture.served("there/many/07")).unwrap();
    fs::write(fixture.served("there/many/08"), "cut").unwrap();
    // As with cp(1), an existing folder is copied into, so the same target has another path now.
    fs::create_dir(fixture.path("all")).unwrap();
    fs::rename(fixture.path("source"), fixture.path("all/there")).unwrap();
    let before = fixture.requests("PUT");
    let resumed = fixture.haul(&["cp", "-r", "all/there", &fixture.url, "--resume"]);
    printed(&resumed);
    assert!(last_line(&resumed).contains("62 skipped"), "{}", last_line(&resumed));
    assert_eq!(fixture.requests("PUT"), before + 2);
    assert!(tree(&fixture.path("all/there")) == tree(&fixture.served("there")));
}

#[test]
fn sync_makes_the_target_equal() {
    let fixture = Fixture::new();
    grow(&fixture);
    let there = fixture.at("mirror");
    printed(&fixture.haul(&["sync", "source", &there]));
    assert!(tree(&fixture.path("source")) == tree(&fixture.served("mirror")));
    let again = fixture.haul(&["sync", "source", &there]);
    assert_eq!(last_line(&again), "haul: 0 files (0 B) copied; 64 skipped");

    write(&fixture.path("source"), &[("new", "n"), ("many/03", "longer than before")]);
    fs::remove_dir_all(fixture.path("source/x")).unwrap();
    let later = SystemTime::now() + Duration::from_mins(1);
    fs::File::options().append(true).open(fixture.path("source/many/04")).unwrap().set_modified(later).unwrap();
    let before = tree(&fixture.served("mirror"));
    let would = fixture.haul(&["sync", "source", &there, "--delete", "--dry-run"]);
    let mut lines: Vec<_> = printed(&would).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["copy source/many/03", "copy source/many/04", "copy source/new", "delete /mirror/x/"]);
    assert!(last_line(&would).starts_with("haul: 3 files (") && last_line(&would).contains("1 would be deleted"));
    assert!(before == tree(&fixture.served("mirror")), "a dry run changes nothing");

    printed(&fixture.haul(&["sync", "source", &there]));
    assert!(fixture.served("mirror/x/y/z").exists(), "nothing is deleted unasked");
    printed(&fixture.haul(&["sync", "source", &there, "--delete"]));
    assert!(tree(&fixture.path("source")) == tree(&fixture.served("mirror")));
}

#[test]
fn sync_to_a_local_folder_makes_it_equal() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("a/x", "1"), ("a/sub/y", "2")]);
    printed(&fixture.haul(&["sync", &fixture.at("a"), "here"]));
    assert!(tree(&fixture.path("here")) == tree(&fixture.served("a")));
    write(&fixture.path("here"), &[("extra", ""), ("more/z", "")]);
    write(&fixture.path("served"), &[("a/x", "other")]);
    let would = fixture.haul(&["sync", &fixture.at("a"), "here", "--delete", "--dry-run", "--json", "-"]);
    let found = json(printed(&would).as_bytes(), "sync");
    assert_eq!((&found["dry_run"], &found["files"], &found["deleted"]), (&true.into(), &1.into(), &2.into()));
    assert_eq!(found["changes"].as_array().unwrap().len(), 3);
    printed(&fixture.haul(&["sync", &fixture.at("a"), "here", "--delete"]));
    assert!(tree(&fixture.path("here")) == tree(&fixture.served("a")));
}

#[test]
fn entry_of_another_kind_is_reported_once_and_kept() {
    let fixture = Fixture::new();
    write(&fixture.path("source"), &[("a/1", ""), ("a/2", ""), ("a/3", ""), ("b", ""), ("c", "")]);
    write(&fixture.path("served"), &[("there/a", "mine"), ("there/b/x", "mine")]);
    let ended = fixture.haul(&["sync", "source", &fixture.at("there"), "--json", "up.json"]);
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
    assert!(lines[2].ends_with("5 failed") && tree(&fixture.served("there")).contains_key("b/x"), "{told}");
    let failed = json(&fs::read(fixture.path("up.json")).unwrap(), "sync")["failed"].as_array().unwrap().len();
    assert_eq!(failed, 5);

    write(&fixture.path("here"), &[("there/b", "mine"), ("there/a/1", "mine")]);
    let told = text(&fixture.haul(&["sync", &fixture.at("there"), "here/there"]).stderr);
    assert!(
        told.contains("here/there/b: a file of this name") && told.contains("here/there/a: a folder of this name"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(fixture.path("here/there/a/1")).unwrap(), "mine");
    assert!(told.contains("sync --delete"), "{told}");

    printed(&fixture.haul(&["sync", &fixture.at("there"), "here/there", "--delete"]));
    assert!(tree(&fixture.path("here/there")) == tree(&fixture.served("there")));
    printed(&fixture.haul(&["sync", "source", &fixture.at("there"), "--delete"]));
    assert!(tree(&fixture.path("source")) == tree(&fixture.served("there")));
}

#[test]
fn links_and_pipes_are_skipped_and_do_not_prevent_deletions() {
    let fixture = Fixture::new();
    write(&fixture.path("source"), &[("a/1", "1"), ("b", "2")]);
    write(&fixture.path("served"), &[("there/gone", "old")]);
    std::os::unix::fs::symlink("a", fixture.path("source/link")).unwrap();
    nix::unistd::mkfifo(&fixture.path("source/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ended = fixture.haul(&["sync", "source", &fixture.at("there"), "--delete"]);
    printed(&ended);
    let told = text(&ended.stderr);
    assert!(told.contains("haul: source/link: skipped: it is a symbolic link (`--links follow"), "{told}");
    assert!(told.contains("haul: source/pipe: skipped: it is a FIFO"), "{told}");
    assert_eq!(tree(&fixture.served("there")).into_keys().collect::<Vec<_>>(), ["a/", "a/1", "b"]);
    printed(&fixture.haul(&["sync", "source", &fixture.at("there"), "--delete", "--links", "follow"]));
    assert_eq!(tree(&fixture.served("there")).into_keys().collect::<Vec<_>>(), ["a/", "a/1", "b", "link/", "link/1"]);
}

#[test]
fn sync_interrupted_in_a_large_file_resumes_it() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.served("a")).unwrap();
    let content = (0..251).collect::<Vec<u8>>().repeat(240_000);
    fs::write(fixture.served("a/big"), &content).unwrap();
    fs::create_dir(fixture.path("here")).unwrap();
    let arguments = ["sync", &fixture.at("a"), "here", "--resume", "--delete", "--connections", "1"];
    let parts = || fs::read_dir(fixture.path("here")).unwrap().flatten().filter(|entry| entry.file_name() != "big");
    let begun = || parts().any(|entry| entry.metadata().is_ok_and(|about| about.len() > 4_000_000));
    let mut command = fixture.command(&arguments);
    command.stderr(std::process::Stdio::null());
    let mut running = Running::start(command);
    assert!(eventually(begun));
    running.send(Signal::SIGINT);
    // A fast machine may have finished before the interrupt.
    if running.status().code() == Some(1) {
        assert!(begun(), "what had come is gone");
    }
    printed(&fixture.haul(&arguments));
    assert!(fs::read(fixture.path("here/big")).unwrap() == content && parts().next().is_none());
}

#[test]
fn control_characters_in_names_are_escaped() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("there/e\x1b[2J/x", "1")]);
    write(&fixture.path("here"), &[("there/e\x1b[2J", "mine")]);
    let told = text(&fixture.haul(&["cp", "-r", &fixture.at("there"), "here"]).stderr);
    assert!(told.contains("here/there/e\\u{1b}[2J") && !told.contains('\x1b'), "{told:?}");
}
