//! A cache folder on a disk that is smaller than what is cached.

use std::{
    fs::{self, File},
    io::Write as _,
};

use dav::LockPolicy;
use libtest_mimic::Failed;
use mount::Write;
use nix::{
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
};
use tempfile::TempDir;

use crate::{
    DoubleTest,
    doubled::{Doubled, TIMEOUT, wait_for},
    world::noise,
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("what_is_cached_makes_room_on_a_full_disk", what_is_cached_makes_room),
    ("a_write_without_room_fails_and_loses_nothing", a_write_without_room_fails),
    ("a_journal_on_a_full_disk_gives_its_room_back", a_journal_gives_its_room_back),
];

const MIB: usize = 1 << 20;
/// The size of the disk.
const DISK: usize = 16 * MIB;

/// A disk, which goes with its test.
struct Disk(TempDir);

impl Disk {
    fn new() -> Result<Self, Failed> {
        let folder = tempfile::Builder::new().prefix("haul-mount").tempdir()?;
        let size = format!("size={DISK}");
        mount(Some("tmpfs"), folder.path(), Some("tmpfs"), MsFlags::empty(), Some(&*size))?;
        Ok(Self(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

/// A double with these files, whose cache is on a small disk. The disk has to go last.
fn world(files: &[(&str, &[u8])], write: Write) -> Result<(Doubled, Disk), Failed> {
    let scratch = tempfile::Builder::new().prefix("haul-mount").tempdir()?;
    let here = scratch.path().join("here");
    fs::create_dir(&here)?;
    let disk = Disk::new()?;
    let cache = disk.0.path().to_owned();
    let world = Doubled::on(files, (LockPolicy::Never, write), TIMEOUT, here, cache, scratch)?;
    Ok((world, disk))
}

fn what_is_cached_makes_room() -> Result<(), Failed> {
    let (part, large) = (noise(6 * MIB), noise(3 * DISK));
    let files: [(&str, &[u8]); 5] = [("/a", &part), ("/b", &part), ("/c", &part), ("/d", &part), ("/large", &large)];
    for identity in [None, Some(1)] {
        let (world, disk) = world(&files, Write::Through)?;
        world.mount_again(identity)?;
        for name in ["a", "b", "c", "d", "large", "a", "b"] {
            let expected = if name == "large" { &large } else { &part };
            assert!(fs::read(world.here.join(name))? == **expected, "{name}");
        }
        fs::write(world.here.join("new"), &large[..DISK - 2 * MIB])?;
        assert!(world.content("new").as_deref() == Some(&large[..DISK - 2 * MIB]));
        drop((world, disk));
    }
    Ok(())
}

fn a_write_without_room_fails() -> Result<(), Failed> {
    let large = noise(2 * DISK);
    for write in [Write::Through, Write::Back { journal_size: 1 << 40 }] {
        let (world, disk) = world(&[("/file", b"original")], write)?;
        let mut file = File::create(world.here.join("large"))?;
        let error = file.write_all(&large).expect_err("there is no room");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        drop(file);
        fs::remove_file(world.here.join("large"))?;
        fs::write(world.here.join("file"), "changed")?;
        File::open(world.here.join("file"))?.sync_all()?;
        assert_eq!(world.content("file").as_deref(), Some(&b"changed"[..]));
        drop((world, disk));
    }
    Ok(())
}

fn a_journal_gives_its_room_back() -> Result<(), Failed> {
    let (world, disk) = world(&[], Write::Back { journal_size: 1 << 40 })?;
    world.kill();
    // Deleting empty contents gives no room back, so that the records of the uploads need some.
    for number in 0..200 {
        fs::write(world.here.join(format!("{number}")), "")?;
    }
    let ballast = disk.0.path().join("ballast");
    let filled = File::create(&ballast)?.write_all(&noise(DISK)).expect_err("there is no room");
    assert_eq!(filled.raw_os_error(), Some(libc::ENOSPC));
    while File::options().append(true).open(&ballast)?.write_all(&[0]).is_ok() {}
    world.restart();
    world.wait_until_uploaded();
    let data = world.journal().folder.join("data");
    wait_for("contents are deleted", || fs::read_dir(&data).is_ok_and(|entries| entries.count() == 0));
    fs::remove_file(&ballast)?;
    fs::write(world.here.join("after"), "after")?;
    world.wait_until_uploaded();
    assert_eq!(world.content("after").as_deref(), Some(&b"after"[..]));
    drop((world, disk));
    Ok(())
}
