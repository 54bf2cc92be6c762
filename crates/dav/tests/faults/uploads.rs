//! Uploads.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use dav::{
    LockPolicy,
    transfer::{Options, Summary},
};
use tokio::sync::Notify;

use super::{on_each, pairs};
use servers::{Double, Fault};

use crate::common::{
    Failed, Tree, check, client, deaf, folder, lay_out, lay_out_for_ranges, lay_out_large, mirror, read, rest, up,
    up_to,
};

/// Uploads a tree with faults, over an older version of some files, and then again without.
async fn through(options: &Options, script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static) -> Failed {
    through_with(lay_out, options, script).await
}

async fn through_with(
    lay_out: fn(&Path) -> Tree,
    options: &Options,
    script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static,
) -> Failed {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    for name in ["file3", "a/file4", "c/file9"] {
        double.put(&format!("/up/{name}"), b"older", Duration::from_hours(2));
    }
    let before = double.files("/up");
    double.script(script);
    let first = up(&client(double.address, |_| ()), &here, options).await;
    let failed = check(&wanted, &before, &double.files("/up"), &first);
    double.clear_faults();
    complete(&double, &here, &wanted, options).await;
    failed
}

/// The run after the fault.
async fn complete(double: &Double, here: &Path, wanted: &Tree, options: &Options) -> Summary {
    let second = up(&client(double.address, |_| ()), here, &rest(options)).await.unwrap();
    assert!(second.failed.is_empty(), "{:?}", second.failed);
    assert!(double.files("/up") == *wanted, "the second run does not complete it");
    assert_eq!(double.locks(), 0, "a lock was left behind");
    assert!(read(here) == *wanted, "the source was changed");
    second
}

/// The fault, for the first requests of this method whose path has this suffix.
fn first(
    times: usize,
    method: &'static str,
    end: &'static str,
    fault: Fault,
) -> impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static {
    let mut left = times;
    move |asked, path, _| {
        let hit = left > 0 && asked == method && path.contains("/up") && path.ends_with(end);
        left -= usize::from(hit);
        hit.then(|| fault.clone())
    }
}

/// The fault, once for every n-th file.
fn once_each(method: &'static str, every: u64, fault: Fault) -> impl FnMut(&str, &str, u64) -> Option<Fault> + Send {
    let mut seen = BTreeSet::new();
    let mut count = 0;
    move |asked, path, _| {
        if asked != method || !seen.insert(path.to_owned()) {
            return None;
        }
        count += 1;
        (count % every == 0).then(|| fault.clone())
    }
}

/// Direct and staged uploads.
fn ways() -> Vec<Options> {
    vec![mirror(), Options { temporary: true, ..mirror() }]
}

#[tokio::test]
async fn temporary_faults_lose_no_file() {
    let faults = [
        Fault::Reset,
        Fault::ResetAfterProcessing,
        Fault::TruncateResponse,
        Fault::OmitResponse,
        Fault::SwapResponses,
        Fault::EndlessHeader,
        Fault::Silence,
        Fault::Respond(503, "retry-after: 1\r\n"),
        Fault::Respond(429, "retry-after: 0\r\n"),
    ];
    on_each(pairs(faults, &ways()), async |(fault, options)| {
        println!("{fault:?}, temporary: {}", options.temporary);
        let failed = through_with(lay_out_for_ranges, &options, once_each("PUT", 9, fault.clone())).await;
        assert_eq!(failed, Failed::new(), "{fault:?}");
    })
    .await;
}

#[tokio::test]
async fn large_upload_without_a_response_is_looked_up() {
    // With and without effect, for a new and for an existing file.
    on_each(pairs([Fault::Silence, Fault::OmitResponse], &[false, true]), async |(fault, older)| {
        let (double, (_kept, here)) = (Double::start().await, folder());
        let wanted = lay_out_large(&here);
        if older {
            double.put("/up/c/large", b"older", Duration::from_hours(2));
        }
        double.script(first(1, "PUT", "c/large", fault.clone()));
        let outcome = up(&client(double.address, |_| ()), &here, &mirror()).await.unwrap();
        assert!(outcome.failed.is_empty() && double.files("/up") == wanted, "{fault:?}: {:?}", outcome.failed);
        let large = wanted["c/large"].len() as u64;
        assert!(double.take_stored_bytes() < 2 * large, "{fault:?}: what was done was done twice");
    })
    .await;
}

#[tokio::test]
async fn another_writers_file_stays_if_the_upload_got_no_response() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out_large(&here);
    let asked = Arc::new(Notify::new());
    let asks = asked.clone();
    double.script(move |method, path, _| {
        let hit = method == "PUT" && path == "/up/c/large";
        hit.then(|| {
            asks.notify_one();
            Fault::Silence
        })
    });
    let theirs = vec![b'T'; 1000];
    let dav = client(double.address, |_| ());
    let options = mirror();
    let (outcome, ()) = tokio::join!(up(&dav, &here, &options), async {
        asked.notified().await;
        double.put("/up/c/large", &theirs, Duration::ZERO);
    });
    let before = Tree::from([("c/large".into(), theirs.clone())]);
    let failed = check(&wanted, &before, &double.files("/up"), &outcome);
    assert!(failed["c/large"].contains("outcome unknown") && failed.len() == 1, "{failed:?}");
    assert!(double.files("/up")["c/large"] == theirs);
}

#[tokio::test]
async fn mkcol_and_move_survive_a_lost_response() {
    for (method, fault) in [
        ("MKCOL", Fault::ResetAfterProcessing),
        ("MKCOL", Fault::Reset),
        ("PROPFIND", Fault::Reset),
        ("PROPFIND", Fault::TruncateResponse),
        ("MOVE", Fault::ResetAfterProcessing),
        ("MOVE", Fault::Reset),
        ("DELETE", Fault::ResetAfterProcessing),
    ] {
        println!("{method} {fault:?}");
        let options = Options { temporary: true, ..mirror() };
        through(&options, once_each(method, 2, fault)).await;
    }
}

#[tokio::test]
async fn refused_request_is_reported_with_its_reason() {
    let faults = [
        (Fault::Respond(507, ""), "no space left"),
        (Fault::RespondEarly(507), "no space left"),
        (Fault::Respond(423, ""), "locked by"),
        (Fault::Respond(412, ""), "somebody else has changed or created it"),
        (Fault::Respond(403, ""), "permission denied"),
        (Fault::Respond(503, "retry-after: 7200\r\n"), "in 7200 s"),
        (Fault::Respond(429, "retry-after: 0\r\n"), "too busy"),
        (Fault::Reset, ""),
    ];
    on_each(pairs(faults, &ways()), async |((fault, reason), options)| {
        println!("{fault:?}, temporary: {}", options.temporary);
        let refused = fault.clone();
        let failed = through(&options, move |method, path, _| {
            let hit = method == "PUT" && (path == "/up/a/file10" || path.contains("/a/.file10"));
            hit.then(|| refused.clone())
        });
        let failed = failed.await;
        assert_eq!(failed.keys().collect::<Vec<_>>(), ["a/file10"], "{fault:?}: {failed:?}");
        assert!(failed["a/file10"].contains(reason), "{fault:?}: {failed:?}");
    })
    .await;
}

#[tokio::test]
async fn upload_with_unreadable_response_is_done_if_the_file_exists() {
    on_each(pairs([Fault::EndlessHeader, Fault::TricklingHeader], &ways()), async |(fault, options)| {
        let unread = fault.clone();
        let failed = through(&options, move |method, path, _| {
            let hit = method == "PUT" && (path == "/up/a/file10" || path.contains("/a/.file10"));
            hit.then(|| unread.clone())
        });
        let failed = failed.await;
        assert!(failed.is_empty(), "{fault:?}: {failed:?}");
    })
    .await;
}

/// A LOCK of a new name creates an empty file. If the upload then fails, the file is deleted, and if that is refused,
/// deleted again later.
#[tokio::test]
async fn empty_file_created_by_lock_is_deleted() {
    let mut refused = 0;
    let options = Options { lock: LockPolicy::Always, ..mirror() };
    let failed = through(&options, move |method, path, _| match (method, path) {
        ("PUT", "/up/a/file10") => Some(Fault::Respond(507, "")),
        // More often than the engine retries.
        ("DELETE", "/up/a/file10") if refused < 4 => {
            refused += 1;
            Some(Fault::Respond(412, ""))
        }
        _ => None,
    });
    let failed = failed.await;
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["a/file10"]);
}

/// On some servers no entity tag in `If` ever matches.
#[tokio::test]
async fn server_without_etags_in_if_gets_requests_without_them() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out_large(&here);
    double.put("/up/file10", b"older", Duration::from_hours(2));
    let mut left = 1;
    double.script(move |method, path, _| {
        let hit = left > 0 && method == "MOVE" && path.contains("file10");
        left -= u32::from(hit);
        hit.then_some(Fault::Respond(412, ""))
    });
    let outcome = up(&client(double.address, |_| ()), &here, &Options { temporary: true, ..mirror() }).await.unwrap();
    assert!(outcome.failed.is_empty() && double.files("/up") == wanted, "{:?}", outcome.failed);
}

/// Some servers create missing parents, and so the target folder itself.
#[tokio::test]
async fn possible_target_folder_is_not_created_inside_itself() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    fs::write(here.join("file"), b"content").unwrap();
    double.put("/up/kept", b"kept", Duration::ZERO);
    let options = Options { contents: false, ..mirror() };
    let outcome = up_to(&client(double.address, |_| ()), &here, "/up/new", &options, &deaf()).await.unwrap();
    assert!(outcome.failed.is_empty() && double.files("/up/new")["file"] == b"content");
    assert!(!double.log().contains("MKCOL /up/new/tree"), "{}", double.log());
}

/// Nor does a temporary file, whatever the server answers.
#[tokio::test]
async fn staged_file_is_deleted_if_the_rename_fails() {
    let mut answers = [403, 404, 403, 500].into_iter();
    let options = Options { temporary: true, ..mirror() };
    let failed = through(&options, move |method, path, _| match method {
        "MOVE" | "DELETE" if path.contains("/a/.file10") => answers.next().map(|status| Fault::Respond(status, "")),
        _ => None,
    });
    let failed = failed.await;
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["a/file10"]);
}

#[tokio::test]
async fn endless_response_body_is_abandoned() {
    let faults = [Fault::EndlessBody, Fault::TricklingBody, Fault::TruncateWithoutLength];
    on_each(pairs(faults, &["PUT", "MKCOL", "PROPFIND"]), async |(fault, method)| {
        println!("{method} {fault:?}");
        through(&mirror(), first(2, method, "", fault)).await;
    })
    .await;
}

#[tokio::test]
async fn another_writers_file_of_equal_length_is_not_taken_for_ours() {
    for options in [mirror(), Options { temporary: true, ..mirror() }] {
        let (double, (_kept, here)) = (Double::start().await, folder());
        let wanted = lay_out(&here);
        let last = if options.temporary { "MOVE" } else { "PUT" };
        let mut done = false;
        double.script(move |method, path, _| {
            let hit = !done && method == last && path.contains("file5") && path.contains("/a/");
            done |= hit;
            hit.then_some(Fault::OverwrittenByOther("/up/a/file5"))
        });
        let first = up(&client(double.address, |_| ()), &here, &options).await;
        let theirs: Vec<u8> = vec![b'T'; 1000];
        let there = double.files("/up");
        assert!(there["a/file5"] == theirs, "their file was overwritten unseen");
        let before = Tree::from([("a/file5".to_owned(), theirs)]);
        let failed = check(&wanted, &before, &there, &first);
        assert_eq!(failed.keys().collect::<Vec<_>>(), ["a/file5"], "{failed:?}");
        assert!(failed["a/file5"].contains("somebody else"), "{failed:?}");
    }
}

#[tokio::test]
async fn upload_completes_after_a_server_restart() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out_for_ranges(&here);
    let (reached, mut puts) = (Arc::new(Notify::new()), 0);
    let reach = reached.clone();
    double.script(move |method, _, _| {
        puts += u32::from(method == "PUT");
        if puts == 15 {
            reach.notify_one();
        }
        None
    });
    let dav = client(double.address, |_| ());
    let options = mirror();
    let (first, ()) = tokio::join!(up(&dav, &here, &options), async {
        reached.notified().await;
        double.kill().await;
    });
    let failed = check(&wanted, &Tree::new(), &double.files("/up"), &first);
    assert!(failed.values().all(|why| why.contains("refused") || why.contains("reset")), "{failed:?}");
    double.clear_faults();
    double.restart().await;
    complete(&double, &here, &wanted, &options).await;
}

#[tokio::test]
async fn vanished_folder_loses_only_its_files() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    // The folder seems to be missing from its third file on.
    let mut puts = 0;
    double.script(move |method, path, _| {
        if !path.contains("/a/") || method == "MKCOL" {
            return None;
        }
        puts += u32::from(method == "PUT");
        match method {
            "PUT" if puts > 2 => Some(Fault::Respond(409, "")),
            "PROPFIND" => Some(Fault::Respond(404, "")),
            _ => None,
        }
    });
    let first = up(&client(double.address, |_| ()), &here, &mirror()).await;
    let failed = check(&wanted, &Tree::new(), &double.files("/up"), &first);
    assert!(!failed.is_empty() && failed.keys().all(|name| name.starts_with("a/")), "{failed:?}");
    double.clear_faults();
    complete(&double, &here, &wanted, &mirror()).await;
}

#[tokio::test]
async fn failed_verification_names_the_unverified_files() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    double.script(|method, path, _| (method == "PROPFIND" && path == "/up/c").then_some(Fault::Respond(500, "")));
    let first = up(&client(double.address, |_| ()), &here, &mirror()).await;
    let failed = check(&wanted, &Tree::new(), &double.files("/up"), &first);
    let named: Vec<_> = wanted.keys().filter(|name| name.starts_with("c/")).collect();
    assert_eq!(failed.keys().collect::<Vec<_>>(), named);
    assert!(failed.values().all(|why| why.contains("the server failed")), "{failed:?}");
    double.clear_faults();
    let second = complete(&double, &here, &wanted, &mirror()).await;
    assert_eq!(second.files, 0, "all of it was there already");
}

#[tokio::test]
async fn acknowledged_but_missing_file_is_sent_again() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    // Acknowledged and lost.
    double.script(first(2, "PUT", "a/file6", Fault::Respond(201, "")));
    let first = up(&client(double.address, |_| ()), &here, &mirror()).await;
    let failed = check(&wanted, &Tree::new(), &double.files("/up"), &first);
    assert!(failed["a/file6"].contains("no such file"), "{failed:?}");
    complete(&double, &here, &wanted, &mirror()).await;
}

#[tokio::test]
async fn interrupt_leaves_no_temporary_file() {
    for at in [3, 20, 40] {
        let (double, (_kept, here)) = (Double::start().await, folder());
        let wanted = lay_out_for_ranges(&here);
        let (stop, mut puts) = (Arc::new(Notify::new()), 0);
        let stopping = stop.clone();
        double.script(move |method, _, _| {
            puts += u32::from(method == "PUT");
            if puts == at {
                stopping.notify_one();
            }
            None
        });
        let dav = client(double.address, |_| ());
        let options = Options { temporary: true, ..mirror() };
        let watch: dav::transfer::Watch = Arc::new(|_: dav::transfer::Event<'_>| ());
        let to = crate::common::path("/up/");
        let summary =
            dav::transfer::upload(&dav, std::slice::from_ref(&here), &to, &options, &stop, &watch).await.unwrap();
        let there = double.files("/up");
        assert!(summary.files <= there.len() as u64);
        for (name, content) in &there {
            assert!(wanted.get(name) == Some(content), "{name}");
        }
        complete(&double, &here, &wanted, &options).await;
    }
}

#[tokio::test]
async fn file_changed_or_deleted_during_the_upload_is_reported() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out_for_ranges(&here);
    let (large, small) = (here.join("c/large"), here.join("c/file6"));
    double.script(move |method, _, _| {
        if method == "MKCOL" {
            // It is listed already, but not read yet.
            let _ = fs::File::options().write(true).open(&large).and_then(|file| file.set_len(5_000_000));
            let _ = fs::remove_file(&small);
        }
        None
    });
    let outcome = up(&client(double.address, |_| ()), &here, &mirror()).await.unwrap();
    let failed: Vec<_> = outcome.failed.iter().map(|(path, why)| format!("{path}: {why}")).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.iter().any(|why| why.contains("cannot read") && why.contains("c/file6")), "{failed:?}");
    assert!(failed.iter().any(|why| why.contains("during the upload")), "{failed:?}");
    let there = double.files("/up");
    assert_eq!(there.len(), wanted.len() - 2);
}
