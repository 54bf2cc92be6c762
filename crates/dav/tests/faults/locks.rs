//! Locks around writes.

use std::time::Duration;

use dav::{
    If, LockPolicy, Precondition, RemotePath,
    transfer::{HeldLocks, LockLog, Options},
};
use haul_http::{Body, Settings};
use http::HeaderMap;
use servers::{Double, Fault};

use tokio::time::{sleep, timeout};

use crate::common::{Failed, PATIENCE, Tree, check, client, folder, lay_out, mirror, path, rest, up};

#[tokio::test]
async fn faults_leave_no_lock_and_no_empty_file() {
    for (method, fault) in [
        ("PUT", Fault::Reset),
        ("PUT", Fault::ResetAfterProcessing),
        ("PUT", Fault::Respond(507, "")),
        ("LOCK", Fault::Reset),
        ("LOCK", Fault::ResetAfterProcessing),
        ("LOCK", Fault::Respond(503, "retry-after: 1\r\n")),
        ("UNLOCK", Fault::Reset),
        ("UNLOCK", Fault::ResetAfterProcessing),
    ] {
        println!("{method} {fault:?}");
        let options = Options { lock: LockPolicy::Always, ..mirror() };
        let (double, (_kept, here)) = (Double::start().await, folder());
        let wanted = lay_out(&here);
        double.put("/up/file3", b"older", Duration::from_hours(2));
        let before = double.files("/up");
        let spoilt = fault.clone();
        let mut count = 0;
        double.script(move |asked, _, _| {
            count += u32::from(asked == method);
            (asked == method && count % 7 == 0).then(|| spoilt.clone())
        });
        let first = up(&client(double.address, |_| ()), &here, &options).await;
        check(&wanted, &before, &double.files("/up"), &first);
        assert_eq!(double.locks(), 0, "{method} {fault:?} left a lock");
        double.clear_faults();
        let second = up(&client(double.address, |_| ()), &here, &rest(&options)).await.unwrap();
        assert!(second.failed.is_empty(), "{:?}", second.failed);
        assert!(double.files("/up") == wanted);
        assert_eq!(double.locks(), 0);
    }
}

#[tokio::test]
async fn a_writer_that_ends_before_its_answer_leaves_nobody_waiting() {
    for method in ["LOCK", "UNLOCK"] {
        let (double, file) = (Double::start().await, path("/file"));
        double.put("/file", b"content", Duration::from_hours(1));
        let locks = HeldLocks::new(client(double.address, |_| ()), LockPolicy::OnEdit, "ann");
        double.script(move |asked, _, _| (asked == method).then_some(Fault::Silence));
        let write = async {
            let locked = locks.acquire(&file, true).await;
            locks.release(&file, true).await;
            locked
        };
        // Its task ends, as in a panic.
        assert!(timeout(Duration::from_millis(500), write).await.is_err(), "control: {method} is answered");
        double.clear_faults();
        let next = timeout(PATIENCE, locks.acquire(&file, true)).await;
        assert!(next.expect("it does not wait for the first").is_ok(), "{method}: {}", double.log());
        locks.release(&file, true).await;
        locks.release_all().await;
        assert_eq!(double.locks(), 0, "{method}: {}", double.log());
    }
}

/// An upload under locks with faults, after which nothing is locked, and a second one that completes it. Returns the
/// failures of the first.
async fn locks_amid(
    settings: impl FnOnce(&mut Settings),
    script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static,
) -> Failed {
    let options = Options { lock: LockPolicy::Always, ..mirror() };
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    double.script(script);
    let first = up(&client(double.address, settings), &here, &options).await;
    let failed = check(&wanted, &Tree::new(), &double.files("/up"), &first);
    assert_eq!(double.locks(), 0, "{}", double.log());
    double.clear_faults();
    let second = up(&client(double.address, |_| ()), &here, &rest(&options)).await.unwrap();
    assert!(second.failed.is_empty() && double.files("/up") == wanted);
    failed
}

/// The refusal is for the lookup, not for the LOCK, which may have been granted.
#[tokio::test]
async fn lock_whose_response_and_lookup_were_lost_is_released_at_the_end() {
    let (mut granted, mut looked) = (false, false);
    let script = move |method: &str, path: &str, _: u64| match (method, path) {
        ("LOCK", "/up/a/file3") if !std::mem::replace(&mut granted, true) => Some(Fault::ResetAfterProcessing),
        ("PROPFIND", "/up/a/file3") if !std::mem::replace(&mut looked, true) => Some(Fault::Respond(403, "")),
        _ => None,
    };
    locks_amid(|_| (), script).await;
}

/// If a server omits a response, each later one is taken for its predecessor's: the refusal of an UNLOCK looks like a
/// success, until the last response is missing.
#[tokio::test]
async fn shifted_responses_leave_no_lock() {
    let mut count = 0;
    let script = move |method: &str, _: &str, _: u64| {
        count += u32::from(method == "UNLOCK");
        match (method, count) {
            ("UNLOCK", 4 | 12 | 20) => Some(Fault::OmitResponse),
            ("UNLOCK", 5 | 13 | 21) => Some(Fault::Respond(423, "")),
            _ => None,
        }
    };
    locks_amid(|settings| settings.connections = 1, script).await;
}

/// The first attempt's empty file is deleted when it fails. By the end, the name belongs to the second attempt.
#[tokio::test]
async fn file_uploaded_at_the_second_attempt_is_not_deleted_at_the_end() {
    let (mut folders, mut files) = (0, 0);
    let script = move |method: &str, path: &str, _: u64| {
        folders += u32::from((method, path) == ("MKCOL", "/up/a"));
        files += u32::from(method == "PUT");
        match (method, path, folders, files) {
            ("PUT", "/up/a/file3", 1, _) => Some(Fault::Respond(404, "")),
            // Ends pipelining.
            ("PUT", _, _, 20) => Some(Fault::OmitResponse),
            _ => None,
        }
    };
    assert_eq!(locks_amid(|_| (), script).await, Failed::new());
}

#[tokio::test]
async fn empty_file_of_a_lock_is_deleted_although_a_404_denies_it() {
    let mut denied = false;
    let script = move |method: &str, path: &str, _: u64| match (method, path) {
        ("PUT", "/up/a/file3") => Some(Fault::Respond(507, "")),
        ("DELETE", "/up/a/file3") if !std::mem::replace(&mut denied, true) => Some(Fault::Respond(404, "")),
        _ => None,
    };
    locks_amid(|_| (), script).await;
}

/// As if the success were another request's: a listing shows the empty file that the lock has created.
#[tokio::test]
async fn file_still_empty_after_its_upload_is_uploaded_again() {
    for again in [None, Some(Fault::Respond(507, ""))] {
        println!("{again:?}");
        let (is_refused, mut count) = (again.is_some(), 0);
        let script = move |method: &str, path: &str, _: u64| {
            count += u32::from((method, path) == ("PUT", "/up/a/file3"));
            match (method, path) {
                ("PUT", "/up/a/file3") if count == 1 => Some(Fault::Respond(201, "")),
                ("PUT", "/up/a/file3") => again.clone(),
                _ => None,
            }
        };
        assert_eq!(locks_amid(|_| (), script).await.contains_key("a/file3"), is_refused);
    }
}

/// The lock ends, and somebody else writes the file, before it could be deleted.
#[tokio::test]
async fn file_of_somebody_else_is_not_deleted_after_the_end_of_a_lock() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let mut wanted = lay_out(&here);
    let (mut deletions, mut overwritten) = (0, false);
    double.script(move |method, path, _| match (method, path) {
        ("PUT", "/up/a/file3") => Some(Fault::Respond(507, "")),
        ("DELETE", "/up/a/file3") if deletions < 2 => {
            deletions += 1;
            Some(Fault::Respond(500, ""))
        }
        ("PUT" | "UNLOCK" | "PROPFIND", _) if deletions == 2 && !std::mem::replace(&mut overwritten, true) => {
            Some(Fault::OverwrittenByOther("/up/a/file3"))
        }
        _ => None,
    });
    let options = Options { lock: LockPolicy::Always, ..mirror() };
    let first = up(&client(double.address, |_| ()), &here, &options).await.unwrap();
    assert_eq!(first.failed.len(), 1, "{:?}", first.failed);
    wanted.insert("a/file3".into(), vec![b'T'; 1000]);
    assert!(double.files("/up") == wanted, "{}", double.log());
    assert_eq!(double.locks(), 0);
}

#[tokio::test]
async fn locked_file_is_reported_and_uploaded_once_unlocked() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    double.put("/up/a/file7", b"theirs", Duration::from_hours(2));
    double.lock("/up/a/file7");
    let before = double.files("/up");
    for options in [mirror(), Options { lock: LockPolicy::Always, ..mirror() }, Options { temporary: true, ..mirror() }]
    {
        let first = up(&client(double.address, |_| ()), &here, &rest(&options)).await;
        let failed = check(&wanted, &before, &double.files("/up"), &first);
        assert_eq!(failed.keys().collect::<Vec<_>>(), ["a/file7"], "{failed:?}");
        assert!(failed["a/file7"].contains("lock"), "{failed:?}");
    }
    double.unlock("/up/a/file7");
    let second = up(&client(double.address, |_| ()), &here, &rest(&mirror())).await.unwrap();
    assert!(second.failed.is_empty() && double.files("/up") == wanted);
    assert_eq!(second.files, 1);
}

#[tokio::test]
async fn late_copy_under_a_lock_that_was_taken_anew_fails() {
    let double = Double::start().await;
    double.put("/file", b"content", Duration::from_hours(2));
    let dav = client(double.address, |_| ());
    let path = RemotePath::from_url_path("/file").unwrap();
    let put = async |claims: &If| {
        let body = Body::from("late");
        dav.put(&path, body, HeaderMap::new(), &Precondition::None, claims, haul_http::Options::default()).await
    };
    let locks = HeldLocks::new(dav.clone(), LockPolicy::OnEdit, "tester");
    let old = locks.acquire(&path, true).await.unwrap();
    locks.fence(&path).await.unwrap();
    assert_eq!(locks.claims(&[&path]), old, "control: nothing is in doubt");
    locks.doubt(&path);
    locks.fence(&path).await.unwrap();
    let new = locks.claims(&[&path]);
    assert!(put(&old).await.is_err_and(|error| error.is(423)), "{}", double.log());
    put(&new).await.unwrap();
    // Somebody else writes while it is not locked.
    locks.doubt(&path);
    let mut is_first = true;
    double.script(move |method, _, _| {
        (method == "LOCK" && std::mem::take(&mut is_first)).then_some(Fault::OverwrittenByOther("/file"))
    });
    locks.fence(&path).await.unwrap();
    assert!(locks.is_lost(&path), "{}", double.log());
    locks.release(&path, true).await;
    locks.release_all().await;
    assert_eq!(double.locks(), 0, "{}", double.log());
}

/// A LOCK without an answer is carried out when its writer has given up.
#[tokio::test]
async fn late_lock_of_our_own_is_undone_when_it_refuses_a_change() {
    // Apache keeps locks whose UNLOCK it has acknowledged.
    let all = ["PUT", "MOVE", "DELETE"].into_iter().flat_map(|method| [true, false].map(|expected| (method, expected)));
    for (method, is_expected) in all {
        let (double, file, other) = (Double::start().await, path("/file"), path("/other"));
        double.put("/file", b"content", Duration::from_hours(2));
        let dav = client(double.address, |_| ());
        let locks = HeldLocks::new(dav.clone(), LockPolicy::OnEdit, "ann");
        locks.acquire(&file, true).await.unwrap();
        let owner = double.lock_owner("/file").expect("it is locked");
        assert!(!locks.undo_unused(&file).await, "it is in use");
        locks.release(&file, true).await;
        if is_expected {
            double.script(|asked, _, _| (asked == "LOCK").then_some(Fault::Reset));
            assert!(locks.acquire(&file, true).await.is_err(), "control: it has no answer");
            double.clear_faults();
        }
        double.lock_late("/file", &owner);
        let (any, none) = (Precondition::None, If::default());
        let change = async || match method {
            "PUT" => {
                let put = dav.put(&file, "newer".into(), HeaderMap::new(), &any, &none, haul_http::Options::default());
                put.await.map(drop)
            }
            "MOVE" => dav.rename(&file, &other, true, &none).await.map(drop),
            _ => dav.delete(&file, &any, &none).await.map(drop),
        };
        assert!(change().await.is_err_and(|error| error.is(423)), "{method}: {}", double.log());
        assert!(locks.undo_unused(&file).await, "{method}: {}", double.log());
        change().await.unwrap();
        assert_eq!(double.locks(), 0, "{method}: {}", double.log());
        if !is_expected {
            double.lock("/file");
            assert!(!locks.undo_unused(&file).await, "it is somebody else's");
        }
        let left: Vec<_> = double.files("").into_iter().collect();
        let expected: &[(String, Vec<u8>)] = match method {
            "PUT" => &[("file".into(), b"newer".into())],
            "MOVE" => &[("other".into(), b"content".into())],
            _ => &[],
        };
        assert_eq!(left, expected, "{method}: {}", double.log());
    }
}

/// The log has the token of the lock before: the process was killed while it took the lock of a doubtful change anew.
#[tokio::test]
async fn lock_in_flight_at_a_kill_is_released_by_the_next_process() {
    let (double, file, (_kept, here)) = (Double::start().await, path("/file"), folder());
    double.put("/file", b"content", Duration::from_hours(2));
    let started = || {
        let log = LockLog::open(&here.join("locks")).unwrap();
        HeldLocks::with_log(client(double.address, |_| ()), LockPolicy::OnEdit, "ann", log)
    };
    let killed = started();
    killed.acquire(&file, true).await.unwrap();
    let owner = double.lock_owner("/file").expect("it is locked");
    killed.doubt(&file);
    double.script(|asked, _, _| (asked == "LOCK").then_some(Fault::Silence));
    let asks_again = async {
        while double.log().matches(" LOCK ").count() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        fenced = killed.fence(&file) => panic!("its LOCK has an answer: {fenced:?}"),
        asked = timeout(PATIENCE, asks_again) => asked.expect("it locks the file again"),
    }
    drop(killed);
    double.clear_faults();
    let next = started();
    next.tidy().await;
    double.lock_late("/file", &owner);
    next.release_all().await;
    assert_eq!(double.locks(), 0, "{}", double.log());
}
