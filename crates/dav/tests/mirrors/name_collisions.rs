//! Names that differ on one side and are equal on the other.

use std::{fs, path::Path, process::Command, time::Duration};

use dav::transfer::{Options, Summary};
use servers::{Double, behaviours};

use crate::common::{client, down, folder, mirror, read, rest, up};

const OLD: Duration = Duration::from_hours(1);

fn deleting() -> Options {
    Options { delete: true, ..rest(&mirror()) }
}

async fn sync_up(double: &Double, here: &Path) -> Summary {
    up(&client(double.address, |_| ()), here, &deleting()).await.unwrap()
}

async fn sync_down(double: &Double, here: &Path) -> Summary {
    down(&client(double.address, |_| ()), here, &deleting()).await.unwrap()
}

async fn folding() -> Double {
    let entry = behaviours::ALL.iter().find(|entry| entry.name == "folds case").unwrap();
    let double = Double::with_behaviours(vec![(entry.make)(0)]).await;
    double.arm();
    double
}

#[tokio::test]
async fn upload_keeps_the_file_if_the_server_folds_case() {
    let ((_kept, here), double) = (folder(), folding().await);
    fs::write(here.join("README"), "content").unwrap();
    sync_up(&double, &here).await;
    fs::rename(here.join("README"), here.join("readme")).unwrap();
    for _ in 0..2 {
        sync_up(&double, &here).await;
        assert_eq!(double.files("/up").into_values().collect::<Vec<_>>(), [b"content"]);
    }
}

#[tokio::test]
async fn upload_renames_if_the_server_is_case_sensitive() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    double.put("/up/README", b"content", OLD);
    fs::write(here.join("readme"), "content").unwrap();
    let summary = sync_up(&double, &here).await;
    assert_eq!((summary.files, summary.deleted, summary.failed.len()), (1, 0, 0));
    assert!(read(&here) == double.files("/up"));
}

#[tokio::test]
async fn download_keeps_both_names_on_a_case_sensitive_disk() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    double.put("/up/README", b"upper", OLD);
    double.put("/up/readme", b"lower", OLD);
    double.put("/up/read/a", b"", OLD);
    double.put("/up/READ/b", b"", OLD);
    let summary = sync_down(&double, &here).await;
    assert_eq!((summary.files, summary.failed.len()), (4, 0));
    assert!(read(&here) == double.files("/up"));
    assert_eq!(fs::read_dir(&here).unwrap().count(), 4, "nothing is left of the trial");
}

/// A file system that folds case, unmounted at the end; none if it is not supported or may not be mounted.
struct Folds(tempfile::TempDir);

impl Folds {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "casefold", "tmpfs"])
            .arg(folder.path())
            .stderr(std::process::Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: a file system that folds case: this kernel has none, or it may not be mounted");
            return None;
        }
        let mounted = Self(folder);
        let tree = mounted.0.path().join("tree");
        fs::create_dir(&tree).unwrap();
        Command::new("chattr").arg("+F").arg(&tree).status().is_ok_and(|status| status.success()).then_some(mounted)
    }
}

impl Drop for Folds {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn download_refuses_the_second_name_and_renames_on_a_case_insensitive_disk() {
    let Some(mounted) = Folds::mount() else { return };
    let (here, double) = (mounted.0.path().join("tree"), Double::start().await);
    double.put("/up/README", b"upper", OLD);
    double.put("/up/readme", b"lower", OLD);
    double.put("/up/other", b"other", OLD);
    let summary = sync_down(&double, &here).await;
    assert_eq!((summary.files, summary.failed.len()), (2, 1));
    assert!(summary.failed[0].1.to_string().contains("README"), "{:?}", summary.failed);
    double.remove("/up/README");
    let summary = sync_down(&double, &here).await;
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert!(read(&here) == double.files("/up"), "{:?}", read(&here).keys());
}
