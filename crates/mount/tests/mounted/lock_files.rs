//! Lock files of programs, such as git's `index.lock`.

use std::{fs::File, io::Write, os::fd::IntoRawFd};

use dav::LockPolicy;
use libtest_mimic::Failed;
use nix::errno::Errno;
use servers::Fault;

use crate::{
    DoubleTest,
    doubled::{Doubled, wait_for},
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    (
        "an_empty_lock_file_exists_on_the_server_while_it_is_held",
        an_empty_lock_file_exists_on_the_server_while_it_is_held,
    ),
    ("close_says_if_a_lock_file_could_not_be_created", close_says_if_a_lock_file_could_not_be_created),
    ("a_lock_file_that_somebody_else_has_is_no_success", a_lock_file_that_somebody_else_has_is_no_success),
    (
        "of_two_programs_that_create_a_file_exclusively_one_fails",
        of_two_programs_that_create_a_file_exclusively_one_fails,
    ),
];

const NAME: &str = "index.lock";

fn create(world: &Doubled) -> std::io::Result<File> {
    File::create_new(world.here.join(NAME))
}

fn an_empty_lock_file_exists_on_the_server_while_it_is_held() -> Result<(), Failed> {
    for written in [&b"content"[..], b""] {
        let world = Doubled::new(&[], LockPolicy::Never)?;
        let mut held = create(&world)?;
        wait_for("it is on the server", || world.content(NAME).as_deref() == Some(b""));
        held.write_all(written)?;
        nix::unistd::close(held.into_raw_fd())?;
        assert_eq!(world.content(NAME).as_deref(), Some(written));
        assert_eq!(world.count("PUT"), if written.is_empty() { 1 } else { 2 });
        std::fs::remove_file(world.here.join(NAME))?;
        assert_eq!(world.content(NAME), None);
        // Another name is the server's business when it is closed.
        let other = File::create_new(world.here.join("other"))?;
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(world.content("other"), None);
        drop(other);
    }
    Ok(())
}

fn close_says_if_a_lock_file_could_not_be_created() -> Result<(), Failed> {
    for is_repaired in [true, false] {
        let world = Doubled::new(&[], LockPolicy::Never)?;
        world.double.script(|method, _, _| (method == "PUT").then_some(Fault::Respond(507, "")));
        let held = create(&world)?;
        wait_for("the server has refused it", || world.count("PUT") > 0);
        if is_repaired {
            world.double.clear_faults();
        }
        let closed = nix::unistd::close(held.into_raw_fd());
        assert_eq!(closed, if is_repaired { Ok(()) } else { Err(Errno::ENOSPC) });
        assert_eq!(world.content(NAME).is_some(), is_repaired);
    }
    Ok(())
}

fn a_lock_file_that_somebody_else_has_is_no_success() -> Result<(), Failed> {
    // Ours is empty, too.
    for theirs in [&b"theirs"[..], b""] {
        let world = Doubled::new(&[], LockPolicy::Never)?;
        // The folder is listed; then somebody else takes the lock.
        assert!(!world.here.join(NAME).exists());
        world.double.put(&format!("/{NAME}"), theirs, std::time::Duration::ZERO);
        let held = create(&world)?;
        wait_for("it was tried", || world.count("PUT") > 0);
        assert_eq!(nix::unistd::close(held.into_raw_fd()), Err(Errno::ESTALE));
        assert_eq!(world.content(NAME).as_deref(), Some(theirs));
    }
    Ok(())
}

fn of_two_programs_that_create_a_file_exclusively_one_fails() -> Result<(), Failed> {
    let world = Doubled::new(&[], LockPolicy::Never)?;
    assert!(!world.here.join("taken").exists());
    let mut ours = File::create_new(world.here.join("taken"))?;
    ours.write_all(b"locked")?;
    world.double.put("/taken", b"locked", std::time::Duration::ZERO);
    assert_eq!(nix::unistd::close(ours.into_raw_fd()), Err(Errno::ESTALE), "{}", world.double.log());
    Ok(())
}
