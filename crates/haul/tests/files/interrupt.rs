//! Ctrl-C leaves no partial files on either side.

use std::{fs, process::Stdio};

use nix::sys::signal::Signal;

use crate::{
    common::{Running, eventually, printed},
    fixture::{Fixture, tree, write},
};

#[test]
fn interrupted_upload_leaves_no_temporary_file_and_no_lock() {
    let fixture = Fixture::new();
    let source = fs::File::create(fixture.path("big")).unwrap();
    source.set_len(4 << 30).unwrap();
    let mut command = fixture.command(&["cp", "big", &fixture.at("big"), "--temporary", "--lock", "always"]);
    command.stderr(fs::File::create(fixture.path("said")).unwrap());
    let mut running = Running::start(command);
    assert!(eventually(|| fs::read_dir(fixture.path("served"))
        .unwrap()
        .flatten()
        .any(|entry| { entry.metadata().is_ok_and(|about| about.len() > 1_000_000) })));
    running.send(Signal::SIGINT);
    assert_eq!(running.status().code(), Some(1));
    let said = fs::read_to_string(fixture.path("said")).unwrap();
    assert_eq!(said.matches("interrupted").count(), 1, "{said}");
    // The server may notice the broken upload later.
    assert!(eventually(|| tree(&fixture.path("served")).is_empty()), "{:?}", tree(&fixture.path("served")).keys());
    // Deleting the file releases its lock; otherwise this would be refused.
    write(&fixture.path("."), &[("small", "content")]);
    printed(&fixture.haul(&["cp", "small", &fixture.at("big"), "--lock", "always"]));
}

#[test]
fn interrupted_download_leaves_no_partial_file() {
    let fixture = Fixture::new();
    fs::File::create(fixture.served("big")).unwrap().set_len(4 << 30).unwrap();
    fs::create_dir(fixture.path("here")).unwrap();
    let mut command = fixture.command(&["cp", &fixture.at("big"), "here"]);
    command.stderr(Stdio::null());
    let mut running = Running::start(command);
    assert!(eventually(|| fs::read_dir(fixture.path("here"))
        .unwrap()
        .flatten()
        .any(|entry| { entry.metadata().is_ok_and(|about| about.len() > 1_000_000) })));
    running.send(Signal::SIGTERM);
    assert_eq!(running.status().code(), Some(1));
    assert!(tree(&fixture.path("here")).is_empty());
}
