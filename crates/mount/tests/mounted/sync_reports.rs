//! A server that reports what has changed in a folder (RFC 6578).

use std::{collections::BTreeMap, error::Error, fs, time::Duration};

use dav::LockPolicy;
use libtest_mimic::Failed;
use servers::SyncReports;

use crate::{DoubleTest, doubled::Doubled, world::let_listings_expire};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("a_large_folder_is_listed_again_by_its_changes", a_large_folder_is_listed_again_by_its_changes),
    ("a_refused_sync_token_costs_a_listing", a_refused_sync_token_costs_a_listing),
    ("a_server_without_reports_is_asked_once", a_server_without_reports_is_asked_once),
    ("changes_here_and_elsewhere_make_one_listing", changes_here_and_elsewhere_make_one_listing),
];

/// A mount whose root has been listed twice, so that its sync point is known if there is one.
fn world(reports: Option<SyncReports>) -> Result<Doubled, Box<dyn Error>> {
    let world = Doubled::new(&[], LockPolicy::Never)?;
    world.double.set_sync_reports(reports);
    for number in 0..150 {
        world.double.put(&format!("/{number:03}"), b"old", Duration::from_hours(1));
    }
    for _ in 0..2 {
        let_listings_expire();
        assert_eq!(fs::read_dir(&world.here)?.count(), 150);
    }
    Ok(world)
}

fn change(world: &Doubled) {
    world.double.put("/new", b"new", Duration::ZERO);
    world.double.put("/007", b"changed", Duration::ZERO);
    world.double.remove("/008");
    let_listings_expire();
}

/// What the mount shows: names and lengths.
fn seen(world: &Doubled) -> Result<BTreeMap<String, u64>, Failed> {
    let entries = fs::read_dir(&world.here)?.map(|entry| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()))
    });
    entries.collect()
}

fn there(world: &Doubled) -> BTreeMap<String, u64> {
    world.double.files("").into_iter().map(|(path, content)| (path, content.len() as u64)).collect()
}

fn a_large_folder_is_listed_again_by_its_changes() -> Result<(), Failed> {
    let world = world(Some(SyncReports::default()))?;
    change(&world);
    let before = (world.count("PROPFIND"), world.count("REPORT"));
    assert_eq!(seen(&world)?, there(&world));
    assert_eq!((world.count("PROPFIND"), world.count("REPORT")), (before.0, before.1 + 1));
    assert_eq!(fs::read(world.here.join("007"))?, b"changed");
    Ok(())
}

fn a_refused_sync_token_costs_a_listing() -> Result<(), Failed> {
    let world = world(Some(SyncReports::default()))?;
    world.double.set_sync_reports(Some(SyncReports { oldest_token: 1000, ..SyncReports::default() }));
    change(&world);
    assert_eq!(seen(&world)?, there(&world));
    world.double.set_sync_reports(None);
    world.double.put("/newer", b"newer", Duration::ZERO);
    let_listings_expire();
    assert_eq!(seen(&world)?, there(&world));
    Ok(())
}

fn a_server_without_reports_is_asked_once() -> Result<(), Failed> {
    let world = world(None)?;
    change(&world);
    let before = world.count("PROPFIND");
    assert_eq!(seen(&world)?, there(&world));
    assert_eq!((world.count("PROPFIND"), world.count("REPORT")), (before + 1, 0));
    Ok(())
}

fn changes_here_and_elsewhere_make_one_listing() -> Result<(), Failed> {
    let world = world(Some(SyncReports { limit: 3, ..SyncReports::default() }))?;
    let before = world.count("REPORT");
    let mut state = 1_u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (state >> 16) % below
    };
    for round in 0..12 {
        for _ in 0..random(8) {
            let (name, other) = (format!("{:03}", random(160)), format!("{:03}", random(160)));
            let (here, there) = (world.here.join(&name), format!("/{name}"));
            match random(5) {
                // Whether a name that the mount believes in is still there, is a matter of its freshness.
                0 => drop(fs::write(here, vec![b'm'; round * 10 + 1])),
                1 => drop(fs::remove_file(here)),
                2 => drop(fs::rename(here, world.here.join(other))),
                3 => world.double.put(&there, &vec![b't'; round * 10 + 2], Duration::ZERO),
                _ => world.double.remove(&there),
            }
        }
        let_listings_expire();
        let (seen, there) = (seen(&world)?, there(&world));
        assert!(seen == there, "round {round}: {seen:?} is not {there:?}");
    }
    assert!(world.count("REPORT") > before, "it was not tested");
    Ok(())
}
