//! Servers that die, refuse, or fall silent.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use dav::LockPolicy;
use libtest_mimic::Failed;
use nix::libc;
use servers::Fault;

use crate::{
    DoubleTest,
    doubled::{Doubled, PATIENCE, TIMEOUT, wait_for},
    world::{let_listings_expire, noise},
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("calls_end_while_the_server_is_dead_and_work_when_it_is_back", calls_end_while_the_server_is_dead),
    ("calls_end_while_the_server_is_silent", calls_end_while_the_server_is_silent),
    ("an_upload_is_refused_for_a_reason", an_upload_is_refused_for_a_reason),
    ("what_cannot_be_kept_is_there_for_the_next_mount", what_cannot_be_kept_is_there_for_the_next_mount),
    ("what_is_open_at_the_end_is_uploaded_or_kept", what_is_open_at_the_end_is_uploaded_or_kept),
    ("a_rename_that_arrives_late_replaces_nothing_newer", a_rename_that_arrives_late_replaces_nothing_newer),
    ("a_rename_of_a_locked_file_replaces_nothing_newer", a_rename_of_a_locked_file_replaces_nothing_newer),
    ("a_repeated_rename_moves_nothing_but_its_file", a_repeated_rename_moves_nothing_but_its_file),
    ("a_deletion_that_arrives_late_deletes_nothing_newer", a_deletion_that_arrives_late_deletes_nothing_newer),
    ("a_late_rename_is_no_conflict_with_a_save", a_late_rename_is_no_conflict),
    ("a_late_deletion_is_no_conflict_with_a_save", a_late_deletion_is_no_conflict),
    ("an_upload_that_arrives_late_brings_nothing_back", a_late_upload_brings_nothing_back),
    ("a_removal_of_a_folder_that_arrives_late_removes_nothing_newer", a_late_removal_of_a_folder_removes_nothing_newer),
    ("a_folder_whose_rename_arrives_late_replaces_nothing_newer", a_late_rename_of_a_folder_replaces_nothing_newer),
];

/// Runs a call, which must fail in time for one of the reasons that say that the server is away.
fn must_fail(what: &str, call: impl FnOnce() -> std::io::Result<()>) {
    let begin = Instant::now();
    let error = call().expect_err(what);
    println!("{what}: {error} after {:?}", begin.elapsed());
    // Twice, and what a busy machine adds.
    assert!(begin.elapsed() < TIMEOUT * 5 / 2 + Duration::from_secs(2), "{what} took {:?}", begin.elapsed());
    let away = [libc::EHOSTUNREACH, libc::ETIMEDOUT, libc::EIO];
    assert!(error.raw_os_error().is_some_and(|number| away.contains(&number)), "{what}: {error}");
}

fn all_calls_fail(world: &Doubled) -> Result<(), Failed> {
    let here = &world.here;
    let mut open = File::open(here.join("large"))?;
    let mut written = File::create(here.join("written"))?;
    written.write_all(b"precious")?;
    let_listings_expire();
    must_fail("list", || fs::read_dir(here).map(drop));
    must_fail("stat", || fs::metadata(here.join("file")).map(drop));
    must_fail("read", || open.read_to_end(&mut Vec::new()).map(drop));
    must_fail("fsync", || written.sync_all());
    must_fail("mkdir", || fs::create_dir(here.join("folder")));
    Ok(())
}

fn calls_end_while_the_server_is_dead() -> Result<(), Failed> {
    let large = noise(9_000_000);
    let world = Doubled::new(&[("/file", b"content"), ("/large", &large)], LockPolicy::OnEdit)?;
    assert!(world.here.join("large").exists());
    world.kill();
    all_calls_fail(&world)?;
    wait_for("what was written is kept", || world.unsaved() == [b"precious"]);
    world.restart();
    assert_eq!(fs::read(world.here.join("file"))?, b"content");
    assert!(fs::read(world.here.join("large"))? == *large);
    fs::write(world.here.join("written"), "again")?;
    assert_eq!(world.content("written").as_deref(), Some(&b"again"[..]));
    Ok(())
}

fn calls_end_while_the_server_is_silent() -> Result<(), Failed> {
    let large = noise(9_000_000);
    let world = Doubled::new(&[("/file", b"content"), ("/large", &large)], LockPolicy::OnEdit)?;
    assert!(world.here.join("large").exists());
    world.double.script(|_, _, _| Some(Fault::Silence));
    all_calls_fail(&world)?;
    wait_for("what was written is kept", || world.unsaved() == [b"precious"]);
    world.double.clear_faults();
    assert_eq!(fs::read(world.here.join("file"))?, b"content");
    assert!(fs::read(world.here.join("large"))? == *large);
    Ok(())
}

fn an_upload_is_refused_for_a_reason() -> Result<(), Failed> {
    for (status, number) in [(507, libc::ENOSPC), (423, libc::EBUSY), (401, libc::EACCES), (403, libc::EACCES)] {
        let world = Doubled::new(&[("/file", b"content")], LockPolicy::OnEdit)?;
        let mut file = File::create(world.here.join("new"))?;
        file.write_all(b"precious")?;
        world.double.script(move |method, _, _| (method == "PUT").then_some(Fault::Respond(status, "")));
        let error = file.sync_all().expect_err("it is refused");
        assert_eq!(error.raw_os_error(), Some(number), "{status}: {error}");
        // The program may free some space, and try again.
        world.double.clear_faults();
        file.sync_all()?;
        assert_eq!(world.content("new").as_deref(), Some(&b"precious"[..]));
        world.double.script(move |method, _, _| (method == "PUT").then_some(Fault::Respond(status, "")));
        file.write_all(b", and more")?;
        drop(file);
        wait_for("what was written is kept", || world.unsaved() == [b"precious, and more"]);
        world.double.clear_faults();
        assert_eq!(fs::read(world.here.join("new"))?, b"precious");
        world.wait_until_unlocked();
    }
    Ok(())
}

fn what_cannot_be_kept_is_there_for_the_next_mount() -> Result<(), Failed> {
    // In a folder that goes with the mount, and in one that outlives it.
    for identity in [None, Some(1)] {
        let world = Doubled::with_identity(&[], identity)?;
        fs::write(world.cache.join("unsaved"), "in the way")?;
        world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
        fs::write(world.here.join("closed"), "precious")?;
        let mut open = File::create(world.here.join("open"))?;
        open.write_all(b"dear")?;
        world.unmount()?;
        drop(open);
        fs::remove_file(world.cache.join("unsaved"))?;
        let is_kept = || {
            let mut kept = world.unsaved();
            kept.sort();
            kept == [&b"dear"[..], b"precious"]
        };
        // The first mount has its folder until the kernel has done with it.
        wait_for("the next mount keeps both", || world.mount_again(identity).is_ok() && is_kept());
    }
    Ok(())
}

fn what_is_open_at_the_end_is_uploaded_or_kept() -> Result<(), Failed> {
    for is_dead in [false, true] {
        let world = Doubled::new(&[("/file", b"content")], LockPolicy::OnEdit)?;
        let mut file = File::create(world.here.join("new"))?;
        file.write_all(b"precious")?;
        if is_dead {
            world.kill();
        }
        let begin = Instant::now();
        world.unmount()?;
        assert!(begin.elapsed() < PATIENCE + Duration::from_secs(20), "{:?}", begin.elapsed());
        let (stored, kept) = (world.content("new"), world.unsaved());
        if is_dead {
            assert_eq!((stored, &kept[..]), (None, &[b"precious".to_vec()][..]));
        } else {
            assert_eq!((stored.as_deref(), kept.len()), (Some(&b"precious"[..]), 0));
        }
    }
    Ok(())
}

/// The server carries out requests with this method long after they have failed here.
fn delay(world: &Doubled, slow: &'static str) {
    world.double.script(move |method, _, _| (method == slow).then_some(Fault::Delay(TIMEOUT * 3)));
}

fn a_rename_that_arrives_late_replaces_nothing_newer() -> Result<(), Failed> {
    for old in [&[("/new", &b"new"[..])][..], &[("/new", b"new"), ("/file", b"old")]] {
        let world = Doubled::new(old, LockPolicy::OnEdit)?;
        delay(&world, "MOVE");
        must_fail("rename", || fs::rename(world.here.join("new"), world.here.join("file")));
        fs::write(world.here.join("file"), b"saved since")?;
        std::thread::sleep(TIMEOUT * 3);
        let left = [("file".to_owned(), b"saved since".to_vec()), ("new".to_owned(), b"new".to_vec())];
        assert_eq!(world.double.files(""), left.into(), "{}", world.double.log());
        world.double.clear_faults();
        fs::rename(world.here.join("new"), world.here.join("file"))?;
        assert_eq!(world.double.files(""), [("file".to_owned(), b"new".to_vec())].into());
    }
    Ok(())
}

fn a_rename_of_a_locked_file_replaces_nothing_newer() -> Result<(), Failed> {
    let world = Doubled::new(&[("/new", b"new"), ("/file", b"old")], LockPolicy::OnEdit)?;
    let open = world.edit("new", b"N")?;
    open.sync_all()?;
    fs::metadata(world.here.join("file"))?;
    delay(&world, "MOVE");
    must_fail("rename", || fs::rename(world.here.join("new"), world.here.join("file")));
    assert_eq!(world.double.locks(), 1, "it is still edited");
    fs::write(world.here.join("file"), b"saved since")?;
    std::thread::sleep(TIMEOUT * 3);
    let left = [("file".to_owned(), b"saved since".to_vec()), ("new".to_owned(), b"New".to_vec())];
    assert_eq!(world.double.files(""), left.into(), "{}", world.double.log());
    Ok(())
}

/// The first MOVE is done, and its answer is lost. Then an upload of before arrives late.
fn a_repeated_rename_moves_nothing_but_its_file() -> Result<(), Failed> {
    for old in [&[("/new", &b"new"[..])][..], &[("/new", b"new"), ("/file", b"old")]] {
        let world = Doubled::with_timeout(old, LockPolicy::OnEdit, PATIENCE)?;
        fs::metadata(world.here.join("new"))?;
        let mut moves = 0;
        world.double.script(move |method, _, _| {
            moves += u32::from(method == "MOVE");
            match moves {
                1 if method == "MOVE" => Some(Fault::ResetAfterProcessing),
                2 if method == "MOVE" => Some(Fault::Delay(Duration::from_secs(2))),
                _ => None,
            }
        });
        std::thread::scope(|scope| {
            let renamed = scope.spawn(|| fs::rename(world.here.join("new"), world.here.join("file")));
            wait_for("it is repeated", || world.count("MOVE") > 1);
            world.double.put("/new", b"late", Duration::ZERO);
            renamed.join().expect("it does not panic")
        })?;
        let left = [("file".to_owned(), b"new".to_vec()), ("new".to_owned(), b"late".to_vec())];
        assert_eq!(world.double.files(""), left.into(), "{}", world.double.log());
    }
    Ok(())
}

fn a_deletion_that_arrives_late_deletes_nothing_newer() -> Result<(), Failed> {
    let world = Doubled::new(&[("/file", b"old")], LockPolicy::OnEdit)?;
    delay(&world, "DELETE");
    must_fail("delete", || fs::remove_file(world.here.join("file")));
    fs::write(world.here.join("file"), b"saved since")?;
    std::thread::sleep(TIMEOUT * 3);
    assert_eq!(world.double.files(""), [("file".to_owned(), b"saved since".to_vec())].into(), "{}", world.double.log());
    world.double.clear_faults();
    // Somebody else's version is deleted too, as by every rm(1).
    world.double.put("/file", b"theirs", Duration::ZERO);
    fs::remove_file(world.here.join("file"))?;
    assert!(world.double.files("").is_empty(), "{}", world.double.log());
    Ok(())
}

/// When a program saves its file under the old name again.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    Never,
    BeforeItMoves,
    AfterItHasMoved,
}

fn a_late_rename_is_no_conflict() -> Result<(), Failed> {
    for write in [mount::Write::Through, mount::Write::Back { journal_size: 1 << 20 }] {
        for again in [Again::Never, Again::BeforeItMoves, Again::AfterItHasMoved] {
            let world = Doubled::new(&[("/new", b"new"), ("/file", b"old")], LockPolicy::Never)?;
            world.unmount()?;
            world.mount(LockPolicy::Never, write)?;
            let (new, path) = (world.here.join("new"), world.here.join("file"));
            let save_new = |content: &[u8]| fs::write(&new, content).and_then(|()| File::open(&new)?.sync_all());
            fs::metadata(&new)?;
            delay(&world, "MOVE");
            must_fail("rename", || fs::rename(&new, &path));
            let mut moved = &b"new"[..];
            if again == Again::BeforeItMoves {
                moved = b"newer";
                save_new(moved)?;
            }
            let mut file = File::create(&path)?;
            file.write_all(b"saved since")?;
            if again == Again::BeforeItMoves {
                // It was for another version.
                std::thread::sleep(TIMEOUT * 3);
                assert_eq!(world.content("file").as_deref(), Some(&b"old"[..]), "{}", world.double.log());
            } else {
                wait_for("it is carried out", || world.content("file").as_deref() == Some(moved));
            }
            if again == Again::AfterItHasMoved {
                moved = b"newest";
                save_new(moved)?;
            }
            file.sync_all()?;
            // As if it had never been renamed, as its program was told.
            let expected = [("file".to_owned(), b"saved since".to_vec()), ("new".to_owned(), moved.to_vec())];
            assert_eq!(world.double.files(""), expected.into(), "{}", world.double.log());
            save_new(b"last")?;
            assert_eq!(world.content("new").as_deref(), Some(&b"last"[..]));
        }
    }
    Ok(())
}

fn a_late_deletion_is_no_conflict() -> Result<(), Failed> {
    for write in [mount::Write::Through, mount::Write::Back { journal_size: 1 << 20 }] {
        let world = Doubled::new(&[("/file", b"old")], LockPolicy::Never)?;
        world.unmount()?;
        world.mount(LockPolicy::Never, write)?;
        let path = world.here.join("file");
        delay(&world, "DELETE");
        must_fail("delete", || fs::remove_file(&path));
        let mut file = File::create(&path)?;
        file.write_all(b"saved since")?;
        wait_for("it is carried out", || world.content("file").is_none());
        file.sync_all()?;
        let expected = [("file".to_owned(), b"saved since".to_vec())];
        assert_eq!(world.double.files(""), expected.into(), "{}", world.double.log());
    }
    Ok(())
}

/// The first copy of an upload is carried out when its file has been deleted, or has another name.
fn a_late_upload_brings_nothing_back() -> Result<(), Failed> {
    for write in [mount::Write::Through, mount::Write::Back { journal_size: 1 << 20 }] {
        for (is_renamed, is_saved_again) in [(false, false), (false, true), (true, false)] {
            let world = Doubled::new(&[], LockPolicy::OnEdit)?;
            world.unmount()?;
            world.mount(LockPolicy::OnEdit, write)?;
            let path = world.here.join("file");
            world.double.script({
                let mut is_first = true;
                move |method, _, _| (method == "PUT" && std::mem::take(&mut is_first)).then_some(Fault::Silence)
            });
            let mut file = File::create(&path)?;
            file.write_all(b"older")?;
            let is_stored = (0..5).any(|_| file.sync_all().is_ok());
            assert!(is_stored && world.count("PUT") > 1, "control: {}", world.double.log());
            drop(file);
            if is_renamed {
                fs::rename(&path, world.here.join("other"))?;
            } else {
                fs::remove_file(&path)?;
            }
            let again = is_saved_again.then(|| File::create(&path)).transpose()?;
            let late = b"PUT /file HTTP/1.1\r\nhost: x\r\nif-none-match: *\r\ncontent-length: 5\r\n\r\nolder";
            let mut server = TcpStream::connect(world.double.address)?;
            server.write_all(late)?;
            let mut status = [0; 12];
            server.read_exact(&mut status)?;
            assert_eq!(&status, b"HTTP/1.1 201", "control: it is there again");
            if let Some(mut again) = again {
                again.write_all(b"newer")?;
                again.sync_all()?;
            }
            let expected = match (is_renamed, is_saved_again) {
                (true, _) => [("other".to_owned(), b"older".to_vec())].into(),
                (false, true) => [("file".to_owned(), b"newer".to_vec())].into(),
                (false, false) => BTreeMap::new(),
            };
            wait_for(&format!("{write:?}: {expected:?}"), || world.double.files("") == expected);
        }
    }
    Ok(())
}

fn a_late_removal_of_a_folder_removes_nothing_newer() -> Result<(), Failed> {
    let world = Doubled::new(&[], LockPolicy::OnEdit)?;
    world.double.tag_folders();
    fs::create_dir(world.here.join("folder"))?;
    delay(&world, "DELETE");
    must_fail("rmdir", || fs::remove_dir(world.here.join("folder")));
    fs::write(world.here.join("folder/file"), "saved since")?;
    std::thread::sleep(TIMEOUT * 3);
    let left = [("folder/file".to_owned(), b"saved since".to_vec())];
    assert_eq!(world.double.files(""), left.into(), "{}", world.double.log());
    world.double.clear_faults();
    let refused = fs::remove_dir(world.here.join("folder"));
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::DirectoryNotEmpty));
    fs::remove_file(world.here.join("folder/file"))?;
    fs::remove_dir(world.here.join("folder"))?;
    let_listings_expire();
    assert!(fs::read_dir(&world.here)?.next().is_none(), "{}", world.double.log());
    Ok(())
}

fn a_late_rename_of_a_folder_replaces_nothing_newer() -> Result<(), Failed> {
    let world = Doubled::new(&[("/new/file", b"new")], LockPolicy::OnEdit)?;
    world.double.tag_folders();
    fs::create_dir(world.here.join("old"))?;
    delay(&world, "MOVE");
    must_fail("rename", || fs::rename(world.here.join("new"), world.here.join("old")));
    fs::write(world.here.join("old/file"), "saved since")?;
    std::thread::sleep(TIMEOUT * 3);
    let left = [("new/file".to_owned(), b"new".to_vec()), ("old/file".to_owned(), b"saved since".to_vec())];
    assert_eq!(world.double.files(""), left.into(), "{}", world.double.log());
    world.double.clear_faults();
    fs::remove_file(world.here.join("old/file"))?;
    fs::rename(world.here.join("new"), world.here.join("old"))?;
    assert_eq!(world.double.files(""), [("old/file".to_owned(), b"new".to_vec())].into());
    Ok(())
}
