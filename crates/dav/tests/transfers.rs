//! Transfers of trees to a real server and back.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use dav::{
    Dav, LockPolicy, RemotePath,
    transfer::{Event, Options, Skip, Summary, Verify, Watch, download, upload},
};
use haul_http::{Client, Origin, Pipelining, Settings, auth::Authenticator};
use tempfile::TempDir;
use tokio::{sync::Notify, task::JoinHandle};

struct Server {
    root: TempDir,
    dav: Dav,
    running: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn server(pipelining: Pipelining) -> Server {
    let root = tempfile::tempdir().unwrap();
    let config = serve::Config {
        root: root.path().into(),
        listen: vec![([127, 0, 0, 1], 0).into()],
        ..serve::Config::default()
    };
    let server = serve::Server::bind(config).unwrap();
    let origin = Origin::of(&format!("http://{}", server.local_addr()).parse().unwrap()).unwrap();
    let running = tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() });
    let settings = Settings { pipelining, ..Settings::default() };
    let client = Client::new(settings, Authenticator::default()).unwrap();
    Server { root, dav: Dav::new(client, origin), running }
}

fn path(text: &str) -> RemotePath {
    RemotePath::from_url_path(text).unwrap()
}

/// Every file below a folder with its content, and every folder.
fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let content = if path.is_dir() {
                folders.push(path.clone());
                None
            } else {
                Some(fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), content);
        }
    }
    found
}

/// A tree with names and sizes of all kinds.
fn lay_out(root: &Path) {
    for folder in ["a", "a/b", "empty", "with space", "ünï 100% #?;+"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    for (number, size) in [0, 1, 1000, 10_240, 131_072, 131_073, 300_000].into_iter().enumerate() {
        for folder in ["", "a", "a/b", "with space", "ünï 100% #?;+"] {
            let content: Vec<u8> = (0..size).map(|byte| (byte * 31 + number * 7 + folder.len()) as u8).collect();
            fs::write(root.join(folder).join(format!("file {number}")), content).unwrap();
        }
    }
    // Large enough for parts.
    fs::write(root.join("large"), (0..9_000_000_u32).map(|byte| (byte / 251) as u8).collect::<Vec<_>>()).unwrap();
}

fn quiet() -> Watch {
    Arc::new(|event: Event<'_>| {
        if let Event::Failed { path, why } = event {
            eprintln!("{path}: {why}");
        }
    })
}

async fn up(server: &Server, from: &Path, to: &str, options: &Options) -> Summary {
    upload(&server.dav, &[from.to_owned()], &path(to), options, &Notify::new(), &quiet()).await.unwrap()
}

#[tokio::test]
async fn tree_is_uploaded_and_downloaded_unchanged() {
    for pipelining in [Pipelining::Off, Pipelining::Safe, Pipelining::Aggressive] {
        let (server, here) = (server(pipelining), tempfile::tempdir().unwrap());
        let source = here.path().join("source");
        fs::create_dir(&source).unwrap();
        lay_out(&source);
        let options = Options { recursive: true, ..Options::default() };
        let summary = up(&server, &source, "/copy/", &options).await;
        assert_eq!((summary.files, summary.folders, summary.failed.len()), (36, 6, 0));
        assert!(tree(&source) == tree(&server.root.path().join("copy")), "{pipelining:?}");

        let back = here.path().join("back");
        let fetched =
            download(&server.dav, &[path("/copy/")], &back, &options, &Notify::new(), &quiet()).await.unwrap();
        assert_eq!((fetched.files, fetched.bytes, fetched.failed.len()), (36, summary.bytes, 0));
        assert!(tree(&source) == tree(&back), "{pipelining:?}");
    }
}

#[tokio::test]
async fn mirror_transfers_differences_and_deletes_extra_files() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    lay_out(here.path());
    let mirror =
        Options { recursive: true, contents: true, skip: Skip::SameSizeAndTime, delete: true, ..Options::default() };
    up(&server, here.path(), "/", &mirror).await;
    assert!(tree(here.path()) == tree(server.root.path()));

    fs::write(here.path().join("a/new"), "new").unwrap();
    fs::write(here.path().join("large"), "small now").unwrap();
    fs::remove_file(here.path().join("a/file 0")).unwrap();
    fs::remove_dir_all(here.path().join("with space")).unwrap();
    let look = Options { dry_run: true, ..mirror.clone() };
    let before = tree(server.root.path());
    let would = up(&server, here.path(), "/", &look).await;
    assert!(before == tree(server.root.path()), "a dry run changes nothing");
    let did = up(&server, here.path(), "/", &mirror).await;
    assert!(tree(here.path()) == tree(server.root.path()));
    assert_eq!((did.files, did.deleted), (2, 2));
    assert_eq!((would.files, would.deleted), (2, 2));
    assert_eq!(up(&server, here.path(), "/", &mirror).await.files, 0);
}

#[tokio::test]
async fn staging_and_locks_leave_nothing_behind() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    fs::write(here.path().join("one"), "first").unwrap();
    for options in [
        Options { temporary: true, ..Options::default() },
        Options { lock: LockPolicy::Always, ..Options::default() },
        Options { lock: LockPolicy::OnEdit, temporary: true, ..Options::default() },
    ] {
        for content in ["second", "third, and longer"] {
            fs::write(here.path().join("one"), content).unwrap();
            let summary = up(&server, &here.path().join("one"), "/", &options).await;
            assert_eq!(summary.failed.len(), 0, "{options:?}: {:?}", summary.failed);
            assert!(tree(here.path()) == tree(server.root.path()), "{options:?}");
            // The lock is released.
            let lock = server.dav.lock(&path("/one"), "somebody", Duration::from_mins(1)).await.unwrap();
            server.dav.unlock(&path("/one"), &lock.token).await.unwrap();
        }
    }
}

#[tokio::test]
async fn lock_of_another_user_is_reported_with_its_owner() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    for name in ["mine", "theirs"] {
        fs::write(here.path().join(name), "content").unwrap();
    }
    fs::write(server.root.path().join("theirs"), "before").unwrap();
    server.dav.lock(&path("/theirs"), "Jane Doe", Duration::from_mins(1)).await.unwrap();
    for lock in [LockPolicy::Never, LockPolicy::Always] {
        let options = Options { recursive: true, contents: true, lock, verify: Verify::None, ..Options::default() };
        let summary = up(&server, here.path(), "/", &options).await;
        assert_eq!((summary.files, summary.failed.len()), (1, 1), "{lock:?}");
        let (name, why) = &summary.failed[0];
        assert!(name.ends_with("theirs") && why.is(423), "{why}");
        if lock == LockPolicy::Always {
            assert!(why.to_string().contains("Jane Doe"), "{why}");
        }
        assert_eq!(fs::read(server.root.path().join("theirs")).unwrap(), b"before");
    }
}

#[tokio::test]
async fn interrupt_leaves_complete_files_and_no_temporary_ones() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    for number in 0..500 {
        fs::write(here.path().join(format!("{number}")), vec![number as u8; 20_000]).unwrap();
    }
    let (stop, done) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
    let (stopping, counted) = (stop.clone(), done.clone());
    let watch: Watch = Arc::new(move |event: Event<'_>| {
        if let Event::Done { .. } | Event::Moved { .. } = event {
            let mut done = counted.lock().unwrap();
            *done += 1;
            if *done == 100 {
                stopping.notify_one();
            }
        }
    });
    let options = Options { recursive: true, contents: true, temporary: true, ..Options::default() };
    let sources = [here.path().to_owned()];
    upload(&server.dav, &sources, &path("/"), &options, &stop, &watch).await.unwrap();
    let there = tree(server.root.path());
    assert!(there.len() < 500);
    for (name, content) in there {
        assert!(content.unwrap() == fs::read(here.path().join(&name)).unwrap(), "{}", name.display());
    }
}

async fn down(server: &Server, from: &str, to: &Path, options: &Options) -> Summary {
    download(&server.dav, &[path(from)], to, options, &Notify::new(), &quiet()).await.unwrap()
}

fn mirror() -> Options {
    Options { recursive: true, contents: true, delete: true, skip: Skip::SameSizeAndTime, ..Options::default() }
}

#[tokio::test]
async fn remote_namesake_of_a_skipped_link_is_kept() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    fs::write(here.path().join("file"), "content").unwrap();
    std::os::unix::fs::symlink("file", here.path().join("link")).unwrap();
    for name in ["link", "other"] {
        fs::write(server.root.path().join(name), "there").unwrap();
    }
    let summary = up(&server, here.path(), "/", &mirror()).await;
    assert_eq!((summary.files, summary.deleted, summary.failed.len()), (1, 1, 0));
    assert_eq!(tree(server.root.path()).len(), 2);
    fs::remove_file(here.path().join("link")).unwrap();
    assert_eq!(up(&server, here.path(), "/", &mirror()).await.deleted, 1);
    assert!(tree(here.path()) == tree(server.root.path()));
}

#[tokio::test]
async fn local_mirror_stays_in_its_folder_and_deletes_last() {
    let (server, here, elsewhere) =
        (server(Pipelining::Safe), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    lay_out(server.root.path());
    let target = here.path().join("target");
    assert_eq!(down(&server, "/", &target, &mirror()).await.failed.len(), 0);
    assert!(tree(&target) == tree(server.root.path()));

    // A local folder has become a link that leads out of the tree.
    fs::write(elsewhere.path().join("precious"), "precious").unwrap();
    fs::remove_dir_all(target.join("a")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), target.join("a")).unwrap();
    fs::write(target.join("extra"), "extra").unwrap();
    let summary = down(&server, "/", &target, &Options { delete: false, ..mirror() }).await;
    assert_eq!((summary.files, summary.failed.len()), (0, 1));
    assert_eq!(tree(elsewhere.path()).len(), 1);

    fs::remove_file(target.join("a")).unwrap();
    let look = down(&server, "/", &target, &Options { dry_run: true, ..mirror() }).await;
    assert_eq!((look.deleted, target.join("extra").exists()), (1, true));
    assert_eq!(down(&server, "/", &target, &mirror()).await.deleted, 1);
    assert!(tree(&target) == tree(server.root.path()));
}

#[tokio::test]
async fn content_is_compared_without_digests() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    lay_out(here.path());
    let exact = Options { verify: Verify::Digest, skip: Skip::SameDigest, ..mirror() };
    let first = up(&server, here.path(), "/", &exact).await;
    assert_eq!((first.files, first.failed.len()), (36, 0));
    // Same length, and newer than its original.
    for name in ["a/file 3", "large"] {
        let mut content = fs::read(server.root.path().join(name)).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(server.root.path().join(name), content).unwrap();
    }
    let again = up(&server, here.path(), "/", &exact).await;
    assert_eq!((again.files, again.skipped, again.failed.len()), (2, 34, 0));
    assert!(tree(here.path()) == tree(server.root.path()));

    fs::write(here.path().join("a/file 2"), vec![b'x'; 1000]).unwrap();
    let back = down(&server, "/", here.path(), &exact).await;
    assert_eq!((back.files, back.skipped, back.failed.len()), (1, 35, 0));
    assert!(tree(here.path()) == tree(server.root.path()));
}

/// Starts to download `large` to `here` in a folder, and stops in the middle; returns the partial file.
async fn interrupted(server: &Server, folder: &Path, options: &Options) -> PathBuf {
    let (stop, moved) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
    let (stopping, counted) = (stop.clone(), moved.clone());
    let watch: Watch = Arc::new(move |event: Event<'_>| {
        if let Event::Moved { bytes } = event {
            let mut moved = counted.lock().unwrap();
            *moved += bytes;
            if *moved > 15_000_000 {
                stopping.notify_one();
            }
        }
    });
    download(&server.dav, &[path("/large")], &folder.join("here"), options, &stop, &watch).await.unwrap();
    let left = tree(folder);
    let (part, _) = left.first_key_value().unwrap();
    assert!(left.len() == 1 && part.extension().unwrap() == "part", "{}", part.display());
    folder.join(part)
}

fn large() -> Vec<u8> {
    (0..30_000_000_u32).map(|byte| (byte / 97) as u8).collect()
}

#[tokio::test]
async fn interrupted_download_is_resumed() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    let content = large();
    fs::write(server.root.path().join("large"), &content).unwrap();
    let options = Options { resume: true, connections: 2, ..Options::default() };
    let part = interrupted(&server, here.path(), &options).await;
    let (has, place) = (fs::read(&part).unwrap(), here.path().join("here"));
    assert!(has.len() > 4_000_000 && content.starts_with(&has));

    // Received parts are not requested again: a mark in them stays.
    let mut marked = has.clone();
    marked[1000] ^= 1;
    fs::write(&part, &marked).unwrap();
    let summary = down(&server, "/large", &place, &options).await;
    assert_eq!((summary.files, summary.failed.len()), (1, 0));
    let got = tree(here.path()).remove(Path::new("here")).unwrap().unwrap();
    assert!(got.len() == content.len() && got[1000] != content[1000] && got[1001..] == content[1001..]);

    // Parts of another version are not used.
    fs::write(&part, &marked).unwrap();
    let newer = vec![7; content.len()];
    fs::write(server.root.path().join("large"), &newer).unwrap();
    down(&server, "/large", &place, &options).await;
    assert!(fs::read(&place).unwrap() == newer);
}

#[tokio::test]
async fn another_users_file_under_the_temporary_name_is_kept() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    let (content, others) = (large(), tempfile::tempdir().unwrap());
    fs::write(server.root.path().join("large"), &content).unwrap();
    let options = Options { resume: true, connections: 2, ..Options::default() };
    let part = interrupted(&server, here.path(), &options).await;
    let victim = others.path().join("victim");
    fs::write(&victim, b"content of another's").unwrap();
    let plants: [&dyn Fn(); 3] =
        [&|| std::os::unix::fs::symlink(&victim, &part).unwrap(), &|| fs::hard_link(&victim, &part).unwrap(), &|| {
            nix::unistd::mkfifo(&part, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }];
    for plant in plants {
        let _ = fs::remove_file(here.path().join("here"));
        fs::remove_file(&part).unwrap();
        plant();
        let summary = down(&server, "/large", &here.path().join("here"), &options).await;
        assert_eq!((summary.files, summary.failed.len()), (1, 0));
        assert!(fs::read(here.path().join("here")).unwrap() == content);
        assert!(!fs::symlink_metadata(here.path().join("here")).unwrap().is_symlink());
        assert_eq!(fs::read(&victim).unwrap(), b"content of another's");
    }
}

#[tokio::test]
async fn replaced_file_keeps_its_mode_and_special_files_stay() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    fs::write(server.root.path().join("file"), b"newer").unwrap();
    let place = here.path().join("file");
    fs::write(&place, b"old").unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(down(&server, "/file", &place, &Options::default()).await.files, 1);
    assert_eq!(fs::read(&place).unwrap(), b"newer");
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);

    // A link named by the user is followed.
    let link = here.path().join("link");
    std::os::unix::fs::symlink(&place, &link).unwrap();
    fs::write(server.root.path().join("file"), b"newest").unwrap();
    assert_eq!(down(&server, "/file", &link, &Options::default()).await.files, 1);
    assert_eq!(fs::read(&place).unwrap(), b"newest");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

    let pipe = here.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let summary = down(&server, "/file", &pipe, &Options::default()).await;
    assert!(summary.failed[0].1.to_string().contains("device or pipe"), "{:?}", summary.failed);
    assert!(!fs::symlink_metadata(&pipe).unwrap().is_file());
    let error = upload(&server.dav, &[pipe], &path("/"), &Options::default(), &Notify::new(), &quiet()).await;
    assert!(error.unwrap_err().to_string().contains("device or pipe"));
}

#[tokio::test]
async fn two_sources_with_one_name_are_refused_before_any_transfer() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    for folder in ["a", "b"] {
        for root in [server.root.path(), here.path()] {
            fs::create_dir(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("same"), folder).unwrap();
        }
    }
    let (options, stop) = (Options::default(), Notify::new());
    let there = ["/a/same", "/b/same"].map(path);
    let error = download(&server.dav, &there, here.path(), &options, &stop, &quiet()).await.unwrap_err();
    assert!(error.to_string().contains("have this name"), "{error}");
    let local = ["a/same", "b/same"].map(|name| here.path().join(name));
    let error = upload(&server.dav, &local, &path("/"), &options, &stop, &quiet()).await.unwrap_err();
    assert!(error.to_string().contains("same name"), "{error}");
    assert!(!here.path().join("same").exists() && !server.root.path().join("same").exists());
}

#[tokio::test]
async fn single_folder_is_copied_into_the_target() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    let source = here.path().join("d");
    fs::create_dir(&source).unwrap();
    lay_out(&source);
    fs::create_dir(server.root.path().join("there")).unwrap();
    let options = Options { recursive: true, ..Options::default() };
    for (folders, lock) in [(6, LockPolicy::Never), (0, LockPolicy::Always)] {
        let options = Options { lock, ..options.clone() };
        let summary = up(&server, &source, "/there/", &options).await;
        assert_eq!((summary.files, summary.folders, summary.failed.len()), (36, folders, 0));
        assert!(tree(&source) == tree(&server.root.path().join("there/d")));
    }
}

#[tokio::test]
async fn names_of_maximum_length_are_transferred() {
    let (server, here) = (server(Pipelining::Safe), tempfile::tempdir().unwrap());
    let name = "ü".repeat(127);
    fs::write(here.path().join(&name), "content").unwrap();
    let options = Options { temporary: true, ..mirror() };
    assert_eq!(up(&server, here.path(), "/", &options).await.files, 1);
    let back = tempfile::tempdir().unwrap();
    assert_eq!(down(&server, "/", back.path(), &options).await.files, 1);
    assert!(tree(here.path()) == tree(back.path()));
}
