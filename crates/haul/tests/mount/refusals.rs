//! The server refuses uploads for a while: its disk is full (507), somebody has locked the files (423), or it does not
//! accept the credentials (401).

use std::{io, thread, time::Duration};

use libtest_mimic::Failed;
use servers::{Double, Fault};
use tokio::runtime::Runtime;

use crate::{LARGEST, finish, random::Random, times, world::World, writers::load};

const REFUSALS: [(u16, &str); 3] = [(507, ""), (423, ""), (401, "WWW-Authenticate: Basic realm=\"there\"\r\n")];

/// `REFUSALS=<N>` times, one of two changes is refused.
pub(crate) fn under_load(mode: &'static str) -> Result<(), Failed> {
    let mut random = Random::of_run();
    let runtime = Runtime::new()?;
    let double = runtime.block_on(Double::start());
    let mut world = World::new(mode)?;
    world.target = double.address.to_string();
    world.start_mount()?;
    let load = load(&mut world, &mut random, LARGEST, |_, random| {
        for number in 0..times("REFUSALS", 6) {
            thread::sleep(random.time(Duration::from_millis(300)));
            let (status, header) = REFUSALS[number as usize % REFUSALS.len()];
            let mut draw = random.split();
            double.script(move |method, _, _| {
                let is_change = matches!(method, "PUT" | "MOVE" | "DELETE");
                (is_change && draw.below(2) == 0).then_some(Fault::Respond(status, header))
            });
            thread::sleep(random.time(Duration::from_millis(300)));
            double.clear_faults();
        }
        thread::sleep(Duration::from_millis(300));
        Ok::<_, io::Error>(())
    })?;
    finish(&mut world)?;
    assert!(load.saved > 0 && load.failed > 0 || mode == "back", "{} saved, {} failed", load.saved, load.failed);
    let files = double.files("/");
    load.check(&world, |name| files.get(name).cloned())
}
