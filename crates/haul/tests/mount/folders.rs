//! The folder of a mount: made, listed, and unmounted by other programs.

use std::{fs, io, process::Command};

use libtest_mimic::Failed;

use crate::{
    common::text,
    world::{World, output},
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
    assert!(status.contains(&line) && status.ends_with("everything is on the servers\n"), "{status}");
    assert!(world.unmount().status.success());
    assert!(here.is_dir(), "the next mount needs it");
    let again = text(&world.unmount().stderr);
    assert!(again.contains("nothing is mounted there") && !world.status().contains(&line), "{again}");

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
