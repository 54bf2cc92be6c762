//! The disk of the cache is full.

use std::{fs, thread, time::Duration};

use libtest_mimic::Failed;
use nix::mount::{MsFlags, mount};

use crate::{
    finish,
    random::Random,
    times, whole_on_disk,
    world::World,
    writers::{load, store},
};

/// The size of the disk: a few files of the largest size.
const DISK: &str = "size=4m,mode=700";
/// The largest file.
const LARGEST: u64 = 2_500_000;

/// Under load for `DISK_SECONDS=<N>`.
pub(crate) fn under_load(mode: &'static str) -> Result<(), Failed> {
    let mut random = Random::of_run();
    let mut world = World::new(mode)?;
    mount(Some("tmpfs"), &world.path("cache"), Some("tmpfs"), MsFlags::empty(), Some(DISK))?;
    world.start_server()?;
    world.start_mount()?;
    let load = load(&mut world, &mut random, LARGEST, |_, _| {
        thread::sleep(Duration::from_secs(times("DISK_SECONDS", 4)));
        Ok(())
    })?;
    // The disk has room again for who comes next.
    let after = (0..600).find_map(|_| {
        let stored = store(&world.path("here").join("after"), &vec![b'x'; 100_000]);
        stored.inspect_err(|_| thread::sleep(Duration::from_millis(100))).ok()
    });
    assert!(after.is_some(), "nothing can be written any more\n{}\n{}", world.status(), world.log());
    finish(&mut world)?;
    assert_eq!(fs::read(world.path("there").join("after"))?.len(), 100_000);
    assert!(load.saved > 0, "nothing was saved\n{}", world.log());
    load.check(&world, whole_on_disk(&world))
}
