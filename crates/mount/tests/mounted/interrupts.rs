//! Programs that are to stop while they wait for a server that does not answer.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use dav::LockPolicy;
use libtest_mimic::Failed;
use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal, kill},
    unistd::Pid,
};
use servers::Fault;

use crate::{
    DoubleTest,
    doubled::{Doubled, wait_for},
    world::{let_listings_expire, noise},
};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("a_program_that_waits_can_be_stopped", a_program_that_waits_can_be_stopped),
    ("a_rename_after_the_program_has_gone_loses_nothing", a_rename_after_the_program_has_gone_loses_nothing),
    (
        "an_answer_after_the_program_has_gone_leaves_nothing_open",
        an_answer_after_the_program_has_gone_leaves_nothing_open,
    ),
    ("a_program_that_catches_other_signals_is_not_disturbed", a_program_that_catches_other_signals_is_not_disturbed),
];

/// Longer than any test waits.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How soon a program has to end, on a busy machine.
const SOON: Duration = Duration::from_secs(6);

/// Starts a command in the mount, and waits until it waits for the server.
fn start(world: &Doubled, command: &str) -> Result<Running, Failed> {
    let before = world.double.log().lines().count();
    // A test in the background of a shell ignores SIGINT, and programs would inherit that too.
    let shell = ["-c", &format!("exec env --default-signal=INT {command}")];
    // The sandbox blocks what ends it, and programs inherit that.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
    let child = Command::new("sh").args(shell).current_dir(&world.here).stdout(Stdio::null()).spawn();
    mask.thread_set_mask()?;
    let child = Running(child?);
    wait_for("a request", || world.double.log().lines().count() > before);
    sleep(Duration::from_millis(300));
    Ok(child)
}

/// A program, which ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn stop(Running(child): &mut Running, signal: Signal) -> Result<(), Failed> {
    let begin = Instant::now();
    kill(Pid::from_raw(child.id() as i32), signal)?;
    while child.try_wait()?.is_none() {
        if begin.elapsed() > SOON {
            return Err(format!("it still runs {SOON:?} after {signal}").into());
        }
        sleep(Duration::from_millis(10));
    }
    println!("{signal} ended it after {:?}", begin.elapsed());
    let status = child.wait()?;
    if status.signal() != Some(signal as i32) {
        return Err(format!("{signal}: {status}").into());
    }
    Ok(())
}

fn a_program_that_waits_can_be_stopped() -> Result<(), Failed> {
    let large = noise(9_000_000);
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let files: &[(&str, &[u8])] = &[("/file", b"content"), ("/large", &large)];
        let world = Doubled::with_timeout(files, LockPolicy::OnEdit, TIMEOUT)?;
        assert!(world.here.join("large").exists());
        world.double.script(|_, _, _| Some(Fault::Silence));
        for command in ["cat large", "cp file copy", "mkdir folder", "mv file other", "truncate -s 1 file"] {
            stop(&mut start(&world, command)?, signal)?;
        }
        let_listings_expire();
        stop(&mut start(&world, "ls -l")?, signal)?;
        world.double.clear_faults();
        // Nothing is blocked or half done.
        wait_for("the file", || fs::read(world.here.join("file")).is_ok_and(|content| content == b"content"));
        wait_for("the large file", || fs::read(world.here.join("large")).is_ok_and(|content| content == *large));
    }
    Ok(())
}

/// The handle of an open(2) that was answered before the server was, and its lock, are given back.
fn an_answer_after_the_program_has_gone_leaves_nothing_open() -> Result<(), Failed> {
    let world = Doubled::with_timeout(&[("/file", b"content")], LockPolicy::OnEdit, TIMEOUT)?;
    let late = Duration::from_secs(2);
    world.double.script(move |method, _, _| ["LOCK", "MKCOL"].contains(&method).then_some(Fault::Delay(late)));
    stop(&mut start(&world, "sh -c ': > file'")?, Signal::SIGINT)?;
    stop(&mut start(&world, "mkdir folder")?, Signal::SIGINT)?;
    wait_for("the server has processed both", || world.count("UNLOCK") == 1 && world.double.folders("/").len() == 1);
    world.double.clear_faults();
    world.wait_until_unlocked();
    assert_eq!(world.content("file").as_deref(), Some(&b"content"[..]));
    // Only the last writer releases the lock.
    drop(world.edit("file", b"C")?);
    world.wait_until_unlocked();
    wait_for("the folder is known", || world.here.join("folder").is_dir());
    fs::remove_dir(world.here.join("folder"))?;
    world.unmount()?;
    Ok(())
}

/// For the kernel, both names are what they were. What programs save under them must not vanish.
fn a_rename_after_the_program_has_gone_loses_nothing() -> Result<(), Failed> {
    for write in [mount::Write::Through, mount::Write::Back { journal_size: 1 << 20 }] {
        let world = Doubled::with_timeout(&[("/new", b"new"), ("/file", b"old")], LockPolicy::Never, TIMEOUT)?;
        world.unmount()?;
        world.mount(LockPolicy::Never, write)?;
        assert_eq!(fs::read_dir(&world.here)?.count(), 2);
        let late = Duration::from_secs(2);
        world.double.script(move |method, _, _| (method == "MOVE").then_some(Fault::Delay(late)));
        let mut open = File::options().write(true).open(world.here.join("file"))?;
        stop(&mut start(&world, "mv new file")?, Signal::SIGINT)?;
        wait_for("it is renamed", || world.content("file").as_deref() == Some(b"new"));
        // Time for the tree.
        sleep(Duration::from_millis(300));
        open.write_all(b"saved since")?;
        open.sync_all()?;
        drop(open);
        fs::write(world.here.join("file"), b"and again")?;
        File::open(world.here.join("file"))?.sync_all()?;
        assert_eq!(world.content("file").as_deref(), Some(&b"and again"[..]), "{}", world.double.log());
        assert_eq!(world.content("new").as_deref(), Some(&b"new"[..]), "{}", world.double.log());
    }
    Ok(())
}

/// A timer, as that of a progress bar, must not let calls fail.
fn a_program_that_catches_other_signals_is_not_disturbed() -> Result<(), Failed> {
    let world = Doubled::with_timeout(&[("/file", b"content")], LockPolicy::OnEdit, TIMEOUT)?;
    assert!(world.here.join("file").exists());
    world.double.script(|method, _, _| (method == "GET").then_some(Fault::Silence));
    let mut running = start(&world, "perl -e '$SIG{ALRM} = sub {}; alarm 1; open F, \"file\"; exit(<F> ? 0 : $!)'")?;
    sleep(Duration::from_secs(2));
    let early = running.0.try_wait()?;
    assert!(early.is_none(), "{early:?}");
    stop(&mut running, Signal::SIGKILL)
}
