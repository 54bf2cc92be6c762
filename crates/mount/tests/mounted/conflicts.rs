//! Versions that are saved while an upload before them finds that somebody else has changed the file.

use std::{
    fs::{self, File},
    io::Write as _,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use libtest_mimic::Failed;
use servers::Fault;

use crate::{
    DoubleTest,
    doubled::{Doubled, wait_for},
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("a_second_conflict_of_a_file_that_nobody_has_open_hangs_nothing", a_second_conflict_hangs_nothing),
    ("a_version_that_waits_during_a_conflict_follows_it", a_version_that_waits_during_a_conflict_follows_it),
];

const ROOM: u64 = 64 << 20;

/// The names and contents on the server.
fn files(world: &Doubled) -> Vec<(String, String)> {
    let files = world.double.files("").into_iter();
    files.map(|(name, content)| (name, String::from_utf8_lossy(&content).into_owned())).collect()
}

fn a_second_conflict_hangs_nothing() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/report.txt", b"first")], ROOM)?;
    let path = world.here.join("report.txt");
    // Nobody knows whether the server has the first version, so the second one does not replace it in the journal.
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Reset));
    fs::write(&path, "ours")?;
    wait_for("the upload has failed", || world.journal().pending.iter().any(|file| file.failure.is_some()));
    fs::write(&path, "ours, saved again")?;
    world.double.put("/report.txt", b"theirs", Duration::ZERO);
    // The server takes the copy, and not yet what follows.
    let copies = AtomicUsize::new(0);
    world.double.script(move |method, path, _| {
        let is_later = path.contains("conflict") && copies.fetch_add(1, Ordering::SeqCst) > 0;
        (method == "PUT" && is_later).then_some(Fault::Respond(507, ""))
    });
    wait_for("the conflict is known", || !world.journal().messages.is_empty());
    // The name is another file's by now, and the kernel forgets the first one.
    assert_eq!(fs::read(&path)?, b"theirs");
    let copy = files(&world).into_iter().find(|(_, content)| content == "ours").ok_or("no copy")?.0;
    world.double.put(&format!("/{copy}"), b"theirs as well", Duration::ZERO);
    world.double.clear_faults();
    world.wait_until_uploaded();
    let found = files(&world);
    let contents: Vec<_> = found.iter().map(|(_, content)| &**content).collect();
    assert!(found.len() == 3 && contents.contains(&"ours, saved again"), "{found:?}");
    assert!(contents.contains(&"theirs") && contents.contains(&"theirs as well"), "{found:?}");
    File::open(&path)?.sync_all()?;
    fs::remove_file(&path)?;
    Ok(())
}

/// The second version waits for room in the journal, until the upload of the first one has ended in a conflict.
fn a_version_that_waits_during_a_conflict_follows_it() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/report.txt", b"first")], 100)?;
    let path = world.here.join("report.txt");
    let mut open = File::options().write(true).open(&path)?;
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
    fs::write(&path, [b'1'; 60])?;
    open.write_all(&[b'2'; 61])?;
    let saved = thread::spawn(move || drop(open));
    // Nothing shows that it waits. If it does not yet, the test tests less.
    thread::sleep(Duration::from_millis(300));
    world.double.put("/report.txt", b"theirs", Duration::ZERO);
    world.double.clear_faults();
    wait_for("it is saved", || saved.is_finished());
    world.wait_until_uploaded();
    let found = files(&world);
    let ours: Vec<_> = found.iter().filter(|(name, _)| name.contains("conflict")).collect();
    assert!(matches!(ours[..], [(_, content)] if *content == "2".repeat(61)), "{found:?}");
    assert!(found.contains(&("report.txt".into(), "theirs".into())) && found.len() == 2, "{found:?}");
    Ok(())
}
