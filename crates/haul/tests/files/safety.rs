//! What keeps a mirror from deleting or replacing too much.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, SystemTime},
};

use crate::{
    common::{printed, text},
    place::{Place, tree, write},
};

fn names(place: &Place, folder: &str) -> Vec<String> {
    tree(&place.path(folder)).into_keys().collect()
}

fn read(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// `source` and `served/from` with one file, `served/up` and `down` with it and five more things.
fn both_sides() -> Place {
    let place = Place::new();
    for folder in ["source", "served/from"] {
        write(&place.path(folder), &[("a", "one")]);
    }
    for folder in ["served/up", "down"] {
        write(&place.path(folder), &[("a", "one"), ("b", ""), ("x/c", ""), ("x/y/d", "")]);
    }
    // The same in all four, also where a second ends while they are written.
    let time = SystemTime::now() - Duration::from_hours(1);
    for folder in ["source", "served/from", "served/up", "down"] {
        fs::File::options().append(true).open(place.path(folder).join("a")).unwrap().set_modified(time).unwrap();
    }
    place
}

#[test]
fn max_delete_refuses_all_deletions_when_there_are_more() {
    let place = both_sides();
    for (from, to, at) in
        [("source".into(), place.at("up"), "served/up"), (place.at("from"), "down".to_owned(), "down")]
    {
        for options in [&["--delete", "--max-delete", "4"][..], &["--delete", "--max-delete", "0", "--dry-run"]] {
            let ended = place.haul(&[&["sync", &from, &to], options].concat());
            let told = text(&ended.stderr);
            assert!(ended.status.code() == Some(1) && told.contains("5 files and folders would be deleted"), "{told}");
            assert_eq!(names(&place, at).len(), 6, "{at}: {options:?}");
        }
        printed(&place.haul(&["sync", &from, &to, "--delete", "--max-delete", "5"]));
        assert_eq!(names(&place, at), ["a"]);
    }
}

#[test]
fn a_backup_folder_keeps_what_is_replaced_and_deleted() {
    let place = both_sides();
    let url = place.at("kept/deep");
    for (from, to, backup, changed, kept) in [
        ("source".into(), place.at("up"), url.as_str(), "source/a", "served/kept/deep"),
        (place.at("from"), "down".to_owned(), "kept", "served/from/a", "kept"),
    ] {
        fs::write(place.path(changed), "a new content").unwrap();
        printed(&place.haul(&["sync", &from, &to, "--delete", "--backup-dir", backup]));
        assert_eq!(names(&place, kept), ["a", "b", "x/", "x/c", "x/y/", "x/y/d"]);
        assert_eq!(read(&place, &format!("{kept}/a")), "one");

        // What is there from earlier is added to.
        let at = if to == "down" { "down" } else { "served/up" };
        assert_eq!((names(&place, at), read(&place, &format!("{at}/a"))), (vec!["a".into()], "a new content".into()));
        write(&place.path(at), &[("x/c", "second"), ("x/e", "")]);
        printed(&place.haul(&["sync", &from, &to, "--delete", "--backup-dir", backup]));
        assert_eq!(names(&place, kept), ["a", "b", "x/", "x/c", "x/e", "x/y/", "x/y/d"]);
        assert_eq!(read(&place, &format!("{kept}/x/c")), "second");
        assert_eq!(names(&place, at), ["a"]);
    }
}

#[test]
fn a_backup_folder_in_the_mirror_is_refused_unless_it_is_excluded() {
    let place = both_sides();
    let (up, inside, elsewhere) = (place.at("up"), place.at("up/kept"), place.at("kept"));
    for (arguments, said) in [
        (["source", &up, "--backup-dir", &inside], "is inside TO"),
        (["source", &up, "--backup-dir", "here"], "on the same side as TO"),
        (["source", &up, "--backup-dir", &place.at("")], "contains TO"),
        ([&place.at("from"), "down", "--backup-dir", "down/kept"], "is inside TO"),
        ([&place.at("from"), "down", "--backup-dir", &elsewhere], "on the same side as TO"),
        ([&place.at("from"), "down", "--backup-dir", "."], "contains TO"),
    ] {
        let ended = place.haul(&[&["sync"], &arguments[..]].concat());
        let told = text(&ended.stderr);
        assert!(ended.status.code() == Some(2) && told.contains(said), "{arguments:?}: {told}");
    }
    let excluded = ["--delete", "--exclude", "/kept/"];
    printed(&place.haul(&[&["sync", "source", &up, "--backup-dir", &inside], &excluded[..]].concat()));
    printed(&place.haul(&[&["sync", &place.at("from"), "down", "--backup-dir", "down/kept"], &excluded[..]].concat()));
    for folder in ["served/up", "down"] {
        assert_eq!(names(&place, folder), ["a", "kept/", "kept/b", "kept/x/", "kept/x/c", "kept/x/y/", "kept/x/y/d"]);
    }
    let all = [&["sync", "source", &up, "--backup-dir", &inside, "--delete-excluded"], &excluded[..]].concat();
    assert_eq!(place.haul(&all).status.code(), Some(2), "the backup would be deleted");
}

#[test]
fn files_at_the_target_are_left_alone_as_wished() {
    for (option, taken) in [
        ("--ignore-existing", &["missing"][..]),
        ("--update", &["missing", "older", "same-size"]),
        ("--size-only", &["missing", "newer", "older"]),
    ] {
        let place = Place::new();
        let source = [("missing", "source"), ("newer", "source"), ("older", "source"), ("same-size", "source")];
        let target = [("newer", "old"), ("older", "old"), ("same-size", "target")];
        let hours = |number: u64| SystemTime::now() - Duration::from_hours(number);
        let date = |name: &str, time| {
            fs::File::options().append(true).open(place.path(name)).unwrap().set_modified(time).unwrap();
        };
        for folder in ["source", "served/from"] {
            write(&place.path(folder), &source);
            for (name, _) in source {
                date(&format!("{folder}/{name}"), hours(10));
            }
        }
        for folder in ["served/up", "down", "served/cp", "cp"] {
            write(&place.path(folder), &target);
            for (name, _) in target {
                date(&format!("{folder}/{name}"), hours(20));
            }
            date(&format!("{folder}/newer"), hours(5));
        }
        printed(&place.haul(&["sync", "source", &place.at("up"), option]));
        printed(&place.haul(&["sync", &place.at("from"), "down", option]));
        let files: Vec<_> = source.iter().map(|(name, _)| format!("source/{name}")).collect();
        let mut up = vec!["cp", option];
        up.extend(files.iter().map(String::as_str));
        let to = place.at("cp/");
        up.push(&to);
        printed(&place.haul(&up));
        let urls: Vec<_> = source.iter().map(|(name, _)| place.at(&format!("from/{name}"))).collect();
        let mut down = vec!["cp", option];
        down.extend(urls.iter().map(String::as_str));
        down.push("cp");
        printed(&place.haul(&down));
        for folder in ["served/up", "down", "served/cp", "cp"] {
            for (name, _) in source {
                let is_source = read(&place, &format!("{folder}/{name}")) == "source";
                assert_eq!(is_source, taken.contains(&name), "{option}: {folder}/{name}");
            }
        }
    }
}

#[test]
fn ignore_errors_deletes_but_never_what_could_not_be_read() {
    let place = both_sides();
    write(&place.path("source"), &[("locked/z", "")]);
    write(&place.path("served/up"), &[("locked/z", ""), ("locked/w", "")]);
    std::os::unix::fs::symlink("nowhere", place.path("source/link")).unwrap();
    let lock = |mode| fs::set_permissions(place.path("source/locked"), fs::Permissions::from_mode(mode)).unwrap();
    lock(0o000);
    // Root may read everything.
    let is_locked = fs::read_dir(place.path("source/locked")).is_err();
    let ended = place.haul(&["sync", "source", &place.at("up"), "--delete", "--ignore-errors"]);
    lock(0o755);
    assert!(!is_locked || ended.status.code() == Some(1), "{}", text(&ended.stderr));
    let left = names(&place, "served/up");
    assert!(!left.contains(&"b".to_owned()) && left.contains(&"locked/z".to_owned()), "{left:?}");
}
