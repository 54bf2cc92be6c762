//! The mount and the server are killed.

use std::{fs, io, thread, time::Duration};

use libtest_mimic::Failed;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    LARGEST, finish,
    random::Random,
    times, whole_on_disk,
    world::{self, World},
    writers::{load, store},
};

/// The mount dies in two of three cases, and the server in the others.
pub(crate) fn mount_or_server(mode: &'static str) -> Result<(), Failed> {
    crash(mode, |world, random| if random.below(3) == 0 { server(world, random) } else { mount(world) })
}

/// Only the server dies.
pub(crate) fn server_only(mode: &'static str) -> Result<(), Failed> {
    crash(mode, server)
}

fn mount(world: &mut World) -> io::Result<()> {
    world.kill_mount();
    world.start_mount()
}

fn server(world: &mut World, random: &mut Random) -> io::Result<()> {
    world.kill_server();
    thread::sleep(random.time(Duration::from_millis(500)));
    world.start_server()
}

fn crash(
    mode: &'static str,
    mut once: impl FnMut(&mut World, &mut Random) -> io::Result<()> + Send,
) -> Result<(), Failed> {
    let mut random = Random::of_run();
    let mut world = World::new(mode)?;
    world.start_server()?;
    world.start_mount()?;
    let load = load(&mut world, &mut random, LARGEST, |world, random| {
        for _ in 0..times("CRASHES", 6) {
            thread::sleep(random.time(Duration::from_millis(600)));
            once(world, random)?;
        }
        thread::sleep(Duration::from_millis(300));
        Ok(())
    })?;
    finish(&mut world)?;
    load.check(&world, whole_on_disk(&world))
}

pub(crate) fn a_mount_is_told_to_end() -> Result<(), Failed> {
    let mut world = World::new("back")?;
    world.start_server()?;
    world.start_mount()?;
    let refused = |world: &World, why: &str| {
        let tried = world.mount_command().output().expect("it runs");
        let said = String::from_utf8_lossy(&tried.stderr).into_owned();
        assert!(!tried.status.success() && said.contains(why), "{said}");
    };
    refused(&world, "something is mounted there already");
    store(&world.path("here").join("file"), b"content")?;
    let mut mount = world.mount.take().ok_or("it runs")?;
    kill(Pid::from_raw(mount.id() as i32), Signal::SIGTERM)?;
    // It has nothing to wait for.
    assert_eq!(mount.wait()?.code(), Some(0));
    assert_eq!(fs::read(world.path("there").join("file"))?, b"content");
    assert!(!world.is_mounted()?);
    world.start_mount()?;
    world::kill(&mut world.mount);
    refused(&world, "the mount there has died");
    assert!(world.unmount().status.success());
    fs::write(world.path("here").join("hidden"), "")?;
    refused(&world, "not empty");
    Ok(())
}
