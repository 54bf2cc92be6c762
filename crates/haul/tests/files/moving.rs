//! `mv` between this machine and a server, and between servers.

use std::{fs, os::unix::fs::symlink, process::Stdio};

use nix::sys::signal::Signal;

use crate::{
    common::{Running, eventually, one_sentence, printed, text},
    fixture::{Fixture, json, tree, write},
};

const FILES: [(&str, &str); 4] = [("a", "1"), ("ü b/#?%41+;*[1]", "odd"), ("x/y/z", "deep"), ("none", "")];

#[test]
fn folder_is_moved_to_a_server_and_back() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    write(&fixture.path("here"), &FILES);
    fs::create_dir(fixture.path("here/empty")).unwrap();
    let before = tree(&fixture.path("here"));
    let would = printed(&fixture.haul(&["mv", "-n", "here", &fixture.at("there")]));
    assert!(would.contains("move here/a\n") && before == tree(&fixture.path("here")), "{would}");
    assert!(tree(&fixture.path("served")).is_empty());

    let up = fixture.haul(&["mv", "here", &fixture.at("there"), "--json", "up.json"]);
    printed(&up);
    assert!(text(&up.stderr).contains("4 files (8 B) moved in "), "{}", text(&up.stderr));
    assert!(before == tree(&fixture.served("there")) && !fixture.path("here").exists());
    let found = json(&fs::read(fixture.path("up.json")).unwrap(), "mv");
    assert_eq!((&found["files"], &found["changes"][0]["did"]), (&4.into(), &"made".into()));

    printed(&fixture.haul(&["mv", &fixture.at("there"), &other.at("across")]));
    assert!(before == tree(&other.served("across")) && !fixture.served("there").exists());

    printed(&fixture.haul(&["mv", &other.at("across"), "back"]));
    assert!(before == tree(&fixture.path("back")) && tree(&other.path("served")).is_empty());
}

#[test]
fn files_move_into_a_folder_and_replace_files_there() {
    let fixture = Fixture::new();
    write(&fixture.path("."), &[("one", "1"), ("two", "2"), ("here/x", "")]);
    write(&fixture.path("served"), &[("dir/one", "old"), ("p/a.jpg", "a"), ("p/b.jpg", "b"), ("p/c.txt", "c")]);
    printed(&fixture.haul(&["mv", "one", "two", &fixture.at("dir")]));
    assert_eq!(fs::read_to_string(fixture.served("dir/one")).unwrap(), "1");
    assert!(fixture.served("dir/two").exists() && !fixture.path("one").exists() && !fixture.path("two").exists());
    printed(&fixture.haul(&["mv", &fixture.at("p/*.jpg"), "here"]));
    assert_eq!(tree(&fixture.path("here")).into_keys().collect::<Vec<_>>(), ["a.jpg", "b.jpg", "x"]);
    assert_eq!(tree(&fixture.served("p")).into_keys().collect::<Vec<_>>(), ["c.txt"]);
    printed(&fixture.haul(&["mv", &fixture.at("p/*"), &fixture.at("dir")]));
    assert!(fixture.served("dir/c.txt").exists() && fixture.served("p").exists());
}

#[test]
fn source_that_cannot_be_moved_whole_stays() {
    let fixture = Fixture::new();
    write(&fixture.path("here"), &[("a", "1"), ("sub/b", "2")]);
    symlink("a", fixture.path("here/sub/link")).unwrap();
    let ended = fixture.haul(&["mv", "here", &fixture.at("there")]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        text(&ended.stderr).contains("cannot remove here: something in it was not moved"),
        "{}",
        text(&ended.stderr)
    );
    let left = |folder: &str| fs::read_dir(fixture.path(folder)).unwrap().count();
    assert!((left("here"), left("here/sub")) == (1, 1) && fixture.path("here/sub/link").is_symlink());
    symlink("here", fixture.path("link")).unwrap();
    for (source, said) in [("link", "symbolic link"), ("nothing", "nothing")] {
        assert!(one_sentence(&fixture.haul(&["mv", source, &fixture.at("there")]), 1).contains(said));
    }
    assert!(one_sentence(&fixture.haul(&["mv", &fixture.url, "all"]), 1).contains("server's root"));
    assert!(one_sentence(&fixture.haul(&["mv", &fixture.at("none"), "all"]), 1).contains("/none"));
}

#[test]
fn killed_move_loses_nothing() {
    for upwards in [true, false] {
        let fixture = Fixture::new();
        let content = (0..251).collect::<Vec<u8>>().repeat(400_000);
        let source = if upwards { fixture.path("source") } else { fixture.served("source") };
        write(&source, &[("a", "1"), ("sub/b", "2")]);
        fs::write(source.join("big"), &content).unwrap();
        let before = tree(&source);
        let (from, to) = if upwards {
            ("source".to_owned(), fixture.at("target"))
        } else {
            (fixture.at("source"), "target".to_owned())
        };
        let target = if upwards { fixture.served("target") } else { fixture.path("target") };
        let mut command = fixture.command(&["mv", &from, &to, "--connections", "2"]);
        command.stderr(Stdio::null());
        let mut running = Running::start(command);
        assert!(eventually(|| target.is_dir() && fs::read_dir(&target).unwrap().next().is_some()));
        running.send(Signal::SIGKILL);
        running.status();
        let (left, there) = (tree(&source), tree(&target));
        for (name, content) in before.iter().filter(|(name, _)| !name.ends_with('/')) {
            assert!(left.get(name) == Some(content) || there.get(name) == Some(content), "{name} is lost");
        }
        // The same command again moves the rest, into the folder that now exists. A fast machine may have finished before.
        if source.exists() {
            printed(&fixture.haul(&["mv", &from, &to]));
        }
        let there = tree(&target);
        for (name, content) in before.iter().filter(|(name, _)| !name.ends_with('/')) {
            let places = [name.clone(), format!("source/{name}")];
            assert!(places.iter().any(|place| there.get(place) == Some(content)), "{name}");
        }
        assert!(!source.exists());
    }
}
