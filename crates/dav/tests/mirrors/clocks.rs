//! Detection of unchanged files despite the server's clock offset.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use dav::transfer::{Options, Summary};
use servers::{Double, Fault};

use crate::common::{client, down, folder, mirror, read, rest, up};

const MINUTES: i64 = 60;
const CLOCKS: [i64; 5] = [10 * MINUTES, 24 * 60 * MINUTES, -10 * MINUTES, -24 * 60 * MINUTES, 0];

/// Writes a file of this age.
fn write(path: &Path, content: &str, age: Duration) {
    fs::write(path, content).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

async fn sync_up(double: &Double, here: &Path, options: &Options) -> Summary {
    let summary = up(&client(double.address, |_| ()), here, options).await.unwrap();
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert!(read(here) == double.files("/up"), "it is no mirror");
    summary
}

#[tokio::test]
async fn upload_sends_changed_file_of_equal_length_despite_clock_offset() {
    for ahead in CLOCKS {
        let ((_kept, here), double) = (folder(), Double::start().await);
        double.set_clock(ahead);
        write(&here.join("file"), "first", Duration::from_hours(1));
        sync_up(&double, &here, &rest(&mirror())).await;
        write(&here.join("file"), "other", Duration::ZERO);
        assert_eq!(sync_up(&double, &here, &rest(&mirror())).await.files, 1, "{ahead}");
    }
}

#[tokio::test]
async fn upload_skips_unchanged_files_despite_clock_offset() {
    for ahead in CLOCKS {
        let ((_kept, here), double) = (folder(), Double::start().await);
        double.set_clock(ahead);
        write(&here.join("old"), "first", Duration::from_hours(1));
        sync_up(&double, &here, &rest(&mirror())).await;
        let again = sync_up(&double, &here, &rest(&mirror())).await;
        assert_eq!((again.files, again.skipped), (0, 1), "{ahead}");
    }
}

/// As `haul sync`, with records.
fn remembering(here: &Path) -> Options {
    Options { synced_versions: Some(here.with_file_name("cache/seen")), delete: true, ..rest(&mirror()) }
}

async fn sync_down(double: &Double, here: &Path, options: &Options) -> Summary {
    let summary = down(&client(double.address, |_| ()), here, options).await.unwrap();
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert!(read(here) == double.files("/up"), "it is no mirror");
    summary
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn upload_with_a_record_compares_no_content() {
    for ahead in CLOCKS {
        let ((_kept, here), double) = (folder(), Double::start().await);
        double.set_clock(ahead);
        let options = remembering(&here);
        // Changed in the second of its upload, so its time proves nothing.
        write(&here.join("new"), "first", Duration::ZERO);
        write(&here.join("old"), "first", Duration::from_hours(1));
        sync_up(&double, &here, &options).await;
        double.script(|method, _, _| matches!(method, "GET" | "HEAD" | "PUT").then_some(Fault::Respond(403, "")));
        let again = sync_up(&double, &here, &options).await;
        assert_eq!((again.files, again.skipped), (0, 2), "{ahead}");
        double.clear_faults();
        // Now the server's clock is right, so its offset differs from that at the upload.
        double.set_clock(0);
        write(&here.join("old"), "other", Duration::from_mins(30));
        write(&here.join("new"), "older", Duration::from_hours(3));
        assert_eq!(sync_up(&double, &here, &options).await.files, 2, "{ahead}");
        assert_eq!(sync_up(&double, &here, &options).await.files, 0, "{ahead}");
    }
}

#[tokio::test]
async fn upload_overwrites_a_file_changed_on_the_server() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    let options = remembering(&here);
    write(&here.join("file"), "first", Duration::from_hours(1));
    sync_up(&double, &here, &options).await;
    double.put("/up/file", b"wrong", Duration::ZERO);
    assert_eq!(sync_up(&double, &here, &options).await.files, 1);
    // Another entity tag for the same bytes is no change.
    double.put("/up/file", b"first", Duration::ZERO);
    assert_eq!(sync_up(&double, &here, &options).await.files, 0);
}

#[tokio::test]
async fn download_fetches_a_change_of_equal_length_and_time() {
    for ahead in CLOCKS {
        let ((_kept, here), double) = (folder(), Double::start().await);
        double.set_clock(ahead);
        let options = remembering(&here);
        double.put("/up/file", b"first", Duration::from_hours(1));
        sync_down(&double, &here, &options).await;
        assert_eq!(sync_down(&double, &here, &options).await.files, 0);
        let time = double.modified("/up/file");
        double.put("/up/file", b"other", Duration::ZERO);
        double.set_modified("/up/file", time);
        assert_eq!(sync_down(&double, &here, &options).await.files, 1, "{ahead}");
    }
}

#[tokio::test]
async fn download_skips_unchanged_files_if_times_cannot_be_set() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    let options = remembering(&here);
    double.put("/up/file", b"first", Duration::from_hours(1));
    sync_down(&double, &here, &options).await;
    let records = options.synced_versions.clone().unwrap();
    // As on a file system that sets its own times.
    let shown = SystemTime::now() - Duration::from_mins(1);
    set_time(&here.join("file"), shown);
    let known = fs::read_to_string(&records).unwrap();
    let told = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos().to_string();
    let (first, rest) = known.split_once("\"file\",5,").unwrap();
    let rest = rest.split_once(',').unwrap().1;
    fs::write(&records, format!("{first}\"file\",5,{},{rest}", told(shown))).unwrap();
    assert_eq!(sync_down(&double, &here, &options).await.files, 0);
}

#[tokio::test]
async fn times_within_the_window_are_equal() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    double.put("/up/file", b"first", Duration::from_hours(1));
    let options = rest(&mirror());
    sync_down(&double, &here, &options).await;
    set_time(&here.join("file"), double.modified("/up/file") + Duration::from_secs(2));
    let wide = Options { modify_window: Duration::from_secs(2), ..options.clone() };
    assert_eq!(sync_down(&double, &here, &wide).await.files, 0);
    assert_eq!(sync_down(&double, &here, &options).await.files, 1);
}

#[tokio::test]
async fn upload_and_download_share_one_record() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    let options = remembering(&here);
    write(&here.join("file"), "first", Duration::from_hours(1));
    sync_up(&double, &here, &options).await;
    assert_eq!(sync_down(&double, &here, &options).await.files, 0);
    double.put("/up/file", b"other", Duration::ZERO);
    assert_eq!(sync_down(&double, &here, &options).await.files, 1);
    assert_eq!(sync_up(&double, &here, &options).await.files, 0);
}
