//! Which files are copied, and which a mirror leaves alone.

use std::{
    fs,
    io::Write,
    process::Stdio,
    time::{Duration, SystemTime},
};

use crate::{
    common::{printed, text},
    place::{Place, tree, write},
};

fn names(place: &Place, folder: &str) -> Vec<String> {
    tree(&place.path(folder)).into_keys().collect()
}

fn source(place: &Place) {
    let files = [
        ("a.txt", "a"),
        ("b.tmp", "b"),
        ("cache/c.txt", "c"),
        ("docs/d.txt", "d"),
        ("docs/deep/e.jpg", "e"),
        ("pics/f.jpg", "f"),
    ];
    write(&place.path("source"), &files);
    write(&place.path("served/from"), &files);
}

#[test]
fn filters_choose_the_same_files_up_and_down() {
    let place = Place::new();
    source(&place);
    fs::write(place.path("rules"), "# a comment\n- *.tmp\n+ /docs/**\n- **\n").unwrap();
    fs::write(place.path("list"), "a.txt\ndocs/deep/e.jpg\n").unwrap();
    for (number, (options, chosen)) in [
        (
            &["--exclude", "*.tmp", "--exclude", "cache/"][..],
            &["a.txt", "docs/", "docs/d.txt", "docs/deep/", "docs/deep/e.jpg", "pics/", "pics/f.jpg"][..],
        ),
        (&["--include", "*.jpg"], &["docs/", "docs/deep/", "docs/deep/e.jpg", "pics/", "pics/f.jpg"]),
        (&["--filter-from", "rules"], &["docs/", "docs/d.txt", "docs/deep/", "docs/deep/e.jpg"]),
        (
            &["--filter", "+ deep/", "--filter", "- docs/", "--filter", "- *.t*"],
            &["cache/", "docs/", "docs/deep/", "docs/deep/e.jpg", "pics/", "pics/f.jpg"],
        ),
        (&["--files-from", "list"], &["a.txt", "docs/", "docs/deep/", "docs/deep/e.jpg"]),
    ]
    .into_iter()
    .enumerate()
    {
        let (up, down) = (format!("up{number}"), format!("down{number}"));
        printed(&place.haul(&[&["sync", "source", &place.at(&up)], options].concat()));
        assert_eq!(names(&place, &format!("served/{up}")), chosen, "{options:?}");
        printed(&place.haul(&[&["sync", &place.at("from"), &down], options].concat()));
        assert_eq!(names(&place, &down), chosen, "{options:?}");
        fs::create_dir(place.path(&format!("cp{number}"))).unwrap();
        printed(&place.haul(&[&["cp", "-r", &place.at("from"), &format!("cp{number}")], options].concat()));
        assert_eq!(names(&place, &format!("cp{number}/from")), chosen, "{options:?}");
    }
}

#[test]
fn an_excluded_folder_is_not_listed() {
    let place = Place::new();
    source(&place);
    printed(&place.haul(&["sync", &place.at("from"), "down", "--exclude", "docs/", "--exclude", "/pics"]));
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("/from/cache") && !log.contains("/from/docs") && !log.contains("/from/pics"), "{log}");
}

#[test]
fn a_mirror_leaves_alone_what_the_filters_leave_out_unless_told_to_delete_it() {
    let extra = [
        ("keep.tmp", "mine"),
        ("gone.txt", "old"),
        ("old/x.txt", "old"),
        ("old/y.tmp", "mine"),
        ("whole/z.txt", "old"),
        ("big", "longer than ten bytes"),
    ];
    let options = ["--delete", "--exclude", "*.tmp", "--max-size", "10B"];
    for excluded in [false, true] {
        let place = Place::new();
        write(&place.path("source"), &[("a", "1"), ("big", "this file is too long")]);
        write(&place.path("served/from"), &[("a", "1"), ("big", "this file is too long")]);
        write(&place.path("down"), &extra);
        write(&place.path("served/up"), &extra);
        let options = [&options[..], if excluded { &["--delete-excluded"] } else { &[] }].concat();
        let kept: &[&str] = if excluded { &["a"] } else { &["a", "big", "keep.tmp", "old/", "old/y.tmp"] };
        printed(&place.haul(&[&["sync", "source", &place.at("up")], &options[..]].concat()));
        assert_eq!(names(&place, "served/up"), kept, "up, {options:?}");
        printed(&place.haul(&[&["sync", &place.at("from"), "down"], &options[..]].concat()));
        assert_eq!(names(&place, "down"), kept, "down, {options:?}");
    }
}

#[test]
fn a_file_that_is_out_by_its_size_keeps_its_smaller_version_on_the_other_side() {
    let place = Place::new();
    for folder in ["source", "served/from"] {
        write(&place.path(folder), &[("grown", "twenty bytes or more"), ("a", "1")]);
    }
    for folder in ["down", "served/up"] {
        write(&place.path(folder), &[("grown", "small")]);
    }
    let options = ["--delete", "--max-size", "10B"];
    printed(&place.haul(&[&["sync", "source", &place.at("up")], &options[..]].concat()));
    printed(&place.haul(&[&["sync", &place.at("from"), "down"], &options[..]].concat()));
    for folder in ["down", "served/up"] {
        assert_eq!(fs::read_to_string(place.path(folder).join("grown")).unwrap(), "small");
    }
}

#[test]
fn sizes_and_ages_choose_files() {
    let place = Place::new();
    write(&place.path("source"), &[("old", "12345"), ("new", "12345"), ("large", &"x".repeat(3000))]);
    let long_ago = SystemTime::now() - Duration::from_hours(48);
    fs::File::options().append(true).open(place.path("source/old")).unwrap().set_modified(long_ago).unwrap();
    for (number, (options, chosen)) in [
        (&["--max-age", "1d"][..], &["large", "new"][..]),
        (&["--min-age", "1d"], &["old"]),
        (&["--min-size", "1K", "--max-size", "1M"], &["large"]),
        (&["--max-size", "1K"], &["new", "old"]),
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("to{number}");
        printed(&place.haul(&[&["sync", "source", &place.at(&to)], options].concat()));
        assert_eq!(names(&place, &format!("served/{to}")), chosen, "{options:?}");
        let files = ["cp", "source/old", "source/new", "source/large", &place.at(&format!("cp{number}/"))];
        fs::create_dir(place.served(&format!("cp{number}"))).unwrap();
        printed(&place.haul(&[&files[..], options].concat()));
        assert_eq!(names(&place, &format!("served/cp{number}")), chosen, "cp {options:?}");
    }
}

#[test]
fn a_listed_file_that_is_missing_is_named_and_nothing_is_deleted() {
    let place = Place::new();
    source(&place);
    write(&place.path("served/up"), &[("extra", "")]);
    write(&place.path("down"), &[("extra", "")]);
    for (from, to) in [("source".to_owned(), place.at("up")), (place.at("from"), "down".to_owned())] {
        let mut command = place.command(&["sync", &from, &to, "--files-from", "-"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        running.stdin.take().unwrap().write_all(b"a.txt\nno/such\n").unwrap();
        let ended = running.wait_with_output().unwrap();
        let told = text(&ended.stderr);
        assert!(ended.status.code() == Some(1) && told.contains("no/such: it is in the list of files"), "{told}");
    }
    assert_eq!(names(&place, "down"), ["a.txt", "extra"]);
    assert_eq!(names(&place, "served/up"), ["a.txt", "extra"]);
}

#[test]
fn a_filter_that_cannot_be_used_is_wrong_usage() {
    let place = Place::new();
    source(&place);
    for options in [
        &["--exclude", "a["][..],
        &["--filter", "*.tmp"],
        &["--max-age", "soon"],
        &["--files-from", "x", "--exclude", "y"],
        &["--exclude-from", "-", "--include-from", "-"],
        &["--delete-excluded"],
    ] {
        let ended = place.haul(&[&["sync", "source", &place.at("to")], options].concat());
        assert_eq!(ended.status.code(), Some(2), "{options:?}: {}", text(&ended.stderr));
    }
    let ended = place.haul(&["cp", "-r", &place.at("from"), &place.at("to"), "--exclude", "x"]);
    assert!(ended.status.code() == Some(2) && text(&ended.stderr).contains("as a whole"));
    assert!(!place.served("to").exists());
}
