//! Locks on the server while programs edit.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

use dav::LockPolicy;
use libtest_mimic::Failed;
use nix::libc;
use servers::Fault;

use crate::{
    DoubleTest,
    doubled::{Doubled, wait_for},
    world::let_listings_expire,
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("an_edited_file_is_locked_until_its_last_writer_closes", an_edited_file_is_locked_until_its_last_writer_closes),
    ("reading_and_creating_take_no_lock", reading_and_creating_take_no_lock),
    ("always_locks_new_files_and_leaves_no_empty_one", always_locks_new_files_and_leaves_no_empty_one),
    ("a_file_locked_elsewhere_is_busy", a_file_locked_elsewhere_is_busy),
    ("a_lost_lock_overwrites_nothing", a_lost_lock_overwrites_nothing),
    ("a_locked_file_is_renamed_and_deleted", a_locked_file_is_renamed_and_deleted),
    ("a_file_stays_locked_when_it_is_renamed", a_file_stays_locked_when_it_is_renamed),
    ("a_lock_whose_answer_is_lost_is_found_and_released", a_lock_whose_answer_is_lost_is_found_and_released),
    ("a_late_lock_of_our_own_is_used_and_released", a_late_lock_of_our_own_is_used_and_released),
    ("a_change_that_a_late_lock_of_our_own_refuses_succeeds", a_change_that_a_late_lock_of_our_own_refuses_succeeds),
    (
        "a_new_file_whose_lock_is_lost_is_saved_where_nothing_is",
        a_new_file_whose_lock_is_lost_is_saved_where_nothing_is,
    ),
    ("a_late_upload_of_a_new_file_undoes_nothing", a_late_upload_of_a_new_file_undoes_nothing),
    ("no_lock_outlives_the_mount", no_lock_outlives_the_mount),
    ("locks_that_a_mount_has_left_are_released_by_the_next", locks_that_a_mount_has_left_are_released_by_the_next),
    ("a_program_goes_on_with_the_lock_of_an_earlier_mount", a_program_goes_on_with_the_lock_of_an_earlier_mount),
    ("a_file_known_to_be_deleted_is_not_changed_under_a_lock", a_file_known_to_be_deleted_is_not_changed),
    ("a_file_deleted_elsewhere_is_not_created_by_its_lock", a_file_deleted_elsewhere_is_not_created_by_its_lock),
];

fn number(result: std::io::Result<impl Sized>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn an_edited_file_is_locked_until_its_last_writer_closes() -> Result<(), Failed> {
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::OnEdit)?;
    let first = File::options().read(true).write(true).open(world.here.join("file"))?;
    let mut text = String::new();
    (&first).read_to_string(&mut text)?;
    assert_eq!(world.double.locks(), 0, "nothing has changed yet");
    first.write_all_at(b"O", 0)?;
    assert_eq!(world.double.locks(), 1);
    let second = world.edit("file", b"AN")?;
    for byte in b"xyz" {
        second.write_all_at(&[*byte], 2)?;
        second.sync_all()?;
    }
    drop(second);
    assert_eq!(world.double.locks(), 1, "the first has it open");
    first.write_all_at(b"!", 7)?;
    drop(first);
    assert_eq!(world.content("file").as_deref(), Some(&b"ANzgina!"[..]));
    world.wait_until_unlocked();
    assert_eq!((world.count("LOCK"), world.count("UNLOCK")), (1, 1), "{}", world.double.log());
    Ok(())
}

fn reading_and_creating_take_no_lock() -> Result<(), Failed> {
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::OnEdit)?;
    assert_eq!(fs::read(world.here.join("file"))?, b"original");
    fs::write(world.here.join("new"), "new")?;
    assert_eq!(world.count("LOCK"), 0);
    // The same file exists from now on.
    fs::write(world.here.join("new"), "newer")?;
    world.wait_until_unlocked();
    assert_eq!(world.count("LOCK"), 1);
    drop(world);
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::Never)?;
    drop(world.edit("file", b"O")?);
    assert_eq!(world.count("LOCK"), 0);
    Ok(())
}

fn always_locks_new_files_and_leaves_no_empty_one() -> Result<(), Failed> {
    let world = Doubled::new(&[], LockPolicy::Always)?;
    let mut file = File::create(world.here.join("new"))?;
    file.write_all(b"content")?;
    assert_eq!((world.double.locks(), world.content("new")), (1, Some(Vec::new())), "RFC 4918 §7.3");
    drop(file);
    assert_eq!(world.content("new").as_deref(), Some(&b"content"[..]));
    world.wait_until_unlocked();
    // Neither an upload that fails, nor another name, nor a deletion leaves it.
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
    let mut full = File::create(world.here.join("full"))?;
    full.write_all(b"content")?;
    assert_eq!(number(full.sync_all()), Some(libc::ENOSPC));
    drop(full);
    let mut moved = File::create(world.here.join("moved"))?;
    moved.write_all(b"content")?;
    fs::rename(world.here.join("moved"), world.here.join("elsewhere"))?;
    let mut deleted = File::create(world.here.join("deleted"))?;
    deleted.write_all(b"content")?;
    fs::remove_file(world.here.join("deleted"))?;
    drop((moved, deleted));
    world.wait_until_unlocked();
    wait_for("only the first file", || world.double.files("").len() == 1);
    wait_for("two files are kept", || world.unsaved() == [b"content", b"content"]);
    Ok(())
}

fn a_file_locked_elsewhere_is_busy() -> Result<(), Failed> {
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::OnEdit)?;
    world.double.lock("/file");
    assert_eq!(number(world.edit("file", b"O")), Some(libc::EBUSY));
    assert_eq!(number(fs::write(world.here.join("file"), "x")), Some(libc::EBUSY));
    assert_eq!(number(nix::unistd::truncate(&world.here.join("file"), 3).map_err(Into::into)), Some(libc::EBUSY));
    assert_eq!(number(fs::remove_file(world.here.join("file"))), Some(libc::EBUSY));
    assert_eq!(fs::read(world.here.join("file"))?, b"original");
    world.double.unlock("/file");
    drop(world.edit("file", b"O")?);
    assert_eq!(world.content("file").as_deref(), Some(&b"Original"[..]));
    assert!(world.unsaved().is_empty());
    world.wait_until_unlocked();
    Ok(())
}

fn a_lost_lock_overwrites_nothing() -> Result<(), Failed> {
    for taken_over in [false, true] {
        let world = Doubled::new(&[("/file", b"original")], LockPolicy::OnEdit)?;
        let file = world.edit("file", b"mine")?;
        world.double.unlock("/file");
        if taken_over {
            world.double.lock("/file");
        }
        assert_eq!(number(file.sync_all()), Some(libc::ESTALE), "{}", world.double.log());
        drop(file);
        let files = world.double.files("");
        assert_eq!(files["file"], b"original");
        let ours: Vec<_> = files.iter().filter(|(name, _)| name.contains("conflict")).collect();
        assert!(matches!(ours[..], [(_, content)] if content == b"mineinal"), "{files:?}");
        world.unmount()?;
        assert_eq!(world.double.locks(), usize::from(taken_over), "only theirs");
    }
    Ok(())
}

fn a_locked_file_is_renamed_and_deleted() -> Result<(), Failed> {
    let files: [(&str, &[u8]); 3] = [("/a", b"aaaa"), ("/b", b"bbbb"), ("/c", b"cccc")];
    let world = Doubled::new(&files, LockPolicy::OnEdit)?;
    let [a, b, c] = [world.edit("a", b"1")?, world.edit("b", b"2")?, world.edit("c", b"3")?];
    assert_eq!(world.double.locks(), 3);
    fs::rename(world.here.join("a"), world.here.join("b"))?;
    fs::remove_file(world.here.join("c"))?;
    a.write_all_at(b"4", 1)?;
    drop((a, b, c));
    assert_eq!(world.double.files(""), [("b".to_owned(), b"14aa".to_vec())].into(), "{}", world.double.log());
    world.wait_until_unlocked();
    Ok(())
}

fn a_file_stays_locked_when_it_is_renamed() -> Result<(), Failed> {
    let world = Doubled::new(&[("/a", b"aaaa")], LockPolicy::OnEdit)?;
    fs::create_dir(world.here.join("folder"))?;
    let file = world.edit("a", b"1")?;
    for (from, to, path) in [("a", "b", "/b"), ("b", "folder/c", "/folder/c"), ("folder", "other", "/other/c")] {
        fs::rename(world.here.join(from), world.here.join(to))?;
        assert_eq!(world.double.locks(), 1, "{}", world.double.log());
        assert!(world.double.log().lines().last().is_some_and(|locked| locked.contains(&format!("{path:?}"))));
    }
    file.write_all_at(b"2", 1)?;
    drop(file);
    assert_eq!(world.content("other/c").as_deref(), Some(&b"12aa"[..]), "{}", world.double.log());
    world.wait_until_unlocked();
    Ok(())
}

fn a_lock_whose_answer_is_lost_is_found_and_released() -> Result<(), Failed> {
    for (method, fault) in [
        ("LOCK", Fault::ResetAfterProcessing),
        ("LOCK", Fault::Reset),
        ("UNLOCK", Fault::ResetAfterProcessing),
        ("UNLOCK", Fault::Reset),
        ("PUT", Fault::ResetAfterProcessing),
    ] {
        let world = Doubled::new(&[("/file", b"original")], LockPolicy::Always)?;
        let mut faults = 1;
        let fault_once = fault.clone();
        world.double.script(move |asked, _, _| {
            let hit = asked == method && std::mem::take(&mut faults) > 0;
            hit.then(|| fault_once.clone())
        });
        fs::write(world.here.join("new"), "content")?;
        drop(world.edit("file", b"O")?);
        drop(world.edit("file", b"0")?);
        let files = [("file".to_owned(), b"0riginal".to_vec()), ("new".to_owned(), b"content".to_vec())];
        assert_eq!(world.double.files(""), files.into(), "{method} {fault:?} {}", world.double.log());
        world.wait_until_unlocked();
    }
    Ok(())
}

fn no_lock_outlives_the_mount() -> Result<(), Failed> {
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::Always)?;
    let file = world.edit("file", b"O")?;
    let mut new = File::create(world.here.join("new"))?;
    new.write_all(b"content")?;
    assert_eq!(world.double.locks(), 2);
    world.unmount()?;
    assert_eq!(world.double.locks(), 0, "{}", world.double.log());
    let files = [("file".to_owned(), b"Original".to_vec()), ("new".to_owned(), b"content".to_vec())];
    assert_eq!(world.double.files(""), files.into());
    drop((file, new));
    Ok(())
}

/// Locks an edited file and a new one, and ends the mount while the server cannot be reached.
fn cut_off_with_two_locks() -> Result<Doubled, Failed> {
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::Always)?;
    world.mount_again_as(Some(1), LockPolicy::Always)?;
    let file = world.edit("file", b"O")?;
    let new = File::create(world.here.join("new"))?;
    (&new).write_all(b"content")?;
    assert_eq!(world.double.locks(), 2);
    world.cut_off((file, new));
    assert_eq!(world.double.locks(), 2, "{}", world.double.log());
    Ok(world)
}

fn locks_that_a_mount_has_left_are_released_by_the_next() -> Result<(), Failed> {
    let world = cut_off_with_two_locks()?;
    // Somebody else's lock is nobody else's to release.
    world.double.put("/theirs", b"theirs", Duration::ZERO);
    world.double.lock("/theirs");
    world.mount_again_as(Some(2), LockPolicy::Always)?;
    assert_eq!(world.double.locks(), 3, "other credentials do not know of them");
    world.mount_again_as(Some(1), LockPolicy::Always)?;
    wait_for("only their lock", || world.double.locks() == 1);
    let files = [("file".to_owned(), b"original".to_vec()), ("theirs".to_owned(), b"theirs".to_vec())];
    wait_for("the empty file that a lock created is deleted", || world.double.files("") == files.clone().into());
    let unlocks = world.count("UNLOCK");
    world.mount_again_as(Some(1), LockPolicy::Always)?;
    assert_eq!(world.count("UNLOCK"), unlocks, "nothing is left");
    Ok(())
}

fn a_program_goes_on_with_the_lock_of_an_earlier_mount() -> Result<(), Failed> {
    let world = cut_off_with_two_locks()?;
    // What is unlocked is slow to go.
    world.double.script(|method, _, _| (method == "UNLOCK").then_some(Fault::Delay(Duration::from_millis(200))));
    world.mount_again_as(Some(1), LockPolicy::Always)?;
    for name in ["file", "new"] {
        fs::write(world.here.join(name), "after")?;
    }
    world.wait_until_unlocked();
    let after = |name: &str| (name.to_owned(), b"after".to_vec());
    assert_eq!(world.double.files(""), [after("file"), after("new")].into(), "{}", world.double.log());
    Ok(())
}

/// With a lock, the first change fails, and nothing is lost with it. Without, the upload fails, and the content is kept.
fn a_file_known_to_be_deleted_is_not_changed() -> Result<(), Failed> {
    for policy in [LockPolicy::Never, LockPolicy::OnEdit] {
        let world = Doubled::new(&[("/file", b"there")], policy)?;
        let mut file = File::options().append(true).open(world.here.join("file"))?;
        world.double.remove("/file");
        let_listings_expire();
        assert!(!world.here.join("file").exists());
        let (written, synced) = (number(file.write_all(b", and more")), number(file.sync_all()));
        drop(file);
        if policy == LockPolicy::OnEdit {
            assert_eq!((written, synced), (Some(libc::ESTALE), None));
            assert!(world.unsaved().is_empty());
        } else {
            assert!(written.is_none() && synced.is_some());
            wait_for("it is kept", || world.unsaved().iter().any(|kept| kept.ends_with(b", and more")));
        }
        world.wait_until_unlocked();
        assert!(world.double.files("").is_empty());
    }
    Ok(())
}

fn a_file_deleted_elsewhere_is_not_created_by_its_lock() -> Result<(), Failed> {
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::OnEdit)?;
    let file = File::options().write(true).open(world.here.join("file"))?;
    world.double.remove("/file");
    assert_eq!(number(file.write_all_at(b"O", 0)), Some(libc::ESTALE));
    drop(file);
    world.wait_until_unlocked();
    assert!(world.double.files("").is_empty());
    Ok(())
}

/// A server may carry out a LOCK long after its file was unlocked.
fn a_late_lock_of_our_own_is_used_and_released() -> Result<(), Failed> {
    let world = Doubled::new(&[("/file", b"original")], LockPolicy::OnEdit)?;
    let file = world.edit("file", b"O")?;
    let owner = world.double.lock_owner("/file").expect("it is locked");
    drop(file);
    world.wait_until_unlocked();
    world.double.lock_late("/file", &owner);
    drop(world.edit("file", b"o")?);
    world.wait_until_unlocked();
    assert_eq!(world.content("file").as_deref(), Some(&b"original"[..]), "{}", world.double.log());
    Ok(())
}

/// A LOCK without an answer is carried out when its program has given up.
fn a_change_that_a_late_lock_of_our_own_refuses_succeeds() -> Result<(), Failed> {
    for change in ["PUT", "MOVE", "DELETE"] {
        let world = Doubled::new(&[("/file", b"original")], LockPolicy::OnEdit)?;
        let (file, other) = (world.here.join("file"), world.here.join("other"));
        let edited = world.edit("file", b"O")?;
        let owner = world.double.lock_owner("/file").expect("it is locked");
        drop(edited);
        world.wait_until_unlocked();
        world.double.script(|method, _, _| (method == "LOCK").then_some(Fault::Reset));
        assert!(world.edit("file", b"o").is_err(), "control: its LOCK has no answer");
        world.double.clear_faults();
        if change == "PUT" {
            // A new file is not locked first. The late LOCK creates it, too.
            fs::remove_file(&file)?;
            world.double.put("/file", b"", Duration::ZERO);
        }
        world.double.lock_late("/file", &owner);
        let left = match change {
            "PUT" => fs::write(&file, "newer").map(|()| vec![("file", "newer")])?,
            "MOVE" => fs::rename(&file, &other).map(|()| vec![("other", "Original")])?,
            _ => fs::remove_file(&file).map(|()| vec![])?,
        };
        assert_eq!(world.double.locks(), 0, "{change}: {}", world.double.log());
        let expected = left.into_iter().map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec()));
        assert_eq!(world.double.files(""), expected.collect(), "{change}: {}", world.double.log());
    }
    Ok(())
}

/// Apache reserves the name of a new file by its lock, and may lose both.
fn a_new_file_whose_lock_is_lost_is_saved_where_nothing_is() -> Result<(), Failed> {
    let world = Doubled::new(&[], LockPolicy::Always)?;
    let mut file = File::create(world.here.join("file"))?;
    file.write_all(b"content")?;
    assert_eq!(world.double.locks(), 1, "control: it is locked");
    world.double.remove("/file");
    world.double.unlock("/file");
    drop(file);
    let expected = [("file".to_owned(), b"content".to_vec())];
    assert_eq!(world.double.files(""), expected.into(), "{}", world.double.log());
    world.wait_until_unlocked();
    Ok(())
}

/// The first copy is carried out when its program has saved the file again.
fn a_late_upload_of_a_new_file_undoes_nothing() -> Result<(), Failed> {
    const LATE: Duration = Duration::from_secs(6);
    let world = Doubled::new(&[], LockPolicy::Always)?;
    world.double.script({
        let mut is_first = true;
        move |method, _, _| (method == "PUT" && std::mem::take(&mut is_first)).then_some(Fault::Delay(LATE))
    });
    let begin = Instant::now();
    let mut file = File::create(world.here.join("file"))?;
    file.write_all(b"older")?;
    assert_eq!(number(file.sync_all()), Some(libc::ETIMEDOUT), "control: its answer is missing");
    file.write_all_at(b"newer", 0)?;
    file.sync_all()?;
    std::thread::sleep(LATE.saturating_sub(begin.elapsed()) + Duration::from_secs(1));
    assert_eq!(world.content("file").as_deref(), Some(&b"newer"[..]), "{}", world.double.log());
    drop(file);
    world.wait_until_unlocked();
    assert_eq!(world.double.files("").len(), 1, "nothing beside: {}", world.double.log());
    Ok(())
}
