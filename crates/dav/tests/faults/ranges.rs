//! Uploads of large files in parts, to a server like Apache.

use std::{fs, io::Write, path::Path, sync::Arc, time::Duration};

use dav::transfer::{Event, Options, Summary, Verify, Watch};
use servers::{Double, Fault, ServerProfile};
use tokio::sync::Notify;

use crate::common::{Failed, Tree, check, client, folder, lay_out_large, mirror, noise, read, rest, up, write};

const PART: usize = 4 * 1024 * 1024;

/// Twelve different parts.
fn tall(version: u8) -> Vec<u8> {
    (0..12).map(|part| vec![part * 7 + version; PART]).collect::<Vec<_>>().concat()
}

fn resume() -> Options {
    Options { resume: true, ..mirror() }
}

/// Without hidden files kept for the next run.
fn shown(mut there: Tree) -> Tree {
    there.retain(|name, _| !name.rsplit('/').next().unwrap_or_default().starts_with('.'));
    there
}

/// Uploads a tree with faults, and then again without.
async fn through(options: &Options, script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static) -> Failed {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Apache).await, folder());
    let wanted = lay_out_large(&here);
    double.put("/up/c/large", b"older", Duration::from_hours(2));
    let before = double.files("/up");
    double.script(script);
    let first = up(&client(double.address, |_| ()), &here, options).await;
    let there = double.files("/up");
    let failed = check(&wanted, &before, &if options.resume { shown(there) } else { there }, &first);
    double.clear_faults();
    complete(&double, &here, &wanted, options).await;
    failed
}

async fn complete(double: &Double, here: &Path, wanted: &Tree, options: &Options) -> Summary {
    let second = up(&client(double.address, |_| ()), here, &rest(options)).await.unwrap();
    assert!(second.failed.is_empty(), "{:?}", second.failed);
    assert!(double.files("/up") == *wanted, "the second run does not complete it");
    assert!(read(here) == *wanted, "the source was changed");
    second
}

fn is_part(method: &str, path: &str) -> bool {
    method == "PUT" && path.contains("/.large.")
}

#[tokio::test]
async fn interrupted_upload_resumes_from_trusted_parts() {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Apache).await, folder());
    let wanted = Tree::from([("large".to_owned(), tall(1))]);
    write(&here, &wanted);
    let mut parts = 0;
    double.script(move |method, path, _| {
        // The first request creates the file.
        parts += u32::from(is_part(method, path));
        (parts > 11).then_some(Fault::Respond(503, "retry-after: 7200\r\n"))
    });
    // One part at a time: otherwise another one might arrive after the fault has ended.
    let options = Options { connections: 2, ..resume() };
    let first = up(&client(double.address, |_| ()), &here, &options).await;
    let failed = check(&wanted, &Tree::new(), &shown(double.files("/up")), &first);
    assert!(failed["large"].contains("in 7200 s"), "{failed:?}");
    let (part, has) = double.files("/up").pop_first().unwrap();
    assert!(part.starts_with(".large.") && has.len() == 10 * PART, "{part} {}", has.len());
    double.clear_faults();
    double.take_stored_bytes();
    complete(&double, &here, &wanted, &options).await;
    assert_eq!(double.take_stored_bytes(), 10 * PART as u64, "two of ten parts were there for certain");

    // Parts of another version are not used.
    let newer = Tree::from([("large".to_owned(), tall(2))]);
    double.put(&format!("/up/{part}"), &has, Duration::ZERO);
    write(&here, &newer);
    double.take_stored_bytes();
    up(&client(double.address, |_| ()), &here, &options).await.unwrap();
    assert!(shown(double.files("/up")) == newer);
    assert_eq!(double.take_stored_bytes(), 12 * PART as u64);
}

#[tokio::test]
async fn server_without_partial_put_gets_the_whole_file() {
    for (manner, verify) in [
        (ServerProfile::RefusesPartialPut, Verify::Size),
        (ServerProfile::ReplacesOnPartialPut, Verify::None),
        (ServerProfile::CorruptsPartialPut, Verify::Digest),
        (ServerProfile::Plain, Verify::Size),
    ] {
        for options in [resume(), Options { temporary: true, ..mirror() }] {
            println!("{manner:?}, temporary: {}", options.temporary);
            let (double, (_kept, here)) = (Double::start_as(manner).await, folder());
            let wanted = lay_out_large(&here);
            let done = up(&client(double.address, |_| ()), &here, &Options { verify, ..options }).await.unwrap();
            assert!(done.failed.is_empty(), "{:?}", done.failed);
            assert!(double.files("/up") == wanted);
        }
    }
}

#[tokio::test]
async fn lost_part_is_sent_again() {
    for fault in
        [Fault::Reset, Fault::ResetAfterProcessing, Fault::TruncateResponse, Fault::Respond(503, "retry-after: 0\r\n")]
    {
        for options in [resume(), Options { temporary: true, ..mirror() }] {
            println!("{fault:?}, temporary: {}", options.temporary);
            let (spoilt, mut parts) = (fault.clone(), 0);
            let failed = through(&options, move |method, path, _| {
                parts += u32::from(is_part(method, path));
                (is_part(method, path) && (parts == 1 || parts == 3)).then(|| spoilt.clone())
            });
            assert_eq!(failed.await, Failed::new(), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn refused_upload_is_reported_and_no_part_is_visible() {
    for (method, fault, reason) in [
        ("PUT", Fault::Respond(507, ""), "no space left"),
        ("PUT", Fault::RespondEarly(507), "no space left"),
        ("PUT", Fault::Respond(403, ""), "permission denied"),
        ("PUT", Fault::Respond(412, ""), "somebody else"),
        ("PUT", Fault::Reset, ""),
        ("MOVE", Fault::Respond(423, ""), "locked by"),
        ("MOVE", Fault::Respond(412, ""), "somebody else"),
        ("MOVE", Fault::Respond(507, ""), "no space left"),
        ("PROPFIND", Fault::Respond(500, ""), "the server failed"),
    ] {
        // Without `resume` the failures are the same, so one is enough.
        for options in [resume(), Options { temporary: true, ..mirror() }] {
            if !options.resume && fault != Fault::Respond(507, "") {
                continue;
            }
            println!("{method} {fault:?}, temporary: {}", options.temporary);
            let (refused, mut seen) = (fault.clone(), 0);
            let failed = through(&options, move |asked, path, _| {
                let hit = asked == method && path.contains("/.large.");
                seen += u32::from(hit);
                // The second part and all later ones.
                (hit && (method != "PUT" || seen > 2)).then(|| refused.clone())
            });
            let failed = failed.await;
            assert_eq!(failed.keys().collect::<Vec<_>>(), ["c/large"], "{failed:?}");
            assert!(failed["c/large"].contains(reason), "{failed:?}");
        }
    }
}

#[tokio::test]
async fn newer_version_by_another_writer_is_kept() {
    for options in [resume(), Options { temporary: true, ..mirror() }] {
        let (double, (_kept, here)) = (Double::start_as(ServerProfile::Apache).await, folder());
        let wanted = lay_out_large(&here);
        double.put("/up/c/large", b"older", Duration::from_hours(2));
        let mut done = false;
        double.script(move |method, path, _| {
            let hit = !done && method == "MOVE" && path.contains("/.large.");
            done |= hit;
            hit.then_some(Fault::OverwrittenByOther("/up/c/large"))
        });
        let first = up(&client(double.address, |_| ()), &here, &options).await;
        let there = double.files("/up");
        let before = Tree::from([("c/large".to_owned(), vec![b'T'; 1000])]);
        let failed = check(&wanted, &before, &shown(there.clone()), &first);
        assert!(there["c/large"] == before["c/large"], "their file was overwritten unseen");
        assert!(failed["c/large"].contains("somebody else"), "{failed:?}");
    }
}

#[tokio::test]
async fn source_changed_during_the_upload_is_reported() {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Apache).await, folder());
    lay_out_large(&here);
    let (large, mut parts) = (here.join("c/large"), 0);
    double.script(move |method, path, _| {
        parts += u32::from(is_part(method, path));
        if parts == 2 {
            // In place, so that it is never shorter while it is read.
            let mut file = fs::File::options().write(true).open(&large).unwrap();
            file.write_all(&noise(3, 9_000_000)).unwrap();
        }
        None
    });
    let first = up(&client(double.address, |_| ()), &here, &resume()).await.unwrap();
    assert!(first.failed.len() == 1 && first.failed[0].1.to_string().contains("changed during"), "{:?}", first.failed);
    double.clear_faults();
    complete(&double, &here, &read(&here), &resume()).await;
}

#[tokio::test]
async fn interrupt_keeps_only_resumable_parts() {
    for options in [resume(), Options { temporary: true, ..mirror() }] {
        let (double, (_kept, here)) = (Double::start_as(ServerProfile::Apache).await, folder());
        let wanted = Tree::from([("large".to_owned(), noise(1, 9_000_000))]);
        write(&here, &wanted);
        let stop = Arc::new(Notify::new());
        let (stopping, mut parts) = (stop.clone(), 0);
        double.script(move |method, path, _| {
            parts += u32::from(is_part(method, path));
            if parts == 3 {
                stopping.notify_one();
            }
            None
        });
        let (dav, watch): (_, Watch) = (client(double.address, |_| ()), Arc::new(|_: Event<'_>| ()));
        let (sources, to) = ([here.clone()], crate::common::path("/up/"));
        dav::transfer::upload(&dav, &sources, &to, &options, &stop, &watch).await.unwrap();
        let there = double.files("/up");
        assert!(shown(there.clone()).is_empty());
        assert_eq!(there.len(), usize::from(options.resume), "{:?}", there.keys());
        complete(&double, &here, &wanted, &options).await;
    }
}
