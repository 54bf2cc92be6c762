//! Commands that print (`ls`, `stat`, `cat`) or change only the server (`mkdir`, `mv`, `rm`, `cp`).

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
};

use crate::{
    common::{one_sentence, printed, text},
    fixture::{Fixture, json, tree, write},
};

#[test]
fn folder_is_listed_as_by_ls() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("b.txt", "12345"), ("a/c", ""), ("ü b", ""), ("e\x1b[2J", "")]);
    assert_eq!(printed(&fixture.haul(&["ls", &fixture.url])), "a/\nb.txt\ne\\u{1b}[2J\nü b\n");
    assert_eq!(printed(&fixture.haul(&["ls", &fixture.at("b.txt")])), "b.txt\n");
    let long = printed(&fixture.haul(&["ls", "-l", &fixture.url]));
    let line = long.lines().nth(1).unwrap();
    assert!(line.starts_with("5  20") && line.ends_with("  b.txt"), "{long}");
    assert_eq!(printed(&fixture.haul(&["ls", "-R", &fixture.url])), "/:\na/\nb.txt\ne\\u{1b}[2J\nü b\n\n/a/:\nc\n");
    let found = fixture.haul(&["ls", &fixture.at("a"), &fixture.at("nothing"), &fixture.at("b.txt")]);
    assert_eq!(text(&found.stdout), "/a/:\nc\n\nb.txt\n");
    assert!(one_sentence(&found, 1).contains("/nothing"));
}

#[test]
fn recursive_listing_costs_one_request_per_folder() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..20).map(|number| format!("{number:02}/deep/file")).collect();
    write(&fixture.path("served"), &names.iter().map(|name| (name.as_str(), "x")).collect::<Vec<_>>());
    let found = json(printed(&fixture.haul(&["ls", "-R", "--json", "-", &fixture.url])).as_bytes(), "ls");
    assert_eq!(found["entries"].as_array().unwrap().len(), 60);
    assert_eq!(fixture.requests("PROPFIND"), 41);
    let file = found["entries"].as_array().unwrap().iter().find(|entry| entry["path"] == "/07/deep/file").unwrap();
    assert_eq!((&file["kind"], &file["bytes"], &file["name"]), (&"file".into(), &1.into(), &"file".into()));
    assert_eq!(file["url"], fixture.at("07/deep/file"));
    assert!(file["etag"].as_str().unwrap().starts_with('"') && file["modified"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn stat_shows_all_properties_of_a_file() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("a b.txt", "12345")]);
    let told = printed(&fixture.haul(&["stat", &fixture.at("a b.txt"), "--json", "found.json"]));
    for part in [&fixture.at("a%20b.txt"), "kind        file\n", "length      5 B\n", "etag        \"", ", strong\n"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let found = json(&fs::read(fixture.path("found.json")).unwrap(), "stat");
    assert_eq!((&found["entries"][0]["bytes"], &found["entries"][0]["locks"]), (&5.into(), &serde_json::json!([])));
    assert!(one_sentence(&fixture.haul(&["stat", &fixture.at("x")]), 1).contains("/x: not found"));
}

#[test]
fn folder_and_missing_file_are_distinguished() {
    let (fixture, listener) = (Fixture::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("http://{}/folder", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let folder = "<multistatus xmlns='DAV:'><response><href>/folder/</href><propstat><prop><resourcetype><collection/>\
                      </resourcetype></prop></propstat></response></multistatus>";
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or(0);
            let (status, body) =
                if head[..length].starts_with(b"PROPFIND") { ("207 Listed", folder) } else { ("404 None", "") };
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        }
    });
    assert!(one_sentence(&fixture.haul(&["cat", &url]), 1).contains("/folder: is a folder"));
}

#[test]
fn cat_of_a_folder_prints_no_page_for_browsers() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("folder/a", ""), ("page.html", "<html></html>\n")]);
    for path in ["folder", "folder/", ""] {
        let ended = fixture.haul(&["cat", &fixture.at(path)]);
        assert!(
            one_sentence(&ended, 1).contains("is a folder; list it with haul ls") && ended.stdout.is_empty(),
            "{path}"
        );
    }
    assert_eq!(printed(&fixture.haul(&["cat", &fixture.at("page.html")])), "<html></html>\n");
}

#[test]
fn newest_entries_come_first_with_t() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("a", ""), ("b", ""), ("c", "")]);
    let hour = std::time::Duration::from_hours(1);
    for (name, age) in [("a", 1), ("b", 3), ("c", 2)] {
        let file = fs::File::options().write(true).open(fixture.served(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - hour * age).unwrap();
    }
    assert_eq!(printed(&fixture.haul(&["ls", "-t1", &fixture.url])), "a\nc\nb\n");
    assert_eq!(printed(&fixture.haul(&["ls", "-t", &fixture.at("*")])), "a\nc\nb\n");
    assert_eq!(printed(&fixture.haul(&["ls", "-1", &fixture.url])), "a\nb\nc\n");
}

#[test]
fn cat_prints_files_byte_for_byte() {
    let fixture = Fixture::new();
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(fixture.served("big"), &content).unwrap();
    fs::write(fixture.served("small"), "end\n").unwrap();
    let printed = fixture.haul(&["cat", &fixture.at("big"), &fixture.at("small")]);
    assert!(printed.status.success());
    assert!(printed.stdout == [&content[..], b"end\n"].concat());
    let missing = fixture.haul(&["cat", &fixture.at("missing"), &fixture.at("small")]);
    assert_eq!(text(&missing.stdout), "end\n");
    assert!(one_sentence(&missing, 1).contains("/missing"));
}

#[test]
fn closed_pipe_is_no_failure() {
    let fixture = Fixture::new();
    fs::write(fixture.served("big"), vec![b'x'; 8_000_000]).unwrap();
    let mut child =
        fixture.command(&["cat", &fixture.at("big")]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begin = [0; 10];
    let mut reader = child.stdout.take().unwrap();
    reader.read_exact(&mut begin).unwrap();
    drop(reader);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr).as_str()), (Some(0), ""));
}

#[test]
fn mkdir_creates_parents_on_request() {
    let fixture = Fixture::new();
    printed(&fixture.haul(&["mkdir", &fixture.at("a"), &fixture.at("b c")]));
    assert!(one_sentence(&fixture.haul(&["mkdir", &fixture.at("a")]), 1).contains("/a/: exists already"));
    assert!(
        one_sentence(&fixture.haul(&["mkdir", &fixture.at("x/y")]), 1)
            .contains("parent folder does not exist (409); add -p to create it too")
    );
    let made = json(printed(&fixture.haul(&["mkdir", "-p", "--json", "-", &fixture.at("a/b/c")])).as_bytes(), "mkdir");
    assert_eq!(made["made"], serde_json::json!(["/a/b/", "/a/b/c/"]));
    printed(&fixture.haul(&["mkdir", "-p", &fixture.at("a/b/c")]));
    write(&fixture.path("served"), &[("file", "")]);
    one_sentence(&fixture.haul(&["mkdir", "-p", &fixture.at("file/x")]), 1);
    assert_eq!(tree(&fixture.path("served")).into_keys().collect::<Vec<_>>(), ["a/", "a/b/", "a/b/c/", "b c/", "file"]);
}

#[test]
fn mv_replaces_a_file_and_never_a_folder() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("one", "1"), ("two", "2"), ("dir/one", "old"), ("dir/sub/x", ""), ("sub/y", "")]);
    let renamed = fixture.haul(&["mv", &fixture.at("two"), &fixture.at("second")]);
    printed(&renamed);
    assert!(text(&renamed.stderr).starts_with("haul: 1 file moved on the server in "), "{renamed:?}");
    let quiet = fixture.haul(&["mv", "-q", &fixture.at("one"), &fixture.at("second"), &fixture.at("dir")]);
    printed(&quiet);
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
    assert_eq!(fs::read(fixture.served("dir/one")).unwrap(), b"1");
    for (from, to, said) in [
        ("sub", "dir", "/dir/sub/: a folder exists already"),
        ("sub", "dir/one", "/dir/one/: a file exists already"),
        ("dir", "dir/sub", "/dir/: the target /dir/sub/dir/ is inside"),
        ("dir/one", "dir", "/dir/one: source and target are the same"),
        ("dir/one", "none/", "/none/: not found"),
        ("nothing", "dir", "/nothing: not found"),
    ] {
        let said_this = one_sentence(&fixture.haul(&["mv", &fixture.at(from), &fixture.at(to)]), 1);
        assert!(said_this.contains(said), "{said_this}");
    }
    let keys: Vec<_> = tree(&fixture.path("served")).into_keys().collect();
    assert_eq!(keys, ["dir/", "dir/one", "dir/second", "dir/sub/", "dir/sub/x", "sub/", "sub/y"]);
}

#[test]
fn temporary_files_are_listed_only_with_all() {
    let fixture = Fixture::new();
    let left = ".a.0123456789abcdef.part";
    write(&fixture.path("served"), &[("d/a", "1"), (&format!("d/{left}"), "2"), ("d/.a.part", "3")]);
    for way in [&["ls"][..], &["ls", "-U"], &["ls", "-R"]] {
        let listed = |more: &[&str]| printed(&fixture.haul(&[way, more, &[&fixture.at("d")]].concat()));
        assert!(!listed(&[]).contains(left) && listed(&[]).contains(".a.part"), "{way:?}");
        assert!(listed(&["-a"]).contains(left), "{way:?}");
    }
    assert!(printed(&fixture.haul(&["ls", &fixture.at(&format!("d/{left}"))])).contains(left), "it was asked for");
}

#[test]
fn two_sources_with_one_name_are_refused() {
    for verb in ["mv", "cp"] {
        let fixture = Fixture::new();
        write(&fixture.path("served"), &[("a/same", "1"), ("b/same", "2"), ("dir/x", "")]);
        let ended = fixture.haul(&[verb, &fixture.at("a/same"), &fixture.at("b/same"), &fixture.at("dir")]);
        let said = text(&ended.stderr);
        assert!(said.starts_with("haul: /b/same: another source is copied to /dir/same already"), "{said}");
        assert!(said.contains("haul: 1 file ") && said.ends_with("; 1 failed\n"), "{said}");
        assert_eq!(ended.status.code(), Some(1));
        assert_eq!(fs::read(fixture.served("dir/same")).unwrap(), b"1");
        assert_eq!(fs::read(fixture.served("b/same")).unwrap(), b"2");
    }
}

#[test]
fn server_side_copy_transfers_no_content() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("a/x", "1"), ("a/b/y", "2"), ("file", "3")]);
    let copied = fixture.haul(&["cp", "-r", "--json", "-", &fixture.at("a"), &fixture.at("copy")]);
    assert_eq!(json(&copied.stdout, "cp")["copied"][0], serde_json::json!({"from": "/a/", "to": "/copy/"}));
    printed(&fixture.haul(&["cp", &fixture.at("file"), &fixture.at("a/x")]));
    assert!(one_sentence(&fixture.haul(&["cp", &fixture.at("a"), &fixture.at("b")]), 1).contains("-r"));
    assert_eq!((fixture.requests("GET"), fixture.requests("PUT")), (0, 0));
    assert_eq!(fs::read(fixture.served("copy/x")).unwrap(), b"1");
    assert_eq!(fs::read(fixture.served("a/x")).unwrap(), b"3");
}

#[test]
fn rm_deletes_a_folder_only_with_r_and_never_the_root() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("a/x", ""), ("b", ""), ("c", "")]);
    let ended = fixture.haul(&["rm", &fixture.at("a"), &fixture.at("b")]);
    assert!(one_sentence(&ended, 1).contains("/a: is a folder; add -r"));
    assert!(one_sentence(&fixture.haul(&["rm", "-r", &fixture.url]), 1).contains("server's root"));
    assert!(one_sentence(&fixture.haul(&["rm", &fixture.at("b")]), 1).contains("/b: not found"));
    printed(&fixture.haul(&["rm", "-f", &fixture.at("b")]));
    let deleted = json(printed(&fixture.haul(&["rm", "-r", "--json", "-", &fixture.at("a")])).as_bytes(), "rm");
    assert_eq!(deleted["deleted"], serde_json::json!(["/a/"]));
    assert_eq!(tree(&fixture.path("served")).into_keys().collect::<Vec<_>>(), ["c"]);
}
