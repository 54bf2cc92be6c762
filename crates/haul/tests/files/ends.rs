//! Ctrl-C: nothing half done is left on either side.

use std::{fs, process::Stdio};

use nix::sys::signal::Signal;

use crate::{
    common::{Running, eventually, printed},
    place::{Place, tree, write},
};

#[test]
fn an_interrupted_upload_leaves_no_temporary_name_and_no_lock() {
    let place = Place::new();
    let source = fs::File::create(place.path("big")).unwrap();
    source.set_len(20 << 30).unwrap();
    let mut command = place.command(&["cp", "big", &place.at("big"), "--temporary", "--lock", "always"]);
    command.stderr(Stdio::null());
    let mut running = Running::start(command);
    assert!(eventually(|| fs::read_dir(place.path("served"))
        .unwrap()
        .flatten()
        .any(|entry| { entry.metadata().is_ok_and(|about| about.len() > 1_000_000) })));
    running.send(Signal::SIGINT);
    assert_eq!(running.status().code(), Some(1));
    // The server hears of the broken upload in its own time.
    assert!(eventually(|| tree(&place.path("served")).is_empty()), "{:?}", tree(&place.path("served")).keys());
    // With the file goes its lock; if not, this would be refused.
    write(&place.path("."), &[("small", "content")]);
    printed(&place.haul(&["cp", "small", &place.at("big"), "--lock", "always"]));
}

#[test]
fn an_interrupted_download_leaves_no_part() {
    let place = Place::new();
    fs::File::create(place.served("big")).unwrap().set_len(20 << 30).unwrap();
    fs::create_dir(place.path("here")).unwrap();
    let mut command = place.command(&["cp", &place.at("big"), "here"]);
    command.stderr(Stdio::null());
    let mut running = Running::start(command);
    assert!(eventually(|| fs::read_dir(place.path("here"))
        .unwrap()
        .flatten()
        .any(|entry| { entry.metadata().is_ok_and(|about| about.len() > 1_000_000) })));
    running.send(Signal::SIGTERM);
    assert_eq!(running.status().code(), Some(1));
    assert!(tree(&place.path("here")).is_empty());
}
