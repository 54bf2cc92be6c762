//! What reading costs.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use dav::LockPolicy;
use libtest_mimic::Failed;
use nix::sys::statvfs::statvfs;
use servers::Fault;

use crate::{
    DoubleTest, Test,
    doubled::{Doubled, wait_for},
    world::{World, let_listings_expire, noise},
};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("a_program_that_stops_in_a_large_file_costs_little", a_program_that_stops_in_a_large_file_costs_little)];

pub(crate) const DOUBLED: &[(&str, DoubleTest)] = &[
    ("a_file_read_in_order_costs_few_requests", a_file_read_in_order_costs_few_requests),
    ("contents_outlive_the_mount", contents_outlive_the_mount),
    ("dead_properties_are_extended_attributes", dead_properties_are_extended_attributes),
    ("extended_attributes_can_be_switched_off", extended_attributes_can_be_switched_off),
    ("free_space_is_believed_as_long_as_a_listing", free_space_is_believed_as_long_as_a_listing),
    ("folders_are_listed_ahead_of_a_walk", folders_are_listed_ahead_of_a_walk),
    ("what_git_reads_is_fetched_ahead", what_git_reads_is_fetched_ahead),
    ("a_repository_is_listed_before_its_work_tree_is", a_repository_is_listed_before_its_work_tree_is),
];

/// The bytes of a folder on disk.
fn on_disk(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(kind) if kind.is_dir() => on_disk(&entry.path()),
        Ok(kind) => kind.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(size).sum()
}

fn a_program_that_stops_in_a_large_file_costs_little(world: &World) -> Result<(), Failed> {
    let content = noise(60_000_000);
    world.store("film", &content)?;
    let mut file = File::open(world.here.join("film"))?;
    let mut begin = vec![0; 600_000];
    file.read_exact(&mut begin)?;
    thread::sleep(Duration::from_millis(1500));
    let fetched = on_disk(&world.cache);
    assert!((600_000..10_000_000).contains(&fetched), "{fetched} bytes were fetched");
    // It goes on after a pause that has ended the fetch.
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    assert!(begin == content[..600_000] && rest == content[600_000..]);
    Ok(())
}

fn a_file_read_in_order_costs_few_requests() -> Result<(), Failed> {
    let content = noise(20_000_000);
    let doubled = Doubled::new(&[("/film", &content)], LockPolicy::Never)?;
    assert!(fs::read(doubled.here.join("film"))? == *content);
    let requests = doubled.count("GET");
    assert!(requests <= 3, "{requests} requests");
    Ok(())
}

fn folders_are_listed_ahead_of_a_walk() -> Result<(), Failed> {
    let names: Vec<_> = (0..100).map(|number| format!("/folder{number:02}/below/file")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &b"content"[..])).collect();
    let doubled = Doubled::new(&files, LockPolicy::Never)?;
    let is_listed = |folder: &str| doubled.double.log().contains(&format!("PROPFIND {folder}"));
    // One visit, and others out of order, say nothing of the next.
    for visited in ["folder40", "folder03"] {
        fs::read_dir(doubled.here.join(visited))?.count();
    }
    thread::sleep(Duration::from_millis(100));
    assert!(!is_listed("/folder04") && !is_listed("/folder41"), "{}", doubled.double.log());
    // In order, two say where it goes.
    for visited in ["folder70", "folder70/below", "folder71"] {
        fs::read_dir(doubled.here.join(visited))?.count();
    }
    wait_for("a listing ahead", || is_listed("/folder71/below") && is_listed("/folder72/below"));
    assert!(!is_listed("/folder99"), "{}", doubled.double.log());
    Ok(())
}

fn contents_outlive_the_mount() -> Result<(), Failed> {
    let content = noise(600_000);
    let files = [("/a", &content[..]), ("/b", b"old"), ("/c", b"other"), ("/d", b"ours")];
    let doubled = Doubled::with_identity(&files, Some(1))?;
    let read = |name: &str| fs::read(doubled.here.join(name));
    let (_, first) = (read("a")?, [read("b")?, read("c")?, read("d")?]);
    assert_eq!(first, [&b"old"[..], b"other", b"ours"]);
    fs::write(doubled.here.join("d"), "changed here")?;
    doubled.mount_again(Some(1))?;
    doubled.double.put("/b", b"new", Duration::from_secs(1));
    let_listings_expire();
    let before = doubled.count("GET");
    assert!(read("a")? == *content && read("c")? == b"other" && read("d")? == b"changed here");
    assert_eq!(doubled.count("GET"), before, "unchanged files were fetched again");
    assert_eq!((read("b")?, doubled.count("GET")), (b"new".to_vec(), before + 1));
    // Somebody else's credentials.
    doubled.mount_again(Some(2))?;
    assert!(read("a")? == *content && doubled.count("GET") > before + 1);
    // After the end of both, whoever unmounted them, they are used after a restart too.
    nix::mount::umount(&doubled.here)?;
    doubled.unmount().ok();
    let folders: Vec<_> = fs::read_dir(doubled.cache.join(mount::CONTENTS))?.collect::<Result<_, _>>()?;
    assert_eq!(folders.len(), 2);
    for folder in folders {
        let state = fs::read_to_string(folder.path().join("state"))?;
        assert!(state.ends_with("ended well"), "{state}");
    }
    Ok(())
}

fn dead_properties_are_extended_attributes() -> Result<(), Failed> {
    let doubled = Doubled::new(&[("/a", b"content")], LockPolicy::Never)?;
    let script = r#"
import errno, os, sys
name, value = 'user.dav.{http://example.org/?a&"<b>}colour', 'gr\u00fcn <b>&"\'\r\n\t end '.encode()
def fails(number, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError(f'{call} {arguments}')
def check(file):
    fails(errno.ENODATA, os.getxattr, file, name)
    fails(errno.ENODATA, os.removexattr, file, name)
    fails(errno.ENODATA, os.setxattr, file, name, value, os.XATTR_REPLACE)
    os.setxattr(file, name, value, os.XATTR_CREATE)
    fails(errno.EEXIST, os.setxattr, file, name, value, os.XATTR_CREATE)
    assert os.getxattr(file, name) == value, os.getxattr(file, name)
    assert sorted(os.listxattr(file)) == ['user.dav.etag', name], os.listxattr(file)
    fails(errno.EPERM, os.setxattr, file, 'user.dav.{DAV:}getetag', b'x')
    fails(errno.EPERM, os.setxattr, file, 'user.dav.etag', b'x')
    fails(errno.ENOTSUP, os.setxattr, file, 'user.other', b'x')
    fails(errno.ENODATA, os.getxattr, file, 'user.other')
    fails(errno.ENOTSUP, os.getxattr, file, 'trusted.other' if os.geteuid() == 0 else 'system.posix_acl_access')
    fails(errno.EINVAL, os.setxattr, file, name, b'\xff')
    fails(errno.EINVAL, os.setxattr, file, name, b'\0')
    os.removexattr(file, name)
    assert os.listxattr(file) == ['user.dav.etag']
check(sys.argv[1] + '/a')
# The server does not have it yet.
with open(sys.argv[1] + '/new', 'w') as file:
    file.write('text')
    file.flush()
    check(file.fileno())
"#;
    let output = match Command::new("python3").args(["-c", script]).arg(&doubled.here).output() {
        Err(error) => {
            println!("skipped: no python3 to set attributes with: {error}");
            return Ok(());
        }
        Ok(output) => output,
    };
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), doubled.double.log());
    assert_eq!(doubled.content("new").as_deref(), Some(&b"text"[..]));
    // A server that stores none.
    doubled.double.script(|method, _, _| (method == "PROPPATCH").then_some(Fault::Respond(405, "")));
    let set = "import os, sys; os.setxattr(sys.argv[1], 'user.dav.{a}b', b'x')";
    let output = Command::new("python3").args(["-c", set]).arg(doubled.here.join("a")).output()?;
    assert!(String::from_utf8_lossy(&output.stderr).contains("not supported"), "{output:?}");
    Ok(())
}

fn extended_attributes_can_be_switched_off() -> Result<(), Failed> {
    let doubled = Doubled::new(&[("/a", b"content")], LockPolicy::Never)?;
    let script = r"
import errno, os, sys
file, wanted = sys.argv[1] + '/a', sys.argv[2]
for call in [
    lambda: os.getxattr(file, 'user.dav.etag'),
    lambda: os.listxattr(file),
    lambda: os.setxattr(file, 'user.dav.{a}b', b'x'),
    lambda: os.removexattr(file, 'user.dav.{a}b'),
]:
    try:
        call()
        found = 'there'
    except OSError as error:
        found = 'none' if error.errno == errno.ENOTSUP else repr(error)
    assert found == wanted, found
";
    for wanted in ["there", "none"] {
        if wanted == "none" {
            doubled.mount_without_attributes()?;
        }
        let output = match Command::new("python3").args(["-c", script]).arg(&doubled.here).arg(wanted).output() {
            Err(error) => {
                println!("skipped: no python3 to ask for attributes with: {error}");
                return Ok(());
            }
            Ok(output) => output,
        };
        assert!(output.status.success(), "{wanted}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn free_space_is_believed_as_long_as_a_listing() -> Result<(), Failed> {
    // Believed for minutes.
    let doubled = Doubled::writing_back(&[("/a", b"content")], 1 << 20)?;
    let before = doubled.count("PROPFIND");
    for _ in 0..3 {
        statvfs(&doubled.here)?;
    }
    assert_eq!(doubled.count("PROPFIND"), before + 1, "{}", doubled.double.log());
    // And for a moment.
    let doubled = Doubled::new(&[("/a", b"content")], LockPolicy::Never)?;
    let before = doubled.count("PROPFIND");
    for _ in 0..2 {
        statvfs(&doubled.here)?;
        let_listings_expire();
    }
    assert!(doubled.count("PROPFIND") >= before + 2, "{}", doubled.double.log());
    Ok(())
}

fn what_git_reads_is_fetched_ahead() -> Result<(), Failed> {
    let pack = noise(500_000);
    let world = Doubled::with_identity(
        &[
            ("/work/.git/HEAD", b"ref: refs/heads/topic/one\n"),
            ("/work/.git/config", b"[core]"),
            ("/work/.git/index", b"DIRC"),
            ("/work/.git/description", b"not read"),
            ("/work/.git/refs/heads/topic/one", b"0123"),
            ("/work/.git/refs/heads/other", b"4567"),
            ("/work/.git/objects/pack/pack-1.idx", b"index"),
            ("/work/.git/objects/pack/pack-1.pack", &pack),
            ("/work/a/b", b"b"),
        ],
        Some(1),
    )?;
    // Git looks for it.
    fs::metadata(world.here.join("work/.git"))?;
    let has_fetched = |path: &str| world.double.log().contains(&format!(" GET /work/.git/{path}"));
    let read =
        ["HEAD", "config", "index", "refs/heads/topic/one", "objects/pack/pack-1.idx", "objects/pack/pack-1.pack"];
    for path in read {
        wait_for(path, || has_fetched(path));
    }
    assert!(!has_fetched("description") && !has_fetched("refs/heads/other"));
    // It is about to look at every file.
    let has_listed = || world.double.log().contains(" PROPFIND /work/a ");
    assert!(!has_listed());
    assert_eq!(fs::read(world.here.join("work/.git/index"))?, b"DIRC");
    wait_for("the work tree is listed", has_listed);
    for (path, content) in [("HEAD", b"ref: refs/heads/topic/one\n".as_slice()), ("objects/pack/pack-1.pack", &pack)] {
        assert!(fs::read(world.here.join("work/.git").join(path))? == content, "{path}");
    }
    Ok(())
}

fn a_repository_is_listed_before_its_work_tree_is() -> Result<(), Failed> {
    let files: [(&str, &[u8]); 2] = [("/work/.git/config", b"[core]"), ("/plain/a", b"a")];
    let world = Doubled::with_timeout(&files, LockPolicy::Never, Duration::from_secs(20))?;
    // The listing of a large work tree takes a while.
    let slow = Duration::from_secs(3);
    let is_work_tree = |method: &str, path: &str| method == "PROPFIND" && path == "/work";
    world.double.script(move |method, path, _| is_work_tree(method, path).then_some(Fault::Delay(slow)));
    let is_found = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| is_found.store(fs::metadata(world.here.join("work/.git")).is_ok(), Ordering::SeqCst));
        wait_for("git's files are fetched", || world.double.log().contains(" GET /work/.git/config"));
        assert!(!is_found.load(Ordering::SeqCst), "before the work tree is listed");
    });
    assert!(is_found.load(Ordering::SeqCst));
    // Where there is none, none is seen.
    for path in ["plain/.git", "plain/.git/config"] {
        let missing = fs::metadata(world.here.join(path)).expect_err("it does not exist");
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound, "{path}");
    }
    assert_eq!(fs::read_dir(world.here.join("plain"))?.count(), 1);
    Ok(())
}
