//! Filters: which files are copied, and which a mirror keeps.

use std::{
    fs,
    io::Write,
    process::Stdio,
    time::{Duration, SystemTime},
};

use crate::{
    common::{printed, text},
    fixture::{Fixture, tree, write},
};

fn names(fixture: &Fixture, folder: &str) -> Vec<String> {
    tree(&fixture.path(folder)).into_keys().collect()
}

fn source(fixture: &Fixture) {
    let files = [
        ("a.txt", "a"),
        ("b.tmp", "b"),
        ("cache/c.txt", "c"),
        ("docs/d.txt", "d"),
        ("docs/deep/e.jpg", "e"),
        ("pics/f.jpg", "f"),
    ];
    write(&fixture.path("source"), &files);
    write(&fixture.path("served/from"), &files);
}

#[test]
fn filters_select_the_same_files_up_and_down() {
    let fixture = Fixture::new();
    source(&fixture);
    fs::write(fixture.path("rules"), "# a comment\n- *.tmp\n+ /docs/**\n- **\n").unwrap();
    fs::write(fixture.path("list"), "a.txt\ndocs/deep/e.jpg\n").unwrap();
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
        printed(&fixture.haul(&[&["sync", "source", &fixture.at(&up)], options].concat()));
        assert_eq!(names(&fixture, &format!("served/{up}")), chosen, "{options:?}");
        printed(&fixture.haul(&[&["sync", &fixture.at("from"), &down], options].concat()));
        assert_eq!(names(&fixture, &down), chosen, "{options:?}");
        fs::create_dir(fixture.path(&format!("cp{number}"))).unwrap();
        printed(&fixture.haul(&[&["cp", "-r", &fixture.at("from"), &format!("cp{number}")], options].concat()));
        assert_eq!(names(&fixture, &format!("cp{number}/from")), chosen, "{options:?}");
    }
}

#[test]
fn excluded_folder_is_not_listed() {
    let fixture = Fixture::new();
    source(&fixture);
    printed(&fixture.haul(&["sync", &fixture.at("from"), "down", "--exclude", "docs/", "--exclude", "/pics"]));
    let log = fs::read_to_string(fixture.path("log")).unwrap();
    assert!(log.contains("/from/cache") && !log.contains("/from/docs") && !log.contains("/from/pics"), "{log}");
}

#[test]
fn excluded_files_are_kept_without_delete_excluded() {
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
        let fixture = Fixture::new();
        write(&fixture.path("source"), &[("a", "1"), ("big", "this file is too long")]);
        write(&fixture.path("served/from"), &[("a", "1"), ("big", "this file is too long")]);
        write(&fixture.path("down"), &extra);
        write(&fixture.path("served/up"), &extra);
        let options = [&options[..], if excluded { &["--delete-excluded"] } else { &[] }].concat();
        let kept: &[&str] = if excluded { &["a"] } else { &["a", "big", "keep.tmp", "old/", "old/y.tmp"] };
        printed(&fixture.haul(&[&["sync", "source", &fixture.at("up")], &options[..]].concat()));
        assert_eq!(names(&fixture, "served/up"), kept, "up, {options:?}");
        printed(&fixture.haul(&[&["sync", &fixture.at("from"), "down"], &options[..]].concat()));
        assert_eq!(names(&fixture, "down"), kept, "down, {options:?}");
    }
}

#[test]
fn file_excluded_by_size_keeps_its_smaller_copy() {
    let fixture = Fixture::new();
    for folder in ["source", "served/from"] {
        write(&fixture.path(folder), &[("grown", "twenty bytes or more"), ("a", "1")]);
    }
    for folder in ["down", "served/up"] {
        write(&fixture.path(folder), &[("grown", "small")]);
    }
    let options = ["--delete", "--max-size", "10B"];
    printed(&fixture.haul(&[&["sync", "source", &fixture.at("up")], &options[..]].concat()));
    printed(&fixture.haul(&[&["sync", &fixture.at("from"), "down"], &options[..]].concat()));
    for folder in ["down", "served/up"] {
        assert_eq!(fs::read_to_string(fixture.path(folder).join("grown")).unwrap(), "small");
    }
}

#[test]
fn sizes_and_ages_select_files() {
    let fixture = Fixture::new();
    write(&fixture.path("source"), &[("old", "12345"), ("new", "12345"), ("large", &"x".repeat(3000))]);
    let long_ago = SystemTime::now() - Duration::from_hours(48);
    fs::File::options().append(true).open(fixture.path("source/old")).unwrap().set_modified(long_ago).unwrap();
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
        printed(&fixture.haul(&[&["sync", "source", &fixture.at(&to)], options].concat()));
        assert_eq!(names(&fixture, &format!("served/{to}")), chosen, "{options:?}");
        let files = ["cp", "source/old", "source/new", "source/large", &fixture.at(&format!("cp{number}/"))];
        fs::create_dir(fixture.served(&format!("cp{number}"))).unwrap();
        printed(&fixture.haul(&[&files[..], options].concat()));
        assert_eq!(names(&fixture, &format!("served/cp{number}")), chosen, "cp {options:?}");
    }
}

#[test]
fn missing_file_of_the_list_is_reported_and_nothing_deleted() {
    let fixture = Fixture::new();
    source(&fixture);
    write(&fixture.path("served/up"), &[("extra", "")]);
    write(&fixture.path("down"), &[("extra", "")]);
    for (from, to) in [("source".to_owned(), fixture.at("up")), (fixture.at("from"), "down".to_owned())] {
        let mut command = fixture.command(&["sync", &from, &to, "--files-from", "-"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        running.stdin.take().unwrap().write_all(b"a.txt\nno/such\n").unwrap();
        let ended = running.wait_with_output().unwrap();
        let told = text(&ended.stderr);
        assert!(ended.status.code() == Some(1) && told.contains("no/such: it is in the list of files"), "{told}");
    }
    assert_eq!(names(&fixture, "down"), ["a.txt", "extra"]);
    assert_eq!(names(&fixture, "served/up"), ["a.txt", "extra"]);
}

#[test]
fn invalid_filter_is_a_usage_error() {
    let fixture = Fixture::new();
    source(&fixture);
    for options in [
        &["--exclude", "a["][..],
        &["--filter", "*.tmp"],
        &["--max-age", "soon"],
        &["--files-from", "x", "--exclude", "y"],
        &["--exclude-from", "-", "--include-from", "-"],
        &["--delete-excluded"],
    ] {
        let ended = fixture.haul(&[&["sync", "source", &fixture.at("to")], options].concat());
        assert_eq!(ended.status.code(), Some(2), "{options:?}: {}", text(&ended.stderr));
    }
    let ended = fixture.haul(&["cp", "-r", &fixture.at("from"), &fixture.at("to"), "--exclude", "x"]);
    assert!(ended.status.code() == Some(2) && text(&ended.stderr).contains("as a whole"));
    assert!(!fixture.served("to").exists());
}
