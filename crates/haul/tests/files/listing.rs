//! What is shown: `ls`, `stat` and `cat`; and what is changed on the server alone: `mkdir`, `mv`, `rm`, `cp`.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
};

use crate::{
    common::{one_sentence, printed, text},
    place::{Place, json, tree, write},
};

#[test]
fn a_folder_is_listed_as_ls_does_it() {
    let place = Place::new();
    write(&place.path("served"), &[("b.txt", "12345"), ("a/c", ""), ("ü b", ""), ("e\x1b[2J", "")]);
    assert_eq!(printed(&place.haul(&["ls", &place.url])), "a/\nb.txt\ne\\u{1b}[2J\nü b\n");
    assert_eq!(printed(&place.haul(&["ls", &place.at("b.txt")])), "b.txt\n");
    let long = printed(&place.haul(&["ls", "-l", &place.url]));
    let line = long.lines().nth(1).unwrap();
    assert!(line.starts_with("5  20") && line.ends_with("  b.txt"), "{long}");
    assert_eq!(printed(&place.haul(&["ls", "-R", &place.url])), "/:\na/\nb.txt\ne\\u{1b}[2J\nü b\n\n/a/:\nc\n");
    let found = place.haul(&["ls", &place.at("a"), &place.at("nothing"), &place.at("b.txt")]);
    assert_eq!(text(&found.stdout), "/a/:\nc\n\nb.txt\n");
    assert!(one_sentence(&found, 1).contains("/nothing"));
}

#[test]
fn a_tree_costs_one_request_for_each_folder() {
    let place = Place::new();
    let names: Vec<String> = (0..20).map(|number| format!("{number:02}/deep/file")).collect();
    write(&place.path("served"), &names.iter().map(|name| (name.as_str(), "x")).collect::<Vec<_>>());
    let found = json(printed(&place.haul(&["ls", "-R", "--json", "-", &place.url])).as_bytes(), "ls");
    assert_eq!(found["entries"].as_array().unwrap().len(), 60);
    assert_eq!(place.requests("PROPFIND"), 41);
    let file = found["entries"].as_array().unwrap().iter().find(|entry| entry["path"] == "/07/deep/file").unwrap();
    assert_eq!((&file["kind"], &file["bytes"], &file["name"]), (&"file".into(), &1.into(), &"file".into()));
    assert_eq!(file["url"], place.at("07/deep/file"));
    assert!(file["etag"].as_str().unwrap().starts_with('"') && file["modified"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn one_file_is_told_in_full() {
    let place = Place::new();
    write(&place.path("served"), &[("a b.txt", "12345")]);
    let told = printed(&place.haul(&["stat", &place.at("a b.txt"), "--json", "found.json"]));
    for part in [&place.at("a%20b.txt"), "kind        file\n", "length      5 B\n", "etag        \"", ", strong\n"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let found = json(&fs::read(place.path("found.json")).unwrap(), "stat");
    assert_eq!((&found["entries"][0]["bytes"], &found["entries"][0]["locks"]), (&5.into(), &serde_json::json!([])));
    assert!(one_sentence(&place.haul(&["stat", &place.at("x")]), 1).contains("/x: not found"));
}

#[test]
fn a_folder_is_told_from_what_is_not_there() {
    let (place, listener) = (Place::new(), TcpListener::bind("127.0.0.1:0").unwrap());
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
    assert!(one_sentence(&place.haul(&["cat", &url]), 1).contains("/folder: is a folder"));
}

#[test]
fn files_are_printed_byte_for_byte() {
    let place = Place::new();
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(place.served("big"), &content).unwrap();
    fs::write(place.served("small"), "end\n").unwrap();
    let printed = place.haul(&["cat", &place.at("big"), &place.at("small")]);
    assert!(printed.status.success());
    assert!(printed.stdout == [&content[..], b"end\n"].concat());
    let missing = place.haul(&["cat", &place.at("missing"), &place.at("small")]);
    assert_eq!(text(&missing.stdout), "end\n");
    assert!(one_sentence(&missing, 1).contains("/missing"));
}

#[test]
fn a_reader_that_goes_is_no_failure() {
    let place = Place::new();
    fs::write(place.served("big"), vec![b'x'; 8_000_000]).unwrap();
    let mut child =
        place.command(&["cat", &place.at("big")]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begin = [0; 10];
    let mut reader = child.stdout.take().unwrap();
    reader.read_exact(&mut begin).unwrap();
    drop(reader);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr).as_str()), (Some(0), ""));
}

#[test]
fn folders_are_made_with_their_parents_if_asked() {
    let place = Place::new();
    printed(&place.haul(&["mkdir", &place.at("a"), &place.at("b c")]));
    assert!(one_sentence(&place.haul(&["mkdir", &place.at("a")]), 1).contains("/a/: exists already"));
    assert!(
        one_sentence(&place.haul(&["mkdir", &place.at("x/y")]), 1)
            .contains("parent folder does not exist (409); create it first")
    );
    let made = json(printed(&place.haul(&["mkdir", "-p", "--json", "-", &place.at("a/b/c")])).as_bytes(), "mkdir");
    assert_eq!(made["made"], serde_json::json!(["/a/b/", "/a/b/c/"]));
    printed(&place.haul(&["mkdir", "-p", &place.at("a/b/c")]));
    write(&place.path("served"), &[("file", "")]);
    one_sentence(&place.haul(&["mkdir", "-p", &place.at("file/x")]), 1);
    assert_eq!(tree(&place.path("served")).into_keys().collect::<Vec<_>>(), ["a/", "a/b/", "a/b/c/", "b c/", "file"]);
}

#[test]
fn a_move_replaces_a_file_and_never_a_folder() {
    let place = Place::new();
    write(&place.path("served"), &[("one", "1"), ("two", "2"), ("dir/one", "old"), ("dir/sub/x", ""), ("sub/y", "")]);
    printed(&place.haul(&["mv", &place.at("two"), &place.at("second")]));
    printed(&place.haul(&["mv", &place.at("one"), &place.at("second"), &place.at("dir")]));
    assert_eq!(fs::read(place.served("dir/one")).unwrap(), b"1");
    for (from, to, said) in [
        ("sub", "dir", "/dir/sub/: a folder exists already"),
        ("sub", "dir/one", "/dir/one/: a file exists already"),
        ("dir", "dir/sub", "/dir/: the target /dir/sub/dir/ is inside"),
        ("dir/one", "dir", "/dir/one: source and target are the same"),
        ("dir/one", "none/", "/none/: not found"),
        ("nothing", "dir", "/nothing: not found"),
    ] {
        let said_this = one_sentence(&place.haul(&["mv", &place.at(from), &place.at(to)]), 1);
        assert!(said_this.contains(said), "{said_this}");
    }
    let keys: Vec<_> = tree(&place.path("served")).into_keys().collect();
    assert_eq!(keys, ["dir/", "dir/one", "dir/second", "dir/sub/", "dir/sub/x", "sub/", "sub/y"]);
}

#[test]
fn temporary_files_are_listed_only_if_all_are_asked_for() {
    let place = Place::new();
    let left = ".a.0123456789abcdef.part";
    write(&place.path("served"), &[("d/a", "1"), (&format!("d/{left}"), "2"), ("d/.a.part", "3")]);
    for way in [&["ls"][..], &["ls", "-U"], &["ls", "-R"]] {
        let listed = |more: &[&str]| printed(&place.haul(&[way, more, &[&place.at("d")]].concat()));
        assert!(!listed(&[]).contains(left) && listed(&[]).contains(".a.part"), "{way:?}");
        assert!(listed(&["-a"]).contains(left), "{way:?}");
    }
    assert!(printed(&place.haul(&["ls", &place.at(&format!("d/{left}"))])).contains(left), "it was asked for");
}

#[test]
fn two_of_one_name_do_not_become_one() {
    for verb in ["mv", "cp"] {
        let place = Place::new();
        write(&place.path("served"), &[("a/same", "1"), ("b/same", "2"), ("dir/x", "")]);
        let said = one_sentence(&place.haul(&[verb, &place.at("a/same"), &place.at("b/same"), &place.at("dir")]), 1);
        assert!(said.contains("/b/same: another source is copied to /dir/same already"), "{said}");
        assert_eq!(fs::read(place.served("dir/same")).unwrap(), b"1");
        assert_eq!(fs::read(place.served("b/same")).unwrap(), b"2");
    }
}

#[test]
fn a_copy_on_the_server_brings_nothing_here() {
    let place = Place::new();
    write(&place.path("served"), &[("a/x", "1"), ("a/b/y", "2"), ("file", "3")]);
    let copied = place.haul(&["cp", "-r", "--json", "-", &place.at("a"), &place.at("copy")]);
    assert_eq!(json(&copied.stdout, "cp")["copied"][0], serde_json::json!({"from": "/a/", "to": "/copy/"}));
    printed(&place.haul(&["cp", &place.at("file"), &place.at("a/x")]));
    assert!(one_sentence(&place.haul(&["cp", &place.at("a"), &place.at("b")]), 1).contains("-r"));
    assert_eq!((place.requests("GET"), place.requests("PUT")), (0, 0));
    assert_eq!(fs::read(place.served("copy/x")).unwrap(), b"1");
    assert_eq!(fs::read(place.served("a/x")).unwrap(), b"3");
}

#[test]
fn only_minus_r_deletes_a_folder_and_nothing_deletes_all() {
    let place = Place::new();
    write(&place.path("served"), &[("a/x", ""), ("b", ""), ("c", "")]);
    let ended = place.haul(&["rm", &place.at("a"), &place.at("b")]);
    assert!(one_sentence(&ended, 1).contains("/a: is a folder; add -r"));
    assert!(one_sentence(&place.haul(&["rm", "-r", &place.url]), 1).contains("server's root"));
    assert!(one_sentence(&place.haul(&["rm", &place.at("b")]), 1).contains("/b: not found"));
    printed(&place.haul(&["rm", "-f", &place.at("b")]));
    let deleted = json(printed(&place.haul(&["rm", "-r", "--json", "-", &place.at("a")])).as_bytes(), "rm");
    assert_eq!(deleted["deleted"], serde_json::json!(["/a/"]));
    assert_eq!(tree(&place.path("served")).into_keys().collect::<Vec<_>>(), ["c"]);
}
