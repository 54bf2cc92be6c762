//! The link to the server is cut.

use std::{
    thread,
    time::{Duration, Instant},
};

use libtest_mimic::Failed;

use crate::{
    LARGEST,
    common::PATIENCE,
    finish,
    random::Random,
    relay::Relay,
    times, whole_on_disk,
    world::World,
    writers::{load, store},
};

fn linked(mode: &'static str) -> Result<(World, Relay), Failed> {
    let mut world = World::with_timeout(mode, "1s")?;
    world.start_server()?;
    let relay = Relay::new(world.address().to_owned())?;
    world.target = relay.address.to_string();
    world.start_mount()?;
    Ok((world, relay))
}

/// `CUTS=<N>` cuts of up to `CUT_SECONDS=<N>`.
pub(crate) fn under_load(mode: &'static str) -> Result<(), Failed> {
    let mut random = Random::of_run();
    let (mut world, relay) = linked(mode)?;
    let longest = Duration::from_secs(times("CUT_SECONDS", 3));
    let load = load(&mut world, &mut random, LARGEST, |_, random| {
        for _ in 0..times("CUTS", 3) {
            thread::sleep(random.time(Duration::from_secs(1)));
            relay.cut();
            thread::sleep(random.time(longest));
            relay.restore();
        }
        thread::sleep(Duration::from_millis(500));
        Ok(())
    })?;
    finish(&mut world)?;
    load.check(&world, whole_on_disk(&world))
}

/// Unmounting while the link is cut ends, says what is left, and the next mount uploads it.
pub(crate) fn at_the_end() -> Result<(), Failed> {
    let (mut world, relay) = linked("back")?;
    relay.cut();
    let names = ["one", "two", "three"];
    for name in names {
        store(&world.path("here").join(name), name.as_bytes())?;
    }
    let unmounted = world.unmount();
    let said = crate::common::text(&unmounted.stderr);
    assert!(unmounted.status.success() && said.contains("haul mount status"), "{said}");
    let mut mount = world.mount.take().ok_or("it was started")?;
    let begin = Instant::now();
    while mount.try_wait()?.is_none() {
        assert!(begin.elapsed() < PATIENCE, "the mount does not end");
        thread::sleep(Duration::from_millis(20));
    }
    let status = world.status();
    assert!(names.iter().all(|name| status.contains(name)), "{status}");
    relay.restore();
    world.start_mount()?;
    finish(&mut world)?;
    for name in names {
        assert_eq!(std::fs::read_to_string(world.path("there").join(name))?, name);
    }
    Ok(())
}
