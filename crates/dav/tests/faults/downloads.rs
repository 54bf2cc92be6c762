//! Downloads.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use dav::transfer::Options;
use haul_http::Timeouts;
use tokio::time::timeout;

use super::{on_each, pairs};
use servers::{Double, Fault};

use crate::common::{
    Failed, Tree, check, client, down, folder, lay_out, lay_out_for_ranges, mirror, read, rest, write,
};

async fn filled(lay_out: fn(&Path) -> Tree) -> (Double, Tree) {
    let (double, (_kept, source)) = (Double::start().await, folder());
    let tree = lay_out(&source);
    for (name, content) in &tree {
        double.put(&format!("/up/{name}"), content, Duration::from_hours(1));
    }
    (double, tree)
}

/// Downloads a tree with faults, over an older version of some files, and then again without.
async fn through(
    lay_out: fn(&Path) -> Tree,
    script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static,
) -> Failed {
    let ((double, wanted), (_kept, here)) = (filled(lay_out).await, folder());
    let before: Tree =
        ["file3", "a/file4", "c/large"].into_iter().map(|name| (name.into(), b"older".to_vec())).collect();
    write(&here, &before);
    double.script(script);
    let first = down(&client(double.address, |_| ()), &here, &mirror()).await;
    let failed = check(&wanted, &before, &read(&here), &first);
    double.clear_faults();
    complete(&double, &here, &wanted).await;
    failed
}

async fn complete(double: &Double, here: &Path, wanted: &Tree) {
    let second = down(&client(double.address, |_| ()), here, &rest(&mirror())).await.unwrap();
    assert!(second.failed.is_empty(), "{:?}", second.failed);
    assert!(read(here) == *wanted, "the second run does not complete it");
    assert!(double.files("/up") == *wanted, "the source was changed");
    let third = down(&client(double.address, |_| ()), here, &rest(&mirror())).await.unwrap();
    assert_eq!((third.files, third.skipped), (0, wanted.len() as u64));
}

fn once_each(method: &'static str, every: u64, fault: Fault) -> impl FnMut(&str, &str, u64) -> Option<Fault> + Send {
    let (mut seen, mut count) = (BTreeSet::new(), 0);
    move |asked, path, _| {
        if asked != method || path.ends_with("large") || !seen.insert(path.to_owned()) {
            return None;
        }
        count += 1;
        (count % every == 0).then(|| fault.clone())
    }
}

#[tokio::test]
async fn temporary_faults_lose_no_file() {
    let faults = [
        Fault::Reset,
        Fault::ResetAfterProcessing,
        Fault::TruncateResponse,
        Fault::TruncateWithoutLength,
        Fault::OmitResponse,
        Fault::SwapResponses,
        Fault::WrongDigest,
        Fault::EndlessHeader,
        Fault::EndlessBody,
        Fault::TricklingHeader,
        Fault::TricklingBody,
        Fault::Silence,
        Fault::Respond(503, "retry-after: 1\r\n"),
        Fault::Respond(429, "retry-after: 0\r\n"),
    ];
    on_each(faults, async |fault| {
        println!("{fault:?}");
        let failed = through(lay_out_for_ranges, once_each("GET", 9, fault.clone())).await;
        assert_eq!(failed, Failed::new(), "{fault:?}");
    })
    .await;
}

#[tokio::test]
async fn permanent_failure_is_reported_with_its_reason() {
    let faults = [
        (Fault::Respond(403, ""), "permission denied"),
        (Fault::Respond(404, ""), "not found"),
        (Fault::Respond(503, "retry-after: 7200\r\n"), "in 7200 s"),
        (Fault::WrongDigest, "discard it and retry"),
        (Fault::TruncateResponse, "closed the connection unexpectedly"),
        (Fault::TruncateWithoutLength, "bytes"),
        (Fault::EndlessHeader, "response header"),
        (Fault::EndlessBody, ""),
        (Fault::TricklingHeader, "stalled"),
        (Fault::TricklingBody, "stalled"),
        (Fault::Silence, "no response"),
    ];
    on_each(pairs(faults, &["a/file10", "c/large"]), async |((fault, reason), victim)| {
        println!("{fault:?} {victim}");
        let spoilt = fault.clone();
        let hit = move |method: &str, path: &str, _| {
            (method == "GET" && path == format!("/up/{victim}")).then(|| spoilt.clone())
        };
        let lay_out = if victim == "c/large" { lay_out_for_ranges } else { lay_out };
        let failed = through(lay_out, hit).await;
        assert_eq!(failed.keys().collect::<Vec<_>>(), [victim], "{fault:?}: {failed:?}");
        assert!(victim == "c/large" || failed[victim].contains(reason), "{fault:?}: {failed:?}");
    })
    .await;
}

#[tokio::test]
async fn failed_listing_loses_only_its_folder() {
    let faults = [
        Fault::TruncateResponse,
        Fault::TruncateWithoutLength,
        Fault::EndlessHeader,
        Fault::EndlessBody,
        Fault::TricklingBody,
        Fault::Respond(500, ""),
        Fault::Respond(404, ""),
    ];
    on_each(faults, async |fault| {
        println!("{fault:?}");
        let spoilt = fault.clone();
        let hit = move |method: &str, path: &str, _| (method == "PROPFIND" && path == "/up/a").then(|| spoilt.clone());
        let failed = through(lay_out, hit).await;
        assert_eq!(failed.keys().collect::<Vec<_>>(), ["a"], "{fault:?}: {failed:?}");
    })
    .await;
}

#[tokio::test]
async fn local_files_stay_if_a_mirror_cannot_be_listed() {
    let ((double, wanted), (_kept, here)) = (filled(lay_out).await, folder());
    write(&here, &wanted);
    double.script(|method, path, _| (method == "PROPFIND" && path == "/up/a").then_some(Fault::TruncateResponse));
    let options = Options { delete: true, ..mirror() };
    let outcome = down(&client(double.address, |_| ()), &here, &rest(&options)).await.unwrap();
    assert_eq!((outcome.deleted, outcome.failed.len()), (0, 1));
    assert!(read(&here) == wanted);
}

#[tokio::test]
async fn long_names_are_downloaded() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let name = "n".repeat(255);
    double.put(&format!("/up/{name}"), b"content", Duration::from_hours(1));
    let outcome = down(&client(double.address, |_| ()), &here, &mirror()).await.unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    assert_eq!(fs::read(here.join(&name)).unwrap(), b"content");
}

#[tokio::test]
async fn late_last_small_file_is_requested_a_second_time() {
    for fault in [Fault::Silence, Fault::TricklingBody] {
        let ((double, wanted), (_kept, here)) = (filled(lay_out_for_ranges).await, folder());
        let mut once = Some(fault.clone());
        double.script(move |method, path, _| if method == "GET" && path == "/up/a/file9" { once.take() } else { None });
        // Only the second request ends the wait in time.
        let long = Duration::from_mins(2);
        let patient = client(double.address, |settings| {
            settings.timeouts = Timeouts { first_byte: long, pipelined: long, stall: long, ..settings.timeouts };
        });
        let outcome = timeout(Duration::from_secs(30), down(&patient, &here, &mirror())).await;
        let outcome = outcome.expect("the download waits for the first answer").unwrap();
        assert!(outcome.failed.is_empty(), "{fault:?}: {:?}", outcome.failed);
        // Nothing of the first attempt is left.
        assert!(read(&here) == wanted, "{fault:?}");
        assert_eq!(double.log().matches("GET /up/a/file9").count(), 2, "{fault:?}: {}", double.log());
    }
}

/// The stall timeout is the default, and must not be reached.
#[tokio::test]
async fn too_long_content_length_is_reported_and_not_retried() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let sizes = [100, 1000, 70_000, 300_000, 9_000_000];
    for size in sizes {
        double.put(&format!("/up/file{size}"), &vec![b'x'; size], Duration::from_hours(1));
    }
    double.script(|method, _, _| (method == "GET").then_some(Fault::LengthTooLong));
    let dav = client(double.address, |settings| settings.timeouts = Timeouts::default());
    let outcome = timeout(Timeouts::default().stall, down(&dav, &here, &mirror())).await;
    let outcome = outcome.unwrap_or_else(|_| panic!("it waits for what never comes: {}", double.log())).unwrap();
    assert_eq!((outcome.files, outcome.failed.len()), (0, sizes.len()), "{outcome:?}");
    for (path, why) in &outcome.failed {
        let why = why.to_string();
        // With pipelining, the missing bytes are taken from the next response.
        assert!(why.contains("announces") || why.contains("sent more than"), "{path}: {why}");
        // Perhaps once with other requests on the connection, and once alone.
        let name = path.rsplit('/').next().unwrap();
        let asked = double.log().lines().filter(|line| line.contains(&format!(" GET /up/{name} "))).count();
        assert!(asked <= 3 || name == "file9000000", "{name} was asked for {asked} times");
    }
}
