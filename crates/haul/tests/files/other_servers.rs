//! Other servers, which deviate from the RFC.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, ChildStderr, Command, Stdio},
};

use crate::{
    common::printed,
    fixture::{Fixture, tree, write},
};

/// `rclone serve webdav`, which is golang.org/x/net/webdav, as in Caddy: its lock tokens are not URIs, and no entity
/// tag in `If` ever matches.
pub(crate) struct Rclone {
    server: Child,
    pub(crate) url: String,
    /// Kept open: the server might fail to write to a closed pipe.
    _said: BufReader<ChildStderr>,
}

impl Drop for Rclone {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Serves the fixture's folder; none if rclone is not installed, which is printed.
pub(crate) fn rclone(fixture: &Fixture) -> Option<Rclone> {
    let mut command = Command::new("rclone");
    command.args(["serve", "webdav", "--addr", "127.0.0.1:0", "--config", "/dev/null"]).arg(fixture.path("served"));
    command.env("HOME", fixture.path("home")).stderr(Stdio::piped());
    let Ok(mut server) = command.spawn() else {
        eprintln!("SKIPPED: rclone as a server: it is not installed (apt install rclone)");
        return None;
    };
    let mut said = BufReader::new(server.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("http://") {
        line.clear();
        assert!(said.read_line(&mut line).expect("a line") > 0, "rclone ends without serving");
    }
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("a URL");
    Some(Rclone { server, url: url.trim_end_matches('/').to_owned(), _said: said })
}

#[test]
fn locks_staging_and_copies_work_without_etags_in_if() {
    let fixture = Fixture::new();
    let Some(rclone) = rclone(&fixture) else { return };
    write(&fixture.path(""), &[("here/file", "first"), ("here/other", "other")]);
    let (file, here) = (format!("{}/d/file", rclone.url), fixture.path("here/file"));
    let here = here.to_str().expect("a name");
    printed(&fixture.haul(&["mkdir", &format!("{}/d", rclone.url)]));
    printed(&fixture.haul(&["cp", "--lock", "always", here, &file]));
    // The lock is released.
    for (content, options) in [("second", &[][..]), ("third", &["--temporary"]), ("fourth", &["--lock", "always"])] {
        fs::write(here, content).expect("a file");
        printed(&fixture.haul(&[&["cp"], options, &[here, &file]].concat()));
        assert_eq!(fs::read_to_string(fixture.served("d/file")).expect("a file"), content, "{options:?}");
    }
    printed(&fixture.haul(&[
        "cp",
        fixture.path("here/other").to_str().expect("a name"),
        &format!("{}/d/other", rclone.url),
    ]));
    printed(&fixture.haul(&["cp", &file, &format!("{}/d/other", rclone.url)]));
    assert_eq!(fs::read_to_string(fixture.served("d/other")).expect("a file"), "fourth");
    assert_eq!(fs::read_dir(fixture.served("d")).expect("a folder").count(), 2);
}

#[test]
fn moves_and_wildcards_work_without_etags_in_if() {
    let fixture = Fixture::new();
    let Some(rclone) = rclone(&fixture) else { return };
    write(&fixture.path("here"), &[("a", "1"), ("b", "2"), ("sub/c", "3")]);
    let before = tree(&fixture.path("here"));
    let there = format!("{}/there", rclone.url);
    printed(&fixture.haul(&["mv", "here", &there]));
    assert!(tree(&fixture.served("there")) == before && !fixture.path("here").exists());
    assert_eq!(printed(&fixture.haul(&["ls", &format!("{there}/[!a]*")])), "/there/:\nb\n\n/there/sub/:\nc\n");
    printed(&fixture.haul(&["mv", &there, "back"]));
    assert!(tree(&fixture.path("back")) == before && tree(&fixture.path("served")).is_empty());
}
