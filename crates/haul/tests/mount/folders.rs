//! The folder of a mount: made, listed, and unmounted by other programs.

use std::{
    fs::{self, File},
    io,
    process::{Child, Command, Stdio},
};

use libtest_mimic::Failed;

use crate::{
    common::{HAUL, eventually, text},
    world::{self, World, output},
};

/// What an attempt to mount that fails says.
fn refused(world: &World) -> String {
    let tried = output(world.mount_command());
    assert!(!tried.status.success());
    text(&tried.stderr)
}

pub(crate) fn missing_folder_is_created() -> Result<(), Failed> {
    let mut world = World::new("back")?;
    let here = world.path("here");
    fs::remove_dir(&here)?;
    // Nothing listens yet.
    refused(&world);
    assert!(!here.exists(), "a mount that fails leaves no folder behind");
    world.start_server()?;
    world.start_mount()?;
    let status = world.status();
    // Other tests mount at the same time.
    let line = format!("http://{}/ is mounted on {}\n", world.target, here.display());
    assert!(status.contains(&line) && status.contains("everything is on the servers\n"), "{status}");
    fs::write(here.join("a"), vec![1; 100_000])?;
    assert!(world.status().contains(" of cached contents"), "{}", world.status());
    assert!(world.unmount().status.success());
    assert!(here.is_dir(), "the next mount needs it");
    let again = text(&world.unmount().stderr);
    assert!(again.contains("nothing is mounted there") && !world.status().contains(&line), "{again}");
    let known = Command::new(HAUL).args(["umount", "--help"]).output()?;
    assert!(known.status.success(), "{}", text(&known.stderr));

    fs::remove_dir_all(&here)?;
    fs::write(&here, "a file")?;
    assert!(refused(&world).contains("not a folder"));
    fs::remove_file(&here)?;
    world.here = "none/here";
    let said = refused(&world);
    assert!(said.contains("the folder above it does not exist") && said.contains("mkdir -p"), "{said}");
    Ok(())
}

pub(crate) fn umount_ends_a_mount() -> Result<(), Failed> {
    let mut world = World::new("through")?;
    world.start_server()?;
    world.start_mount()?;
    fs::write(world.path("here").join("file"), "content")?;
    let mut umount = Command::new("umount");
    umount.arg(world.path("here"));
    let ended = output(umount);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let mount = world.mount.as_mut().ok_or_else(|| io::Error::other("it runs"))?;
    assert_eq!(mount.wait()?.code(), Some(0));
    assert_eq!(fs::read(world.path("there").join("file"))?, b"content");
    Ok(())
}

/// Its program was killed: the table of the kernel still has it.
pub(crate) fn dead_mount_is_named() -> Result<(), Failed> {
    let mut world = World::new("back")?;
    world.start_server()?;
    world.start_mount()?;
    fs::write(world.path("here").join("file"), "content")?;
    world::kill(&mut world.mount);
    let (url, here) = (format!("http://{}/", world.target), world.path("here"));
    let status = world.status_command().output()?;
    let said = text(&status.stdout);
    let line = format!(
        "{url} on {here}: its program has ended; `haul unmount {here}` frees the folder\n",
        here = here.display()
    );
    assert!(said.contains(&line) && status.status.code() == Some(1), "{said}");
    assert_eq!(said.matches(&url).count(), 1, "one heading: {said}");
    assert!(world.unmount().status.success());
    assert!(!world.status().contains(&here.display().to_string()));
    Ok(())
}

pub(crate) fn busy_mount_is_explained() -> Result<(), Failed> {
    let mut world = World::new("through")?;
    world.start_server()?;
    world.start_mount()?;
    let here = world.path("here");
    let open = File::create(here.join("file"))?;
    let refused = world.unmount();
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains(&format!("`fuser -vm {}`", here.display())), "{said}");
    drop(open);
    assert!(world.unmount().status.success());
    Ok(())
}

/// Another mount namespace has a copy of the mount, as containers and services have.
pub(crate) fn other_namespace_is_named() -> Result<(), Failed> {
    let mut world = World::new("through")?;
    world.start_server()?;
    world.start_mount()?;
    let mut container = Command::new("unshare");
    container.args(["--mount", "--propagation", "private", "sleep", "3600"]).current_dir("/");
    let mut container = Some(container.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
    let pid = container.as_ref().map_or(0, Child::id);
    let is_apart = || fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    assert!(eventually(is_apart), "it has a namespace of its own");
    let unmounted = world.unmount();
    let (said, status) = (text(&unmounted.stderr), unmounted.status.code());
    let is_alive = matches!(world.mount.as_mut().map(Child::try_wait), Some(Ok(None)));
    world::kill(&mut container);
    assert!(said.contains(&format!("process {pid} (sleep)")) && status == Some(1), "{status:?} {said}");
    assert!(is_alive, "the other namespace has it");
    let mut mount = world.mount.take().ok_or_else(|| io::Error::other("it runs"))?;
    assert!(eventually(|| matches!(mount.try_wait(), Ok(Some(_)))), "it ends with the namespace");
    Ok(())
}
