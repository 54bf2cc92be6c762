//! Links, FIFOs and sockets in a source, and files that replace folders.

use std::{
    collections::HashSet,
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use dav::transfer::{Event, Options, Summary, Watch};
use servers::{Double, Fault};

use crate::common::{client, down, folder, mirror, read, rest, up_watched};

const OLD: Duration = Duration::from_hours(1);

fn deleting() -> Options {
    Options { delete: true, ..rest(&mirror()) }
}

/// Uploads; returns the summary and the notes.
async fn sync_up(double: &Double, here: &Path, options: &Options) -> (Summary, String) {
    let told = Arc::new(Mutex::new(String::new()));
    let notes = told.clone();
    let watch: Watch = Arc::new(move |event: Event<'_>| {
        if let Event::Note(text) = event {
            notes.lock().unwrap().extend([text, "\n"]);
        }
    });
    let summary = up_watched(&client(double.address, |_| ()), here, options, &watch).await.unwrap();
    let told = told.lock().unwrap().clone();
    (summary, told)
}

async fn sync_down(double: &Double, here: &Path, options: &Options) -> Summary {
    down(&client(double.address, |_| ()), here, options).await.unwrap()
}

#[tokio::test]
async fn upload_skips_special_files_and_still_deletes() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    fs::write(here.join("file"), "content").unwrap();
    symlink("file", here.join("link")).unwrap();
    nix::unistd::mkfifo(&here.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(here.join("socket")).unwrap();
    for name in ["link", "pipe/below", "gone"] {
        double.put(&format!("/up/{name}"), b"there", OLD);
    }
    let (summary, told) = sync_up(&double, &here, &deleting()).await;
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert_eq!((summary.files, summary.deleted), (1, 1));
    // The remote entry under the name of a skipped file may be its copy.
    assert_eq!(double.files("/up").into_keys().collect::<Vec<_>>(), ["file", "link", "pipe/below"]);
    for (name, kind) in [("link", "a symbolic link"), ("pipe", "a FIFO"), ("socket", "a socket")] {
        assert!(told.contains(&format!("{name}: skipped: it is {kind}")), "{told}");
    }
}

#[tokio::test]
async fn upload_follows_links_on_request_and_detects_loops() {
    let ((kept, here), double) = (folder(), Double::start().await);
    let elsewhere = kept.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join("deep")).unwrap();
    fs::write(elsewhere.join("deep/file"), "content").unwrap();
    symlink("..", elsewhere.join("deep/up")).unwrap();
    fs::create_dir(here.join("a")).unwrap();
    symlink(&elsewhere, here.join("a/folder")).unwrap();
    symlink(elsewhere.join("deep/file"), here.join("one")).unwrap();
    symlink("nowhere", here.join("lost")).unwrap();
    symlink(".", here.join("self")).unwrap();
    let options = Options { links: dav::transfer::Links::Follow, ..deleting() };
    let (summary, told) = sync_up(&double, &here, &options).await;
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert_eq!(double.files("/up").into_keys().collect::<Vec<_>>(), ["a/folder/deep/file", "one"]);
    for (name, why) in [
        ("deep/up", "a symbolic link to a folder"),
        ("self", "a symbolic link to"),
        ("lost", "a dangling symbolic link"),
    ] {
        assert!(told.contains(&format!("{name}: skipped: it is {why}")), "{told}");
    }
}

#[tokio::test]
async fn upload_replaces_a_file_by_a_folder_and_a_folder_by_a_file() {
    for refuses in [false, true] {
        let ((_kept, here), double) = (folder(), Double::start().await);
        fs::create_dir_all(here.join("was file/below")).unwrap();
        fs::write(here.join("was file/below/new"), "new").unwrap();
        fs::write(here.join("was_folder"), "new").unwrap();
        double.put("/up/was%20file", b"old", OLD);
        double.put("/up/was_folder/below/old", b"old", OLD);
        double.put("/up/other", b"old", OLD);
        let (refused, _) = sync_up(&double, &here, &rest(&mirror())).await;
        assert!(!refused.failed.is_empty());
        for (path, why) in &refused.failed {
            assert!(why.to_string().contains("--delete"), "{path}: {why}");
        }
        assert_eq!(double.files("/up").len(), 3, "nothing is replaced unasked");

        let (would, _) = sync_up(&double, &here, &Options { dry_run: true, ..deleting() }).await;
        assert_eq!((would.files, would.deleted, would.failed.len()), (2, 3, 0));
        assert_eq!(double.files("/up").len(), 3, "a dry run changes nothing");

        // Some servers do not replace a file by a folder, or the reverse.
        let mut refused = HashSet::new();
        double.script(move |method, path, _| {
            let is_first = method == "MOVE" && refused.insert(path.to_owned());
            (refuses && is_first).then_some(Fault::Respond(409, ""))
        });
        let (summary, _) = sync_up(&double, &here, &deleting()).await;
        assert!(summary.failed.is_empty(), "{:?}", summary.failed);
        assert_eq!((summary.files, summary.deleted), (2, 3));
        assert_eq!(double.files("/up").into_keys().collect::<Vec<_>>(), ["was%20file/below/new", "was_folder"]);
        assert_eq!(sync_up(&double, &here, &deleting()).await.0.files, 0);
    }
}

#[tokio::test]
async fn upload_keeps_the_replaced_entry_until_the_new_one_exists() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    fs::create_dir(here.join("was_file")).unwrap();
    fs::write(here.join("was_folder"), "new").unwrap();
    double.put("/up/was_file", b"old", OLD);
    double.put("/up/was_folder/old", b"old", OLD);
    double.script(|method, _, _| matches!(method, "PUT" | "MKCOL").then_some(Fault::Respond(507, "")));
    let (summary, _) = sync_up(&double, &here, &deleting()).await;
    assert_eq!((summary.files, summary.deleted), (0, 0));
    assert_eq!(double.files("/up").into_keys().collect::<Vec<_>>(), ["was_file", "was_folder/old"]);
    assert_eq!(double.folders("/up/"), ["/up/was_folder"]);
}

#[tokio::test]
async fn download_replaces_a_file_by_a_folder_and_a_folder_by_a_file() {
    let ((kept, here), double) = (folder(), Double::start().await);
    double.put("/up/was_file/below/new", b"new", OLD);
    double.put("/up/was_link/new", b"new", OLD);
    double.put("/up/was_folder", b"new", OLD);
    double.put("/up/was_pipe", b"new", OLD);
    let elsewhere = kept.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("precious"), "precious").unwrap();
    fs::write(here.join("was_file"), "old").unwrap();
    symlink(&elsewhere, here.join("was_link")).unwrap();
    fs::create_dir_all(here.join("was_folder/below")).unwrap();
    fs::write(here.join("was_folder/below/old"), "old").unwrap();
    nix::unistd::mkfifo(&here.join("was_pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let refused = sync_down(&double, &here, &rest(&mirror())).await;
    assert_eq!((refused.files, refused.failed.len()), (0, 4));
    for (path, why) in &refused.failed {
        assert!(why.to_string().contains("--delete"), "{path}: {why}");
    }
    let would = sync_down(&double, &here, &Options { dry_run: true, ..deleting() }).await;
    assert_eq!((would.files, would.deleted, would.failed.len()), (4, 4, 0));
    assert_eq!(fs::read(here.join("was_file")).unwrap(), b"old");

    fs::write(here.join("extra"), "old").unwrap();
    double.script(|method, path, _| (method == "GET" && path == "/up/was_folder").then_some(Fault::Respond(403, "")));
    let failed = sync_down(&double, &here, &deleting()).await;
    assert_eq!((failed.files, failed.deleted, failed.failed.len()), (3, 3, 1));
    assert_eq!(fs::read(here.join("was_folder/below/old")).unwrap(), b"old", "the new is not there yet");
    assert!(here.join("extra").exists(), "not everything went well");
    double.clear_faults();
    let summary = sync_down(&double, &here, &deleting()).await;
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert!(read(&here) == double.files("/up"));
    assert_eq!(fs::read_dir(&here).unwrap().count(), 4, "nothing is left behind");
    assert_eq!(fs::read(elsewhere.join("precious")).unwrap(), b"precious");
}
