//! Options that keep a mirror from deleting or replacing too much.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, SystemTime},
};

use crate::{
    common::{printed, text},
    fixture::{Fixture, tree, write},
};

fn names(fixture: &Fixture, folder: &str) -> Vec<String> {
    tree(&fixture.path(folder)).into_keys().collect()
}

fn read(fixture: &Fixture, name: &str) -> String {
    fs::read_to_string(fixture.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// `source` and `served/from` with one file, `served/up` and `down` with it and five more entries.
fn both_sides() -> Fixture {
    let fixture = Fixture::new();
    for folder in ["source", "served/from"] {
        write(&fixture.path(folder), &[("a", "one")]);
    }
    for folder in ["served/up", "down"] {
        write(&fixture.path(folder), &[("a", "one"), ("b", ""), ("x/c", ""), ("x/y/d", "")]);
    }
    // One time for all four, in case a second ends while they are written.
    let time = SystemTime::now() - Duration::from_hours(1);
    for folder in ["source", "served/from", "served/up", "down"] {
        fs::File::options().append(true).open(fixture.path(folder).join("a")).unwrap().set_modified(time).unwrap();
    }
    fixture
}

#[test]
fn max_delete_refuses_all_deletions_beyond_the_limit() {
    let fixture = both_sides();
    for (from, to, at) in
        [("source".into(), fixture.at("up"), "served/up"), (fixture.at("from"), "down".to_owned(), "down")]
    {
        for options in [&["--delete", "--max-delete", "4"][..], &["--delete", "--max-delete", "0", "--dry-run"]] {
            let ended = fixture.haul(&[&["sync", &from, &to], options].concat());
            let told = text(&ended.stderr);
            assert!(ended.status.code() == Some(1) && told.contains("5 files and folders would be deleted"), "{told}");
            assert_eq!(names(&fixture, at).len(), 6, "{at}: {options:?}");
        }
        printed(&fixture.haul(&["sync", &from, &to, "--delete", "--max-delete", "5"]));
        assert_eq!(names(&fixture, at), ["a"]);
    }
}

#[test]
fn backup_folder_keeps_replaced_and_deleted_files() {
    let fixture = both_sides();
    let url = fixture.at("kept/deep");
    for (from, to, backup, changed, kept) in [
        ("source".into(), fixture.at("up"), url.as_str(), "source/a", "served/kept/deep"),
        (fixture.at("from"), "down".to_owned(), "kept", "served/from/a", "kept"),
    ] {
        fs::write(fixture.path(changed), "a new content").unwrap();
        printed(&fixture.haul(&["sync", &from, &to, "--delete", "--backup-dir", backup]));
        assert_eq!(names(&fixture, kept), ["a", "b", "x/", "x/c", "x/y/", "x/y/d"]);
        assert_eq!(read(&fixture, &format!("{kept}/a")), "one");

        // An existing backup is extended.
        let at = if to == "down" { "down" } else { "served/up" };
        assert_eq!(
            (names(&fixture, at), read(&fixture, &format!("{at}/a"))),
            (vec!["a".into()], "a new content".into())
        );
        write(&fixture.path(at), &[("x/c", "second"), ("x/e", "")]);
        printed(&fixture.haul(&["sync", &from, &to, "--delete", "--backup-dir", backup]));
        assert_eq!(names(&fixture, kept), ["a", "b", "x/", "x/c", "x/e", "x/y/", "x/y/d"]);
        assert_eq!(read(&fixture, &format!("{kept}/x/c")), "second");
        assert_eq!(names(&fixture, at), ["a"]);
    }
}

#[test]
fn backup_folder_in_the_mirror_is_refused_unless_excluded() {
    let fixture = both_sides();
    let (up, inside, elsewhere) = (fixture.at("up"), fixture.at("up/kept"), fixture.at("kept"));
    for (arguments, said) in [
        (["source", &up, "--backup-dir", &inside], "is inside TO"),
        (["source", &up, "--backup-dir", "here"], "on the same side as TO"),
        (["source", &up, "--backup-dir", &fixture.at("")], "contains TO"),
        ([&fixture.at("from"), "down", "--backup-dir", "down/kept"], "is inside TO"),
        ([&fixture.at("from"), "down", "--backup-dir", &elsewhere], "on the same side as TO"),
        ([&fixture.at("from"), "down", "--backup-dir", "."], "contains TO"),
    ] {
        let ended = fixture.haul(&[&["sync"], &arguments[..]].concat());
        let told = text(&ended.stderr);
        assert!(ended.status.code() == Some(2) && told.contains(said), "{arguments:?}: {told}");
    }
    let excluded = ["--delete", "--exclude", "/kept/"];
    printed(&fixture.haul(&[&["sync", "source", &up, "--backup-dir", &inside], &excluded[..]].concat()));
    printed(
        &fixture.haul(&[&["sync", &fixture.at("from"), "down", "--backup-dir", "down/kept"], &excluded[..]].concat()),
    );
    for folder in ["served/up", "down"] {
        assert_eq!(names(&fixture, folder), ["a", "kept/", "kept/b", "kept/x/", "kept/x/c", "kept/x/y/", "kept/x/y/d"]);
    }
    let all = [&["sync", "source", &up, "--backup-dir", &inside, "--delete-excluded"], &excluded[..]].concat();
    assert_eq!(fixture.haul(&all).status.code(), Some(2), "the backup would be deleted");
}

#[test]
fn existing_files_are_kept_as_requested() {
    for (option, taken) in [
        ("--ignore-existing", &["missing"][..]),
        ("--update", &["missing", "older", "same-size"]),
        ("--size-only", &["missing", "newer", "older"]),
    ] {
        let fixture = Fixture::new();
        let source = [("missing", "source"), ("newer", "source"), ("older", "source"), ("same-size", "source")];
        let target = [("newer", "old"), ("older", "old"), ("same-size", "target")];
        let hours = |number: u64| SystemTime::now() - Duration::from_hours(number);
        let date = |name: &str, time| {
            fs::File::options().append(true).open(fixture.path(name)).unwrap().set_modified(time).unwrap();
        };
        for folder in ["source", "served/from"] {
            write(&fixture.path(folder), &source);
            for (name, _) in source {
                date(&format!("{folder}/{name}"), hours(10));
            }
        }
        for folder in ["served/up", "down", "served/cp", "cp"] {
            write(&fixture.path(folder), &target);
            for (name, _) in target {
                date(&format!("{folder}/{name}"), hours(20));
            }
            date(&format!("{folder}/newer"), hours(5));
        }
        printed(&fixture.haul(&["sync", "source", &fixture.at("up"), option]));
        printed(&fixture.haul(&["sync", &fixture.at("from"), "down", option]));
        let files: Vec<_> = source.iter().map(|(name, _)| format!("source/{name}")).collect();
        let mut up = vec!["cp", option];
        up.extend(files.iter().map(String::as_str));
        let to = fixture.at("cp/");
        up.push(&to);
        printed(&fixture.haul(&up));
        let urls: Vec<_> = source.iter().map(|(name, _)| fixture.at(&format!("from/{name}"))).collect();
        let mut down = vec!["cp", option];
        down.extend(urls.iter().map(String::as_str));
        down.push("cp");
        printed(&fixture.haul(&down));
        for folder in ["served/up", "down", "served/cp", "cp"] {
            for (name, _) in source {
                let is_source = read(&fixture, &format!("{folder}/{name}")) == "source";
                assert_eq!(is_source, taken.contains(&name), "{option}: {folder}/{name}");
            }
        }
    }
}

#[test]
fn ignore_errors_deletes_nothing_that_was_unreadable() {
    let fixture = both_sides();
    write(&fixture.path("source"), &[("locked/z", "")]);
    write(&fixture.path("served/up"), &[("locked/z", ""), ("locked/w", "")]);
    std::os::unix::fs::symlink("nowhere", fixture.path("source/link")).unwrap();
    let lock = |mode| fs::set_permissions(fixture.path("source/locked"), fs::Permissions::from_mode(mode)).unwrap();
    lock(0o000);
    // Root may read everything.
    let is_locked = fs::read_dir(fixture.path("source/locked")).is_err();
    let ended = fixture.haul(&["sync", "source", &fixture.at("up"), "--delete", "--ignore-errors"]);
    lock(0o755);
    assert!(!is_locked || ended.status.code() == Some(1), "{}", text(&ended.stderr));
    let left = names(&fixture, "served/up");
    assert!(!left.contains(&"b".to_owned()) && left.contains(&"locked/z".to_owned()), "{left:?}");
}
