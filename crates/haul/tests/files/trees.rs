//! `du`, `tree`, and sizes with units.

use std::{
    fs,
    io::{self, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use crate::{
    common::{one_sentence, printed, text},
    fixture::{Fixture, json, write},
    lost_responses::message,
    other_servers::rclone,
};

fn grow(fixture: &Fixture) {
    let large = "x".repeat(2000);
    let part = ".a.0123456789abcdef.part";
    write(
        &fixture.path("served"),
        &[("p/a", "12345"), ("p/s/b", &large), ("p/s/deep/c", "1"), (&format!("p/{part}"), "22")],
    );
    fs::create_dir(fixture.served("p/empty")).unwrap();
}

#[test]
fn du_adds_up_what_is_in_each_folder() {
    let fixture = Fixture::new();
    grow(&fixture);
    let du = |options: &[&str]| printed(&fixture.haul(&[&["du"], options, &[&fixture.at("p")]].concat()));
    assert_eq!(du(&[]), "0\t/p/empty/\n1\t/p/s/deep/\n2001\t/p/s/\n2008\t/p/\n");
    assert_eq!(
        (du(&["-d", "1"]), du(&["-sh"])),
        ("0\t/p/empty/\n2001\t/p/s/\n2008\t/p/\n".into(), "2.0 KiB\t/p/\n".into())
    );
    assert_eq!(printed(&fixture.haul(&["du", &fixture.at("p/a")])), "5\t/p/a\n");
    let found = json(printed(&fixture.haul(&["du", "-s", "--json", "-", &fixture.at("p")])).as_bytes(), "du");
    let expected = serde_json::json!([{"url": fixture.at("p/"), "path": "/p/", "bytes": 2008, "files": 4}]);
    assert_eq!(found["entries"], expected);
    let missing = fixture.haul(&["du", &fixture.at("none"), &fixture.at("p/s/deep")]);
    assert!(one_sentence(&missing, 1).contains("/none") && text(&missing.stdout) == "1\t/p/s/deep/\n");
}

#[test]
fn tree_is_drawn_as_by_tree() {
    let fixture = Fixture::new();
    grow(&fixture);
    let shown = |options: &[&str]| printed(&fixture.haul(&[&["tree"], options, &[&fixture.at("p")]].concat()));
    assert_eq!(
        shown(&[]),
        "/p/\n├── a\n├── empty/\n└── s/\n    ├── b\n    └── deep/\n        └── c\n\n3 folders, 3 files, 2.0 KiB\n"
    );
    assert_eq!(shown(&["-L", "1"]), "/p/\n├── a\n├── empty/\n└── s/\n\n2 folders, 1 file, 5 B\n");
    assert!(shown(&["-s"]).contains("    ├── [2000]  b\n") && shown(&["-h"]).contains("├── [    5 B]  a\n"));
    assert!(shown(&["-a"]).contains(".part"));
    let found = json(printed(&fixture.haul(&["tree", "--json", "-", &fixture.at("p")])).as_bytes(), "tree");
    assert_eq!(found["entries"].as_array().unwrap().len(), 6);
    one_sentence(&fixture.haul(&["tree", &fixture.at("none")]), 1);
}

#[test]
fn sizes_have_units_with_h_which_is_not_help() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("a", &"x".repeat(1536)), ("b", "1")]);
    let long = printed(&fixture.haul(&["ls", "-lh", &fixture.url]));
    assert!(long.starts_with("1.5 KiB  20") && long.lines().nth(1).unwrap().starts_with("    1 B  20"), "{long}");
    assert_eq!(printed(&fixture.haul(&["ls", "-h", &fixture.url])), "a\nb\n");
    for command in ["ls", "du", "tree"] {
        assert!(printed(&fixture.haul(&[command, "--help"])).contains("--human-readable"));
    }
}

/// A proxy that treats `Depth: infinity` as `Depth: 1`, as Nextcloud does; and counts the listings that it has passed on.
fn shallow(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || pass(&client, server));
        }
    });
    address
}

fn pass(mut client: &TcpStream, server: SocketAddr) -> io::Result<()> {
    let upstream = TcpStream::connect(server)?;
    let (mut requests, mut answers) = (BufReader::new(client), BufReader::new(&upstream));
    loop {
        let request = message(&mut requests)?;
        if request.is_empty() {
            return Ok(());
        }
        let request = text(&request).replace("depth: infinity", "depth: 1");
        (&upstream).write_all(request.as_bytes())?;
        client.write_all(&message(&mut answers)?)?;
    }
}

#[test]
fn server_that_lists_one_level_for_a_tree_is_not_believed() {
    let fixture = Fixture::new();
    grow(&fixture);
    let server = shallow(fixture.url.strip_prefix("http://").unwrap().parse().unwrap());
    assert_eq!(printed(&fixture.haul(&["du", "-s", &format!("http://{server}/p")])), "2008\t/p/\n");
}

#[test]
fn tree_of_a_server_that_lists_it_at_once_is_the_same() {
    let fixture = Fixture::new();
    grow(&fixture);
    let Some(rclone) = rclone(&fixture) else { return };
    let du = |url: &str| printed(&fixture.haul(&["du", &format!("{url}/p")]));
    let draw = |url: &str| printed(&fixture.haul(&["tree", "-s", &format!("{url}/p")]));
    assert_eq!(du(&rclone.url), du(&fixture.url));
    assert_eq!(draw(&rclone.url), draw(&fixture.url));
}
