//! Leftovers of earlier runs are never transferred, and are deleted when they are old.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, SystemTime},
};

use dav::transfer::{Options, Summary};
use servers::Double;

use crate::common::{client, down, folder, mirror, rest, up};

const HOUR: Duration = Duration::from_hours(1);
const DAYS: Duration = Duration::from_hours(3 * 24);
/// Names of uploads and downloads, of bulk uploads, and of `haul serve`.
const OURS: [&str; 3] = [".a.0123456789abcdef.part", ".a b.c.fedcba9876543210.upload", ".haul-upload-0123456789abcdef"];
/// Similar names.
const OTHERS: [&str; 6] = [
    ".a.0123456789abcde.part",
    ".a.0123456789ABCDEF.part",
    ".a.0123456789abcdef.parts",
    "a.0123456789abcdef.part",
    ".0123456789abcdef.part",
    ".haul-upload-1",
];

fn deleting() -> Options {
    Options { delete: true, ..rest(&mirror()) }
}

fn write(path: &Path, age: Duration) {
    fs::write(path, "content").unwrap();
    File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn there(double: &Double) -> Vec<String> {
    double.files("/up").into_keys().map(|name| name.replace("%20", " ")).collect()
}

fn sorted(names: impl IntoIterator<Item = &'static str>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    names.sort();
    names
}

fn went_well(summary: &Summary) {
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
}

#[tokio::test]
async fn recent_leftovers_are_neither_transferred_nor_deleted() {
    let ((kept, here), double) = (folder(), Double::start().await);
    for name in OURS.iter().chain(&OTHERS) {
        write(&here.join(name), HOUR);
    }
    double.put("/up/.b.0123456789abcdef.part", b"of another run", HOUR);
    let summary = up(&client(double.address, |_| ()), &here, &deleting()).await.unwrap();
    went_well(&summary);
    assert_eq!((summary.files, summary.deleted), (OTHERS.len() as u64, 0));
    assert_eq!(there(&double), sorted(OTHERS.into_iter().chain([".b.0123456789abcdef.part"])));

    let back = kept.path().join("back");
    fs::create_dir(&back).unwrap();
    for name in OURS {
        write(&back.join(name), HOUR);
    }
    went_well(&down(&client(double.address, |_| ()), &back, &deleting()).await.unwrap());
    assert_eq!(names(&back), sorted(OURS.into_iter().chain(OTHERS)));
}

#[tokio::test]
async fn old_unused_local_leftovers_are_deleted() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    double.put("/up/file", b"content", HOUR);
    for name in OURS.iter().chain(&OTHERS) {
        write(&here.join(name), DAYS);
    }
    write(&here.join(".held.0123456789abcdef.part"), DAYS);
    let held = File::open(here.join(".held.0123456789abcdef.part")).unwrap();
    held.lock().unwrap();
    let dav = client(double.address, |_| ());
    went_well(&down(&dav, &here, &Options { dry_run: true, ..rest(&mirror()) }).await.unwrap());
    assert_eq!(names(&here).len(), OURS.len() + OTHERS.len() + 1);
    went_well(&down(&dav, &here, &rest(&mirror())).await.unwrap());
    // The server deletes its own leftovers.
    let stays = OTHERS.into_iter().chain(["file", ".held.0123456789abcdef.part", OURS[2]]);
    assert_eq!(names(&here), sorted(stays));
}

#[tokio::test]
async fn leftovers_old_by_the_servers_clock_are_deleted() {
    for ahead in [0, 10 * 24 * 3600, -10 * 24 * 3600] {
        let ((_kept, here), double) = (folder(), Double::start().await);
        double.set_clock(ahead);
        write(&here.join("file"), HOUR);
        double.put("/up/.old.0123456789abcdef.part", b"x", DAYS);
        double.put("/up/.new.0123456789abcdef.part", b"x", HOUR);
        double.put("/up/.0123456789abcdef.part", b"x", DAYS);
        let dav = client(double.address, |_| ());
        went_well(&up(&dav, &here, &Options { dry_run: true, ..rest(&mirror()) }).await.unwrap());
        assert_eq!(double.files("/up").len(), 3);
        went_well(&up(&dav, &here, &rest(&mirror())).await.unwrap());
        assert_eq!(there(&double), [".0123456789abcdef.part", ".new.0123456789abcdef.part", "file"], "{ahead}");
    }
}
