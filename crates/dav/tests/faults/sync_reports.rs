//! Mirrors of a server that tells what has changed.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use dav::transfer::{Options, Summary};
use servers::{Double, Fault, SyncReports};

use crate::common::{Tree, client, down, folder, mirror, read, rest};

/// The requests about folders, but for the look at the mirrored folder itself.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    fn of(double: &Double) -> Self {
        let asked = Self::default();
        let seen = asked.clone();
        double.script(move |method, path, _| {
            if matches!(method, "PROPFIND" | "REPORT") {
                seen.0.lock().unwrap().push(format!("{method} {path}"));
            }
            None
        });
        asked
    }

    /// How many PROPFINDs and REPORTs there were.
    fn count(&self) -> (usize, usize) {
        let asked = std::mem::take(&mut *self.0.lock().unwrap());
        let of = |method: &str| asked.iter().filter(|request| request.starts_with(method)).count();
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
async fn a_second_run_asks_only_for_what_has_changed() {
    let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
    let asked = Asked::of(&double);
    sync(&double, &here).await;
    // Four folders and a look; and a report, to see whether it tells of all.
    assert_eq!(asked.count(), (5, 1));
    assert_eq!(sync(&double, &here).await.skipped, 6);
    assert_eq!(asked.count(), (1, 0), "with the same token nothing has changed");

    double.put("/up/a/b/four", b"changed", Duration::from_mins(10));
    double.put("/up/new/seven", b"new", Duration::ZERO);
    double.remove("/up/c");
    double.remove("/up/two");
    assert_eq!(sync(&double, &here).await.files, 2);
    // A look, and the listing of the folder that nobody has seen yet.
    assert_eq!(asked.count(), (2, 1));
    assert_eq!(sync(&double, &here).await.skipped, 5);
    assert_eq!(asked.count(), (1, 0));
}

#[tokio::test]
async fn what_was_done_here_is_seen_though_the_server_tells_of_nothing() {
    let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
    sync(&double, &here).await;
    fs::write(here.join("one"), "mine").unwrap();
    fs::remove_dir_all(here.join("a/b")).unwrap();
    fs::write(here.join("c/more"), "mine").unwrap();
    let asked = Asked::of(&double);
    let summary = sync(&double, &here).await;
    assert_eq!((summary.files, summary.deleted, asked.count()), (3, 1, (1, 0)));
}

#[tokio::test]
async fn a_report_in_parts_is_asked_for_to_its_end() {
    let (double, (_kept, here)) = (filled(SyncReports { limit: 2, ..SyncReports::default() }).await, folder());
    sync(&double, &here).await;
    for number in 0..5 {
        double.put(&format!("/up/a/new{number}"), b"new", Duration::ZERO);
    }
    let asked = Asked::of(&double);
    sync(&double, &here).await;
    assert_eq!(asked.count(), (1, 3));
}

#[tokio::test]
async fn a_token_that_is_refused_costs_a_listing_and_no_file() {
    let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
    sync(&double, &here).await;
    double.put("/up/a/three", b"changed", Duration::ZERO);
    double.set_sync_reports(Some(SyncReports { oldest_token: 1000, ..SyncReports::default() }));
    let asked = Asked::of(&double);
    assert_eq!(sync(&double, &here).await.skipped, 5);
    assert_eq!(asked.count(), (5, 1));
    // Without reports all is listed as ever.
    double.set_sync_reports(None);
    double.put("/up/a/three", b"again", Duration::ZERO);
    assert_eq!(sync(&double, &here).await.files, 1);
}

#[tokio::test]
async fn a_server_that_leaves_out_what_is_far_below_is_not_believed() {
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
async fn a_server_is_believed_once_it_has_told_of_something_far_below() {
    let (double, (_kept, here)) =
        (filled(SyncReports { refuses_infinite: true, ..SyncReports::default() }).await, folder());
    sync(&double, &here).await;
    double.set_sync_reports(Some(SyncReports::default()));
    let asked = Asked::of(&double);
    double.put("/up/a/b/four", b"changed", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(asked.count(), (5, 1));
    double.put("/up/a/b/four", b"again", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(asked.count(), (1, 1));
}

#[tokio::test]
async fn where_there_are_no_folders_no_report_of_them_is_needed() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.set_sync_reports(Some(SyncReports { refuses_infinite: true, is_infinite: false, ..SyncReports::default() }));
    double.put("/up/one", b"one", Duration::from_hours(1));
    double.put("/up/two", b"two", Duration::from_hours(1));
    sync(&double, &here).await;
    let asked = Asked::of(&double);
    double.put("/up/one", b"other", Duration::ZERO);
    double.remove("/up/two");
    sync(&double, &here).await;
    assert_eq!(asked.count(), (1, 1));
    // Of a new folder it is told, and not of what is in it.
    double.put("/up/folder/three", b"three", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(asked.count(), (2, 1));
    double.put("/up/folder/three", b"changed", Duration::ZERO);
    sync(&double, &here).await;
    assert_eq!(asked.count(), (3, 1));
}

#[tokio::test]
async fn what_could_not_be_listed_or_fetched_is_done_the_next_time() {
    for (method, at) in [("PROPFIND", "/up/a/b"), ("GET", "/up/a/b/four"), ("REPORT", "/up")] {
        let (double, (_kept, here)) = (filled(SyncReports::default()).await, folder());
        let refused =
            move |asked: &str, path: &str, _| (asked == method && path == at).then_some(Fault::Respond(403, ""));
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
async fn what_is_remembered_is_private_and_never_needed() {
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
