//! Changes during an upload.

use std::{
    fs::{self, File},
    io::Write,
    thread,
    time::Duration,
};

use dav::LockPolicy;
use libtest_mimic::Failed;
use servers::Fault;

use crate::{
    DoubleTest,
    doubled::{Doubled, wait_for},
    world::{let_listings_expire, noise},
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("an_upload_of_a_replaced_file_does_not_outlive_it", an_upload_of_a_replaced_file_does_not_outlive_it),
    ("a_file_is_cut_during_its_upload", a_file_is_cut_during_its_upload),
    ("another_version_of_equal_length_is_not_taken_for_ours", another_version_of_equal_length_is_not_taken_for_ours),
];

/// Longer than a server takes its time here.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long the server takes for an upload.
const SLOW: Duration = Duration::from_secs(1);

/// Runs `change` while `file` is being uploaded by a close(2), during which the kernel locks nothing. Returns what that says.
fn during_the_upload(
    world: &Doubled,
    file: &File,
    change: impl FnOnce() -> Result<(), Failed>,
) -> Result<nix::Result<()>, Failed> {
    let second = file.try_clone()?;
    let before = world.count("PUT");
    world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Delay(SLOW)));
    let closed = thread::scope(|scope| {
        let closed = scope.spawn(|| nix::unistd::close(second));
        wait_for("the upload has begun", || world.count("PUT") > before);
        change()?;
        Ok::<_, Failed>(closed.join().expect("it does not panic"))
    })?;
    world.double.clear_faults();
    Ok(closed)
}

/// Its upload would come after the renaming: it would take the place of the renamed file, where the server knows no
/// conditions, and elsewhere be a conflict with ourselves.
fn an_upload_of_a_replaced_file_does_not_outlive_it() -> Result<(), Failed> {
    for created in [false, true] {
        let world = Doubled::with_timeout(&[("/new", b"renamed"), ("/old", b"original")], LockPolicy::Never, TIMEOUT)?;
        let old = if created {
            let mut file = File::create(world.here.join("target"))?;
            file.write_all(b"of before")?;
            file
        } else {
            fs::rename(world.here.join("old"), world.here.join("target"))?;
            world.edit("target", b"O")?
        };
        let closed =
            during_the_upload(&world, &old, || Ok(fs::rename(world.here.join("new"), world.here.join("target"))?))?;
        closed?;
        drop(old);
        world.unmount()?;
        let files: Vec<_> = world.double.files("").into_iter().filter(|(name, _)| name != "old").collect();
        assert_eq!(files, [("target".to_owned(), b"renamed".to_vec())], "{}", world.double.log());
    }
    Ok(())
}

fn a_file_is_cut_during_its_upload() -> Result<(), Failed> {
    // More than the buffers of a connection hold.
    let content = noise(40_000_000);
    let world = Doubled::with_timeout(&[], LockPolicy::Never, TIMEOUT)?;
    let mut file = File::create(world.here.join("file"))?;
    file.write_all(&content)?;
    during_the_upload(&world, &file, || Ok(file.set_len(1000)?))??;
    drop(file);
    assert!(world.content("file").as_deref() == Some(&content[..1000]), "{}", world.double.log());
    Ok(())
}

/// It comes between our PUT and the lookup behind it.
fn another_version_of_equal_length_is_not_taken_for_ours() -> Result<(), Failed> {
    let world = Doubled::with_timeout(&[("/file", b"first")], LockPolicy::Never, TIMEOUT)?;
    let here = world.here.join("file");
    world.double.script(|method, path, _| (method == "PROPFIND" && path == "/file").then_some(Fault::Delay(SLOW)));
    thread::scope(|scope| {
        let saved = scope.spawn(|| fs::write(&here, "ours!"));
        wait_for("the upload has arrived", || world.content("file").as_deref() == Some(b"ours!"));
        world.double.put("/file", b"their", Duration::ZERO);
        saved.join().expect("it does not panic")
    })?;
    world.double.clear_faults();
    let_listings_expire();
    assert_eq!(fs::read(&here)?, b"their", "{}", world.double.log());
    File::options().append(true).open(&here)?.write_all(b"s")?;
    assert_eq!(world.content("file").as_deref(), Some(&b"theirs"[..]), "{}", world.double.log());
    Ok(())
}
