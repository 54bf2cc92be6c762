//! Mirrors of a server with sync reports (RFC 6578).

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use dav::transfer::{Options, Summary};
use servers::{Double, Fault, SyncReports};

use crate::common::{Tree, client, down, folder, mirror, read, rest};

/// The requests for folders, without the lookup of the mirrored folder itself.
#[derive(Clone, Default)]
struct FolderRequests(Arc<Mutex<Vec<String>>>);

impl FolderRequests {
    fn of(double: &Double) -> Self {
        let requests = Self::default();
        let seen = requests.clone();
        double.script(move |method, path, _| {
            if matches!(method, "PROPFIND" | "REPORT") {
                seen.0.lock().unwrap().push(format!("{method} {path}"));
            }
            None
        });
        requests
    }

    /// Number of PROPFINDs and REPORTs.
    fn count(&self) -> (usize, usize) {
        let requests = std::mem::take(&mut *self.0.lock().unwrap());
        let of = |method: &str| requests.iter().filter(|request| request.starts_with(method)).count();
        (of("PROPFIND"), of("REPORT"))
    }
}

fn options(here: &Path) -> Options {
    let snapshot_file = Some(here.with_file_name("cache/mirror"));
    Options { delete: true, snapshot_file, ..rest(&mirror()) }
}

async fn sync(double: &Double, here: &Path) -> Summary {
    let summary = down(&client(double.address, |_| ()), here, &options(here)).await.unwrap();
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert!(read(here) == double.files("/up"), "it is no mirror: {:?}", read(here).keys());
    summary
}

async fn filled(reports: SyncReports) -> Double {
    let double = Double::start().await;
    double.set_sync_reports(Some(reports));
    for name in ["a/three", "a/b/four", "a/b/five", "c/six", "one", "two"] {
        double.put(&format!("/up/{name}"), name.as_bytes(), Duration::from_hours(1));
    }
    double
}

#[tokio::test]
async fn second_run_requests_only_changes() {
    let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
    let requests = FolderRequests::of(&double);
    sync(&double, &here).await;
    // Four folders and a lookup; and a report that tests whether it covers nested folders.
    assert_eq!(requests.count(), (5, 1));
    assert_eq!(sync(&double, &here).await.skipped, 6);
    assert_eq!(requests.count(), (1, 0), "with the same token nothing has changed");

    double.put("/up/a/b/four", b"changed", Duration::from_mins(10));
    double.put("/up/new/seven", b"new", Duration::ZERO);
    double.remove("/up/c");
    double.remove("/up/two");
    assert_eq!(sync(&double, &here).await.files, 2);
    // A lookup, and the listing of the new folder.
    assert_eq!(requests.count(), (2, 1));
    assert_eq!(sync(&double, &here).await.skipped, 5);
    assert_eq!(requests.count(), (1, 0));
}

#[tokio::test]
async fn local_changes_are_seen_if_the_server_reports_none() {
    let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
    sync(&double, &here).await;
    fs::write(here.join("one"), "mine").unwrap();
    fs::remove_dir_all(here.join("a/b")).unwrap();
    fs::write(here.join("c/more"), "mine").unwrap();
    let requests = FolderRequests::of(&double);
    let summary = sync(&double, &here).await;
    assert_eq!((summary.files, summary.deleted, requests.count()), (3, 1, (1, 0)));
}

#[tokio::test]
async fn truncated_report_is_continued_to_its_end() {
    let (double, (_kept, here)) = (filled(SyncReports { limit: 2, ..SyncReports::default() }).await, folder());
    sync(&double, &here).await;
    for number in 0..5 {
        double.put(&format!("/up/a/new{number}"), b"new", Duration::ZERO);
    }
    let requests = FolderRequests::of(&double);
    sync(&double, &here).await;
    assert_eq!(requests.count(), (1, 3));
}

#[tokio::test]
async fn refused_sync_token_costs_a_listing_and_no_file() {
    let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
    sync(&double, &here).await;
    double.put("/up/a/three", b"changed", Duration::ZERO);
    double.set_sync_reports(Some(SyncReports { oldest_token: 1000, ..SyncReports::default() }));
    let requests = FolderRequests::of(&double);
    assert_eq!(sync(&double, &here).await.skipped, 5);
    assert_eq!(requests.count(), (5, 1));
    // Without reports everything is listed.
    double.set_sync_reports(None);
    double.put("/up/a/three", b"again", Duration::ZERO);
    assert_eq!(sync(&double, &here).await.files, 1);
}

#[tokio::test]
async fn server_whose_reports_omit_nested_folders_is_not_trusted() {
    let (double, (_kept, here)) =
        (filled(SyncReports { is_infinite: false, ..SyncReports::default() }).await, folder());
    sync(&double, &here).await;
    double.put("/up/a/b/four", b"changed", Duration::ZERO);
    assert_eq!(sync(&double, &here).await.files, 1);
    double.remove("/up/a/b/five");
    double.put("/up/one", b"changed", Duration::ZERO);
    let summary = sync(&double, &here).await;
    assert_eq!((summary.files, summary.deleted), (1, 1));
}

#[tokio::test]
async fn server_is_trusted_once_it_reported_a_nested_change() {
    let (double, (_kept, here)) =
        (filled(SyncReports { refuses_infinite: true, ..SyncReports::default() }).await, folder());
    sync(&double, &here).await;
    double.set_sync_reports(Some(SyncReports::default()));
    let requests = FolderRequests::of(&double);
    double.put("/up/a/b/four", b"changed", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(requests.count(), (5, 1));
    double.put("/up/a/b/four", b"again", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(requests.count(), (1, 1));
}

#[tokio::test]
async fn report_is_trusted_if_there_are_no_nested_folders() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.set_sync_reports(Some(SyncReports { refuses_infinite: true, is_infinite: false, ..SyncReports::default() }));
    double.put("/up/one", b"one", Duration::from_hours(1));
    double.put("/up/two", b"two", Duration::from_hours(1));
    sync(&double, &here).await;
    let requests = FolderRequests::of(&double);
    double.put("/up/one", b"other", Duration::ZERO);
    double.remove("/up/two");
    sync(&double, &here).await;
    assert_eq!(requests.count(), (1, 1));
    // The report has a new folder, but not its contents.
    double.put("/up/folder/three", b"three", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(requests.count(), (2, 1));
    double.put("/up/folder/three", b"changed", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(requests.count(), (3, 1));
}

#[tokio::test]
async fn failed_listing_or_download_is_retried_by_the_next_run() {
    for (method, at) in [("PROPFIND", "/up/a/b"), ("GET", "/up/a/b/four"), ("REPORT", "/up")] {
        let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
        let refused =
            move |requests: &str, path: &str, _| (requests == method && path == at).then_some(Fault::Respond(403, ""));
        double.script(refused);
        let first = down(&client(double.address, |_| ()), &here, &options(&here)).await.unwrap();
        assert_eq!(first.failed.is_empty(), method == "REPORT");
        double.clear_faults();
        sync(&double, &here).await;
        double.put("/up/a/b/four", b"changed", Duration::ZERO);
        double.script(refused);
        let _ = down(&client(double.address, |_| ()), &here, &options(&here)).await.unwrap();
        double.clear_faults();
        sync(&double, &here).await;
    }
}

#[tokio::test]
async fn snapshot_file_is_private_and_dispensable() {
    use std::os::unix::fs::PermissionsExt;
    let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
    sync(&double, &here).await;
    let file = options(&here).snapshot_file.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    for text in ["", "{}", "\u{feff}[", "\n\n"] {
        fs::write(&file, text).unwrap();
        double.put("/up/one", text.as_bytes(), Duration::ZERO);
        sync(&double, &here).await;
    }
    let before: Tree = read(&here);
    double.put("/up/two", b"other", Duration::ZERO);
    let kept = fs::read(&file).unwrap();
    let dry = Options { dry_run: true, ..options(&here) };
    assert_eq!(down(&client(double.address, |_| ()), &here, &dry).await.unwrap().files, 1);
    assert!(before == read(&here) && kept == fs::read(&file).unwrap());
    sync(&double, &here).await;
}
