//! Against servers that are not ours and not as the RFC has it.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, ChildStderr, Command, Stdio},
};

use crate::{
    common::printed,
    place::{Place, write},
};

/// `rclone serve webdav`, which is golang.org/x/net/webdav, as in Caddy: its lock tokens are no URIs, and a state in
/// `If` is always another one.
struct Rclone {
    server: Child,
    url: String,
    /// Kept open: a server whose words nobody takes may fail to say them.
    _said: BufReader<ChildStderr>,
}

impl Drop for Rclone {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Serves the place's folder; none where rclone is not installed, which is said.
fn rclone(place: &Place) -> Option<Rclone> {
    let mut command = Command::new("rclone");
    command.args(["serve", "webdav", "--addr", "127.0.0.1:0", "--config", "/dev/null"]).arg(place.path("served"));
    command.env("HOME", place.path("home")).stderr(Stdio::piped());
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
fn locks_temporary_names_and_copies_work_where_states_are_not_known() {
    let place = Place::new();
    let Some(rclone) = rclone(&place) else { return };
    write(&place.path(""), &[("here/file", "first"), ("here/other", "other")]);
    let (file, here) = (format!("{}/d/file", rclone.url), place.path("here/file"));
    let here = here.to_str().expect("a name");
    printed(&place.haul(&["mkdir", &format!("{}/d", rclone.url)]));
    printed(&place.haul(&["cp", "--lock", "always", here, &file]));
    // It is not locked any more.
    for (content, options) in [("second", &[][..]), ("third", &["--temporary"]), ("fourth", &["--lock", "always"])] {
        fs::write(here, content).expect("a file");
        printed(&place.haul(&[&["cp"], options, &[here, &file]].concat()));
        assert_eq!(fs::read_to_string(place.served("d/file")).expect("a file"), content, "{options:?}");
    }
    printed(&place.haul(&[
        "cp",
        place.path("here/other").to_str().expect("a name"),
        &format!("{}/d/other", rclone.url),
    ]));
    printed(&place.haul(&["cp", &file, &format!("{}/d/other", rclone.url)]));
    assert_eq!(fs::read_to_string(place.served("d/other")).expect("a file"), "fourth");
    assert_eq!(fs::read_dir(place.served("d")).expect("a folder").count(), 2);
}
