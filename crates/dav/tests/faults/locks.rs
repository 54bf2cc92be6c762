//! Locks around writes.

use std::time::Duration;

use dav::{LockPolicy, transfer::Options};

use haul_http::Settings;
use servers::{Double, Fault};

use crate::common::{Tree, check, client, folder, lay_out, mirror, rest, up};

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

/// An upload under locks with faults, after which nothing is locked, and a second one that completes it.
async fn locks_amid(
    settings: impl FnOnce(&mut Settings),
    script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static,
) {
    let options = Options { lock: LockPolicy::Always, ..mirror() };
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    double.script(script);
    let first = up(&client(double.address, settings), &here, &options).await;
    check(&wanted, &Tree::new(), &double.files("/up"), &first);
    assert_eq!(double.locks(), 0, "{}", double.log());
    double.clear_faults();
    let second = up(&client(double.address, |_| ()), &here, &rest(&options)).await.unwrap();
    assert!(second.failed.is_empty() && double.files("/up") == wanted);
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
