//! Servers that serve names that begin with a dot, but do not list them.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use dav::transfer::{Event, Options, Watch};
use servers::{Double, behaviours::ALL};

use crate::common::{client, folder, mirror, noise, rest, up_watched, write};

/// Names at the root of the tree, and in a new folder.
const NAMES: [&str; 4] = [".hidden", "dir/.hidden", "dir/seen", "seen"];

#[tokio::test]
async fn hidden_file_is_looked_up_and_reported_once() {
    let entry = ALL.iter().find(|entry| entry.name == "hides dotfiles").expect("it is in the list");
    let double = Double::with_behaviours(vec![(entry.make)(0)]).await;
    let (_kept, here) = folder();
    let tree = NAMES.map(|name| (name.to_owned(), noise(name.len(), 1000)));
    write(&here, &tree.into());
    let notes = Arc::new(Mutex::new(Vec::new()));
    let run = async |options: &Options| {
        let heard = notes.clone();
        let watch: Watch = Arc::new(move |event: Event<'_>| {
            if let Event::Note(text) = event {
                heard.lock().unwrap().push(text.to_owned());
            }
        });
        let done = up_watched(&client(double.address, |_| ()), &here, options, &watch).await.unwrap();
        assert!(done.failed.is_empty(), "{:?}\n{}", done.failed, double.log());
        let told: Vec<String> = std::mem::take(&mut *notes.lock().unwrap());
        assert!(told.len() <= 1 && told.iter().all(|note| note.contains("begin with a dot")), "{told:?}");
        (done.files, done.skipped, told.len())
    };
    let stored = || double.log().lines().filter(|line| line.contains(" PUT ") && line.contains("/.hidden")).count();
    // A file looked up right behind its upload is not expected in a listing.
    let (files, _, _) = run(&mirror()).await;
    assert_eq!((files, stored()), (4, 2));
    // A refused upload counts as done if the file turns out to exist already.
    let (files, skipped, told) = run(&rest(&mirror())).await;
    assert!(files + skipped == 4 && skipped >= 2 && told == 1, "{files}, {skipped}, {told}\n{}", double.log());
    fs::write(here.join("dir/.hidden"), b"newer").unwrap();
    let (files, skipped, told) = run(&rest(&mirror())).await;
    assert!(files + skipped == 4 && files >= 1 && told == 1, "{files}, {skipped}, {told}\n{}", double.log());
    assert_eq!(double.files("/up")["dir/.hidden"], b"newer");
}

/// Over one connection without pipelining there are no lookups right behind uploads.
#[tokio::test]
async fn uploaded_file_that_is_not_listed_is_not_sent_again() {
    let entry = ALL.iter().find(|entry| entry.name == "hides dotfiles").expect("it is in the list");
    let double = Double::with_behaviours(vec![(entry.make)(0)]).await;
    let (_kept, here) = folder();
    write(&here, &NAMES.map(|name| (name.to_owned(), noise(name.len(), 1000))).into());
    let dav = client(double.address, |settings| {
        (settings.connections, settings.pipelining) = (1, haul_http::Pipelining::Off);
    });
    let done = up_watched(&dav, &here, &mirror(), &crate::common::deaf()).await.unwrap();
    assert!(done.failed.is_empty() && done.files == 4, "{:?}", done.failed);
    let puts = double.log().lines().filter(|line| line.contains(" PUT ")).count();
    assert_eq!(puts, 4, "{}", double.log());
}
