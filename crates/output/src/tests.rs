//! Each kind of file that a path can lead to. What goes to standard output is tested through the program, in
//! `crates/haul/tests/result_files.rs`.

use std::os::unix::fs::{FileTypeExt, symlink};
use std::thread;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

fn put(path: &Path, text: &str) -> io::Result<()> {
    write(path, |to| to.write_all(text.as_bytes()))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn fifo_gets_the_content_and_stays_a_fifo() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let reader = thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).unwrap()
    });
    put(&fifo, "content").unwrap();
    assert_eq!(reader.join().unwrap(), "content");
    assert!(fifo.symlink_metadata().unwrap().file_type().is_fifo());
    assert_eq!(names(folder.path()), ["fifo"]);
}

#[test]
fn device_is_written_and_stays_a_device() {
    let before = fs::metadata("/dev/null").unwrap();
    put(Path::new("/dev/null"), "content").unwrap();
    let after = fs::metadata("/dev/null").unwrap();
    assert!(after.file_type().is_char_device());
    assert_eq!((before.ino(), before.rdev()), (after.ino(), after.rdev()));
}

#[test]
fn link_stays_and_its_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (below, link, second) = (folder.path().join("below"), folder.path().join("link"), folder.path().join("second"));
    fs::create_dir(&below).unwrap();
    fs::write(below.join("file"), "old").unwrap();
    symlink("below/file", &link).unwrap();
    symlink(&link, &second).unwrap();
    put(&second, "new").unwrap();
    assert_eq!(fs::read_to_string(below.join("file")).unwrap(), "new");
    assert_eq!(link.read_link().unwrap(), Path::new("below/file"));
    assert_eq!(second.read_link().unwrap(), link);
    assert_eq!(
        (names(folder.path()), names(&below)),
        (vec!["below".into(), "link".into(), "second".into()], vec!["file".to_owned()])
    );
}

#[test]
fn dangling_link_creates_its_file() {
    let folder = tempfile::tempdir().unwrap();
    symlink("file", folder.path().join("link")).unwrap();
    put(&folder.path().join("link"), "new").unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "new");
    assert!(folder.path().join("link").is_symlink());
}

#[test]
fn links_in_a_circle_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    assert!(put(&folder.path().join("a"), "new").is_err());
}

#[test]
fn permissions_and_owner_of_a_file_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "a longer old content").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    // Only root can give it away; for others the owner stays as it is.
    let _ = std::os::unix::fs::chown(&file, Some(12345), Some(54321));
    let before = file.metadata().unwrap();
    put(&file, "new").unwrap();
    let after = file.metadata().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert_eq!((before.mode(), before.uid(), before.gid()), (after.mode(), after.uid(), after.gid()));
    assert_ne!(before.ino(), after.ino(), "replaced by a rename");
}

#[test]
fn failed_content_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "old").unwrap();
    let failed = write(&file, |to| {
        to.write_all(b"half")?;
        Err(io::Error::other("no more"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no more");
    assert_eq!((fs::read_to_string(&file).unwrap(), names(folder.path())), ("old".into(), vec!["file".to_owned()]));
}

#[test]
fn folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(put(folder.path(), "new").is_err());
    assert!(put(&folder.path().join("missing/file"), "new").is_err());
    assert!(put(Path::new(".."), "new").is_err());
    assert!(folder.path().is_dir() && names(folder.path()).is_empty());
}

#[test]
fn descriptors_of_this_process_are_told_from_files() {
    for (path, expected) in [
        ("/dev/stdout", Destination::Stdout),
        ("/dev/fd/1", Destination::Stdout),
        ("/proc/self/fd/1", Destination::Stdout),
        ("/dev/stderr", Destination::Stderr),
    ] {
        assert_eq!(Destination::of(Path::new(path)).unwrap(), expected, "{path}");
    }
    let folder = tempfile::tempdir().unwrap();
    symlink("/proc/self/fd/1", folder.path().join("out")).unwrap();
    assert_eq!(Destination::of(&folder.path().join("out")).unwrap(), Destination::Stdout);
}
