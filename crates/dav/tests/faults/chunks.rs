//! Chunked uploads to a simulated Nextcloud.

use std::time::{Duration, SystemTime};

use dav::transfer::Options;
use servers::{
    Double, Fault, ServerProfile,
    nextcloud::{FILES, UPLOADS},
};

use crate::common::{Failed, Tree, check, client, deaf, folder, lay_out_large, mirror, noise, rest, up_to, write};

const CHUNK: u64 = 5_000_000;

fn resume() -> Options {
    Options { resume: true, ..mirror() }
}

fn place() -> String {
    format!("{FILES}/up")
}

async fn up(double: &Double, here: &std::path::Path, options: &Options) -> Result<dav::transfer::Summary, dav::Error> {
    up_to(&client(double.address, |_| ()), here, &format!("{}/", place()), options, &deaf()).await
}

async fn through(options: &Options, script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static) -> Failed {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
    let wanted = lay_out_large(&here);
    double.put(&format!("{}/c/large", place()), b"older", Duration::from_hours(2));
    let before = double.files(&place());
    double.script(script);
    let first = up(&double, &here, options).await;
    let failed = check(&wanted, &before, &double.files(&place()), &first);
    assert!(options.resume || double.files(UPLOADS).is_empty(), "chunks were left behind");
    double.clear_faults();
    let second = up(&double, &here, &rest(options)).await.unwrap();
    assert!(second.failed.is_empty(), "{:?}", second.failed);
    assert!(double.files(&place()) == wanted, "the second run does not complete it");
    assert!(double.files(UPLOADS).is_empty(), "chunks were left behind");
    failed
}

#[tokio::test]
async fn chunks_are_joined_and_keep_the_files_time() {
    for options in [mirror(), resume()] {
        let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
        let wanted = lay_out_large(&here);
        let done = up(&double, &here, &options).await.unwrap();
        assert_eq!((done.files, done.failed.len()), (wanted.len() as u64, 0), "{:?}", done.failed);
        assert!(double.files(&place()) == wanted && double.files(UPLOADS).is_empty());
        let age =
            |path: &str| SystemTime::now().duration_since(double.modified(&format!("{}/{path}", place()))).unwrap();
        for name in ["c/large", "c/file3", "file10"] {
            assert!(age(name) > Duration::from_mins(59), "{name} has another time");
        }
    }
}

#[tokio::test]
async fn existing_chunks_are_not_sent_again() {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
    let wanted = Tree::from([("large".to_owned(), noise(1, 4 * CHUNK as usize + 7))]);
    write(&here, &wanted);
    double.script(|method, path, _| (method == "PUT" && path.ends_with("/00003")).then_some(Fault::Reset));
    let first = up(&double, &here, &resume()).await;
    let failed = check(&wanted, &Tree::new(), &double.files(&place()), &first);
    assert!(failed.contains_key("large"), "{failed:?}");
    let kept: u64 = double.files(UPLOADS).values().map(|chunk| chunk.len() as u64).sum();
    assert!(kept >= CHUNK, "{kept}");
    double.clear_faults();
    double.take_stored_bytes();
    let second = up(&double, &here, &resume()).await.unwrap();
    assert!(second.failed.is_empty() && double.files(&place()) == wanted && double.files(UPLOADS).is_empty());
    assert_eq!(double.take_stored_bytes(), 4 * CHUNK + 7 - kept);
}

#[tokio::test]
async fn lost_chunk_is_sent_again() {
    for fault in [
        Fault::Reset,
        Fault::ResetAfterProcessing,
        Fault::TruncateResponse,
        Fault::Respond(503, "retry-after: 0\r\n"),
        // Acknowledged and lost.
        Fault::Respond(201, ""),
    ] {
        for options in [mirror(), resume()] {
            println!("{fault:?}, resume: {}", options.resume);
            let (spoilt, mut hits) = (fault.clone(), 0);
            let failed = through(&options, move |method, path, _| {
                let hit = method == "PUT" && path.ends_with("/00001");
                hits += u32::from(hit);
                (hit && hits == 1).then(|| spoilt.clone())
            });
            assert_eq!(failed.await, Failed::new(), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn lost_response_to_the_final_move_is_no_failure() {
    for (method, end) in [("MOVE", "/.file"), ("MKCOL", "")] {
        for fault in [Fault::ResetAfterProcessing, Fault::Reset, Fault::TruncateResponse] {
            println!("{method} {fault:?}");
            let (spoilt, mut hits, options) = (fault.clone(), 0, mirror());
            let failed = through(&options, move |asked, path, _| {
                let hit = asked == method && path.starts_with(UPLOADS) && path.ends_with(end);
                hits += u32::from(hit);
                (hit && hits == 1).then(|| spoilt.clone())
            });
            // An existing folder may be another writer's.
            let failed = failed.await;
            assert!(failed.is_empty() || method == "MKCOL" && failed.len() == 1, "{failed:?}");
        }
    }
}

#[tokio::test]
async fn refused_chunk_is_reported_and_no_partial_file_is_visible() {
    for (method, end, fault, reason) in [
        ("MKCOL", "", Fault::Respond(403, ""), "permission denied"),
        ("PUT", "/00002", Fault::Respond(507, ""), "no space left"),
        ("PUT", "/00002", Fault::RespondEarly(413), "larger than the server accepts"),
        ("PUT", "/00001", Fault::Reset, ""),
        ("PUT", "/00001", Fault::Respond(201, ""), "does not have"),
        ("MOVE", "/.file", Fault::Respond(423, ""), "locked by"),
        ("MOVE", "/.file", Fault::Respond(412, ""), "somebody else"),
        ("MOVE", "/.file", Fault::Respond(507, ""), "no space left"),
    ] {
        // Without `resume` the failures are the same, so one is enough.
        for options in [mirror(), resume()] {
            if !options.resume && fault != Fault::Respond(507, "") {
                continue;
            }
            println!("{method} {fault:?}, resume: {}", options.resume);
            let refused = fault.clone();
            let failed = through(&options, move |asked, path, _| {
                (asked == method && path.starts_with(UPLOADS) && path.ends_with(end)).then(|| refused.clone())
            });
            let failed = failed.await;
            assert_eq!(failed.keys().collect::<Vec<_>>(), ["c/large"], "{failed:?}");
            assert!(failed["c/large"].contains(reason), "{failed:?}");
        }
    }
}

#[tokio::test]
async fn newer_version_by_another_writer_is_kept() {
    for exists in [true, false] {
        let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
        let wanted = lay_out_large(&here);
        let large = format!("{}/c/large", place());
        if exists {
            double.put(&large, b"older", Duration::from_hours(2));
        }
        let mut done = false;
        double.script(move |method, path, _| {
            let hit = !done && method == "MOVE" && path.ends_with("/.file");
            done |= hit;
            hit.then(|| Fault::OverwrittenByOther(large.clone().leak()))
        });
        let first = up(&double, &here, &mirror()).await;
        let there = double.files(&place());
        let before = Tree::from([("c/large".to_owned(), vec![b'T'; 1000])]);
        let failed = check(&wanted, &before, &there, &first);
        assert!(there["c/large"] == before["c/large"], "their file was overwritten unseen");
        assert!(failed["c/large"].contains("somebody else"), "{failed:?}");
        assert!(double.files(UPLOADS).is_empty(), "chunks were left behind");
    }
}
