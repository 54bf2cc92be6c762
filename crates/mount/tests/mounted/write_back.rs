//! Files that are safe in the journal before the server has them.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write as _,
    os::unix::fs::FileExt,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use dav::LockPolicy;
use libtest_mimic::Failed;
use mount::Write;
use nix::libc;
use servers::Fault;

use crate::{
    DoubleTest,
    doubled::{Doubled, PATIENCE, wait_for},
    world::noise,
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("close_does_not_wait_for_the_server_and_fsync_does", close_does_not_wait_for_the_server),
    ("what_is_in_the_journal_is_read_changed_renamed_and_deleted", what_is_in_the_journal_is_changed),
    ("an_empty_file_that_is_removed_at_once_costs_no_request", an_empty_file_that_is_removed_costs_nothing),
    ("a_version_written_during_an_upload_follows_it", a_version_written_during_an_upload_follows_it),
    ("the_next_mount_shows_and_uploads_what_is_left", the_next_mount_uploads_what_is_left),
    ("a_mount_without_a_journal_finishes_what_is_left", a_mount_without_a_journal_finishes_what_is_left),
    ("an_upload_without_an_answer_is_no_conflict_with_itself", an_upload_without_an_answer_is_no_conflict),
    ("a_conflict_in_the_journal_keeps_both_versions", a_conflict_keeps_both_versions),
    ("a_save_after_a_conflict_in_the_journal_has_its_own_name", a_save_after_a_conflict_has_its_own_name),
    ("what_was_saved_before_a_conflict_was_known_is_in_the_copy", what_was_saved_meanwhile_is_in_the_copy),
    ("an_upload_that_is_refused_stays_in_the_journal", an_upload_that_is_refused_stays),
    ("a_file_whose_folder_has_gone_is_kept", a_file_whose_folder_has_gone_is_kept),
    ("a_file_that_cannot_be_kept_stays_in_the_journal", a_file_that_cannot_be_kept_stays),
    ("writers_wait_for_room_in_the_journal", writers_wait_for_room),
    ("a_file_larger_than_the_journal_does_not_fit", a_file_larger_than_the_journal_does_not_fit),
    ("a_journal_belongs_to_one_mount", a_journal_belongs_to_one_mount),
    ("a_damaged_journal_keeps_what_it_can", a_damaged_journal_keeps_what_it_can),
    ("a_lock_lasts_until_the_journal_is_uploaded", a_lock_lasts_until_the_upload),
    ("a_lock_ends_though_its_file_has_left_the_cache", a_lock_ends_though_its_file_has_left_the_cache),
];

const ROOM: u64 = 64 << 20;
const BACK: Write = Write::Back { journal_size: ROOM };

fn close_does_not_wait_for_the_server() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/old", b"old")], ROOM)?;
    world.kill();
    fs::write(world.here.join("new"), "precious")?;
    fs::write(world.here.join("old"), "changed")?;
    assert_eq!(fs::read(world.here.join("new"))?, b"precious");
    let pending: Vec<_> =
        world.journal().pending.into_iter().map(|file| (file.path.to_string(), file.length)).collect();
    assert_eq!(pending, [("/new".to_owned(), 8), ("/old".to_owned(), 7)]);
    let error = File::open(world.here.join("new"))?.sync_all().expect_err("the server does not have it");
    assert_eq!(error.raw_os_error(), Some(libc::EHOSTUNREACH));
    wait_for("the reason is known", || world.journal().pending.iter().all(|file| file.failure.is_some()));
    world.restart();
    File::open(world.here.join("new"))?.sync_all()?;
    assert_eq!(world.content("new").as_deref(), Some(&b"precious"[..]));
    world.wait_until_uploaded();
    assert_eq!(world.content("old").as_deref(), Some(&b"changed"[..]));
    assert!(world.journal().messages.is_empty());
    let data = world.journal().folder.join("data");
    wait_for("contents are deleted", || fs::read_dir(&data).is_ok_and(|entries| entries.count() == 0));
    Ok(())
}

fn an_empty_file_that_is_removed_costs_nothing() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/kept", b"")], ROOM)?;
    // On a machine that is too busy for it, another one is.
    wait_for("a lock that the server never sees", || {
        let before = world.count("PUT") + world.count("DELETE");
        let lock = world.here.join("index.lock");
        let removed = File::create_new(&lock).map(drop).and_then(|()| fs::remove_file(&lock));
        removed.is_ok() && world.count("PUT") + world.count("DELETE") == before
    });
    // One that stays arrives.
    drop(File::create_new(world.here.join("stays"))?);
    world.wait_until_uploaded();
    assert_eq!(world.content("stays").as_deref(), Some(&b""[..]));
    assert!(world.content("index.lock").is_none());
    Ok(())
}

fn what_is_in_the_journal_is_changed() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/report", b"first")], ROOM)?;
    let here = |name: &str| world.here.join(name);
    // The name is known, and somebody reads it.
    assert_eq!(fs::read(here("report"))?, b"first");
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
    // As editors save: a new file takes the old one's place.
    for content in ["second", "third"] {
        fs::write(here("report.tmp"), content)?;
        fs::rename(here("report.tmp"), here("report"))?;
        assert_eq!(fs::read_to_string(here("report"))?, content);
    }
    fs::write(here("log"), "one\n")?;
    File::options().append(true).open(here("log"))?.write_all(b"two\n")?;
    fs::write(here("gone"), "nobody needs it")?;
    fs::remove_file(here("gone"))?;
    fs::write(here("a"), "moved")?;
    fs::rename(here("a"), here("b"))?;
    let pending: BTreeSet<_> = world.journal().pending.into_iter().map(|file| file.path.to_string()).collect();
    assert_eq!(pending, ["/b", "/log", "/report"].map(String::from).into());
    world.double.clear_faults();
    world.wait_until_uploaded();
    let files = world.double.files("");
    let files: Vec<_> = files.iter().map(|(name, content)| (&name[..], &content[..])).collect();
    assert_eq!(files, [("b", &b"moved"[..]), ("log", b"one\ntwo\n"), ("report", b"third")]);
    Ok(())
}

fn a_version_written_during_an_upload_follows_it() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/file", &vec![b'0'; 100_000])], ROOM)?;
    for round in 1..30_u8 {
        let file = File::options().write(true).open(world.here.join("file"))?;
        file.write_all_at(&[round; 1000], u64::from(round) * 1000)?;
        drop(file);
        // Some rounds find the upload of the one before on its way, some do not.
        thread::sleep(Duration::from_millis(u64::from(round % 7)));
    }
    world.wait_until_uploaded();
    let expected: Vec<u8> =
        (0..100_u8).flat_map(|part| [if (1..30).contains(&part) { part } else { b'0' }; 1000]).collect();
    assert!(world.content("file").as_deref() == Some(&expected[..]));
    assert!(world.journal().messages.is_empty(), "{:?}", world.journal().messages);
    assert_eq!(world.double.files("").len(), 1);
    Ok(())
}

fn leave_something(world: &Doubled) -> Result<(), Failed> {
    fs::create_dir(world.here.join("folder"))?;
    world.kill();
    fs::write(world.here.join("folder/new"), "precious")?;
    fs::write(world.here.join("old"), "changed")?;
    world.unmount()?;
    assert_eq!(world.journal().pending.len(), 2);
    wait_for("it is unmounted", || !world.journal().is_in_use());
    world.restart();
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
    Ok(())
}

fn the_next_mount_uploads_what_is_left() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/old", b"old")], ROOM)?;
    leave_something(&world)?;
    world.mount(LockPolicy::Never, BACK)?;
    assert!(world.journal().is_in_use());
    assert_eq!(fs::read(world.here.join("old"))?, b"changed");
    assert_eq!(fs::read(world.here.join("folder/new"))?, b"precious");
    let names: Vec<_> =
        fs::read_dir(world.here.join("folder"))?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
    assert_eq!(names, ["new"]);
    File::options().append(true).open(world.here.join("old"))?.write_all(b" again")?;
    world.double.clear_faults();
    world.wait_until_uploaded();
    assert_eq!(world.content("old").as_deref(), Some(&b"changed again"[..]));
    assert_eq!(world.content("folder/new").as_deref(), Some(&b"precious"[..]));
    assert!(world.journal().messages.is_empty(), "{:?}", world.journal().messages);
    Ok(())
}

fn a_mount_without_a_journal_finishes_what_is_left() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/old", b"old")], ROOM)?;
    leave_something(&world)?;
    world.mount(LockPolicy::Never, Write::Through)?;
    assert_eq!(fs::read(world.here.join("old"))?, b"changed");
    world.double.clear_faults();
    // It waits for the server.
    fs::write(world.here.join("through"), "at once")?;
    assert_eq!(world.content("through").as_deref(), Some(&b"at once"[..]));
    world.wait_until_uploaded();
    assert_eq!(world.content("folder/new").as_deref(), Some(&b"precious"[..]));
    assert_eq!(world.content("old").as_deref(), Some(&b"changed"[..]));
    Ok(())
}

fn an_upload_without_an_answer_is_no_conflict() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/old", b"old")], ROOM)?;
    // The server has it, and nobody here knows.
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::ResetAfterProcessing));
    fs::write(world.here.join("old"), "changed")?;
    wait_for("the server has it", || world.content("old").as_deref() == Some(b"changed"));
    world.kill();
    world.unmount()?;
    world.restart();
    world.double.clear_faults();
    world.mount(LockPolicy::Never, BACK)?;
    world.wait_until_uploaded();
    assert_eq!(world.double.files("").len(), 1);
    assert!(world.journal().messages.is_empty(), "{:?}", world.journal().messages);
    Ok(())
}

fn a_conflict_keeps_both_versions() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/report.txt", b"first")], ROOM)?;
    assert_eq!(fs::read(world.here.join("report.txt"))?, b"first");
    world.kill();
    fs::write(world.here.join("report.txt"), "ours")?;
    world.double.put("/report.txt", b"theirs", Duration::ZERO);
    world.restart();
    world.wait_until_uploaded();
    let files = world.double.files("");
    let ours = files.iter().find(|(_, content)| *content == b"ours").ok_or("ours is not there")?;
    let ours = ours.0.replace("%20", " ");
    assert!(ours.starts_with("report (conflict ") && files.len() == 2, "{files:?}");
    let messages = world.journal().messages;
    assert!(messages.len() == 1 && messages[0].what.contains(&ours), "{messages:?}");
    // The next mount believes no listing from before.
    world.unmount()?;
    world.mount(LockPolicy::Never, BACK)?;
    assert_eq!(fs::read(world.here.join("report.txt"))?, b"theirs");
    assert_eq!(fs::read(world.here.join(ours))?, b"ours");
    world.journal().acknowledge()?;
    assert!(world.journal().messages.is_empty());
    Ok(())
}

fn a_save_after_a_conflict_has_its_own_name() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/report.txt", b"first")], ROOM)?;
    assert_eq!(fs::read(world.here.join("report.txt"))?, b"first");
    world.kill();
    fs::write(world.here.join("report.txt"), "ours")?;
    world.double.put("/report.txt", b"theirs", Duration::ZERO);
    world.restart();
    world.wait_until_uploaded();
    // At once, while the kernel believes that the name is still the first file's.
    fs::write(world.here.join("report.txt"), "again")?;
    world.wait_until_uploaded();
    assert_eq!(world.content("report.txt").as_deref(), Some(&b"again"[..]));
    assert_eq!(world.double.files("").len(), 2, "one conflict: {:?}", world.double.files(""));
    Ok(())
}

fn what_was_saved_meanwhile_is_in_the_copy() -> Result<(), Failed> {
    for is_open in [false, true] {
        let world = Doubled::writing_back(&[("/report.txt", b"first")], ROOM)?;
        let path = world.here.join("report.txt");
        let file = File::options().write(true).open(&path)?;
        // Nobody knows whether the server has the first version, so the second one does not replace it in the journal.
        world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Reset));
        fs::write(&path, "ours")?;
        wait_for("the upload has failed", || world.journal().pending.iter().any(|file| file.failure.is_some()));
        fs::write(&path, "ours, saved again")?;
        world.double.put("/report.txt", b"theirs", Duration::ZERO);
        let file = Some(file).filter(|_| is_open);
        // The server takes the copy, and has no room for what follows.
        let copies = AtomicUsize::new(0);
        world.double.script(move |method, path, _| {
            let is_later = path.contains("conflict") && copies.fetch_add(1, Ordering::SeqCst) > 0;
            (method == "PUT" && is_later).then_some(Fault::Respond(507, ""))
        });
        wait_for("the conflict is known", || !world.journal().messages.is_empty());
        let names: Vec<_> = fs::read_dir(&world.here)?.flatten().map(|entry| entry.file_name()).collect();
        let copy = names.iter().find(|name| name.to_string_lossy().contains("conflict")).ok_or("no copy")?;
        let copy = world.here.join(copy);
        assert_eq!(fs::read_to_string(&copy)?, "ours, saved again");
        File::options().append(true).open(&copy)?.write_all(b", and edited")?;
        // Who has had it open all the time writes to the same file.
        let expected = if is_open { "OURS, saved again, and edited" } else { "ours, saved again, and edited" };
        if let Some(file) = &file {
            file.write_all_at(b"OURS", 0)?;
        }
        drop(file);
        world.double.clear_faults();
        world.wait_until_uploaded();
        let files = world.double.files("");
        let files: Vec<_> = files.values().map(|content| String::from_utf8_lossy(content).into_owned()).collect();
        assert!(files.len() == 2 && files.contains(&"theirs".into()), "{files:?}");
        assert!(files.contains(&expected.into()), "{files:?}");
    }
    Ok(())
}

fn an_upload_that_is_refused_stays() -> Result<(), Failed> {
    for status in [507, 423, 401, 403] {
        let world = Doubled::writing_back(&[], ROOM)?;
        world.double.script(move |method, _, _| (method == "PUT").then_some(Fault::Respond(status, "")));
        fs::write(world.here.join("new"), "precious")?;
        wait_for("it has failed", || world.journal().pending.iter().any(|file| file.failure.is_some()));
        assert!(world.journal().pending[0].failure.as_ref().is_some_and(|(_, why)| why.contains(&status.to_string())));
        assert_eq!(fs::read(world.here.join("new"))?, b"precious");
        world.double.clear_faults();
        // Whoever waits for it has it tried at once.
        File::open(world.here.join("new"))?.sync_all()?;
        assert_eq!(world.content("new").as_deref(), Some(&b"precious"[..]));
    }
    Ok(())
}

fn a_file_whose_folder_has_gone_is_kept() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[], ROOM)?;
    fs::create_dir(world.here.join("folder"))?;
    world.kill();
    fs::write(world.here.join("folder/new"), "precious")?;
    world.double.remove("/folder");
    world.restart();
    wait_for("it is kept", || world.unsaved() == [b"precious"]);
    world.wait_until_uploaded();
    assert_eq!(world.journal().messages.len(), 1);
    Ok(())
}

fn a_file_that_cannot_be_kept_stays() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[], ROOM)?;
    fs::create_dir(world.here.join("folder"))?;
    world.kill();
    fs::write(world.here.join("folder/new"), "precious")?;
    // As on a full disk, no folder can be made.
    fs::write(world.cache.join("unsaved"), "in the way")?;
    world.double.remove("/folder");
    world.restart();
    let is_told = |why: &str| why.contains("cannot be kept");
    wait_for("it has failed", || {
        world.journal().pending.iter().any(|it| it.failure.as_ref().is_some_and(|(_, why)| is_told(why)))
    });
    fs::remove_file(world.cache.join("unsaved"))?;
    world.unmount()?;
    world.mount(LockPolicy::Never, BACK)?;
    wait_for("it is kept", || world.unsaved() == [b"precious"]);
    world.wait_until_uploaded();
    assert_eq!(world.journal().messages.len(), 1);
    Ok(())
}

fn writers_wait_for_room() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[], 4 << 20)?;
    let part = noise(3 << 20);
    world.kill();
    fs::write(world.here.join("first"), &*part)?;
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| done.send(fs::write(world.here.join("second"), &*part)));
        assert!(is_done.recv_timeout(Duration::from_millis(1500)).is_err(), "there is no room");
        world.restart();
        is_done.recv_timeout(PATIENCE).expect("there is room now").map_err(Failed::from)
    })?;
    world.wait_until_uploaded();
    assert!(world.content("second").as_deref() == Some(&part[..]));
    Ok(())
}

fn a_file_larger_than_the_journal_does_not_fit() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[], 1 << 20)?;
    let error = fs::write(world.here.join("large"), &*noise(3 << 20)).expect_err("it does not fit");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    fs::write(world.here.join("small"), "fits")?;
    wait_for("it is there", || world.content("small").is_some());
    Ok(())
}

fn a_journal_belongs_to_one_mount() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[], ROOM)?;
    let error = world.mount(LockPolicy::Never, BACK).expect_err("it is in use");
    assert!(error.to_string().contains("is mounted with a journal already"), "{error}");
    Ok(())
}

fn a_damaged_journal_keeps_what_it_can() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[], ROOM)?;
    world.kill();
    for name in ["a", "b", "c"] {
        fs::write(world.here.join(name), name)?;
    }
    world.unmount()?;
    let records = world.journal().folder.join("records");
    let text = fs::read_to_string(&records)?;
    fs::write(&records, text.replacen("/b", "/x", 1))?;
    world.restart();
    world.mount(LockPolicy::Never, BACK)?;
    world.wait_until_uploaded();
    assert_eq!(world.double.files("").keys().collect::<Vec<_>>(), ["a", "c"]);
    let report = world.journal();
    assert!(report.messages.iter().any(|message| message.what.contains("damaged")), "{:?}", report.messages);
    let found: Vec<_> = fs::read_dir(report.folder.join("found"))?
        .map(|file| fs::read(file?.path()))
        .collect::<std::io::Result<_>>()?;
    assert_eq!(found, [b"b"]);
    Ok(())
}

fn a_lock_lasts_until_the_upload() -> Result<(), Failed> {
    let world = Doubled::writing_back(&[("/file", b"content")], ROOM)?;
    world.unmount()?;
    world.mount(LockPolicy::OnEdit, BACK)?;
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
    drop(world.edit("file", b"CON")?);
    wait_for("it has failed", || world.journal().pending.iter().any(|file| file.failure.is_some()));
    assert_eq!(world.double.locks(), 1);
    world.double.clear_faults();
    world.wait_until_uploaded();
    assert_eq!(world.content("file").as_deref(), Some(&b"CONtent"[..]));
    world.wait_until_unlocked();
    Ok(())
}

fn a_lock_ends_though_its_file_has_left_the_cache() -> Result<(), Failed> {
    for is_removed in [false, true] {
        let world = Doubled::writing_back(&[("/file", &noise(100_000))], ROOM)?;
        world.unmount()?;
        world.mount_with_cache(LockPolicy::OnEdit, BACK, 1000)?;
        world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
        drop(world.edit("file", b"first")?);
        assert_eq!(world.double.locks(), 1);
        if is_removed {
            fs::remove_file(world.here.join("file"))?;
        } else {
            drop(world.edit("file", b"again")?);
        }
        world.double.clear_faults();
        world.wait_until_uploaded();
        world.wait_until_unlocked();
        fs::write(world.here.join("file"), "last")?;
        world.wait_until_uploaded();
        world.wait_until_unlocked();
        assert_eq!(world.double.files(""), [("file".to_owned(), b"last".to_vec())].into(), "{}", world.double.log());
    }
    Ok(())
}
