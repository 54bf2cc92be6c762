//! A mounted Apache, which carries a change out when its program has saved the file again.

use std::{
    error::Error,
    fs::{self, File},
    io::{Seek, Write},
    path::PathBuf,
    time::Duration,
};

use dav::{Dav, LockPolicy, RemotePath};
use haul_http::{Client, Origin, Settings, Timeouts, auth::Authenticator};
use libtest_mimic::Failed;
use mount::{Mount, Options};
use servers::{Apache, HoldingLink};
use tokio::runtime::Runtime;

use crate::{DoubleTest, doubled, doubled::PATIENCE};

pub(crate) const TESTS: &[(&str, DoubleTest)] = &[
    ("a_late_upload_to_apache_undoes_no_newer_save", a_late_upload_undoes_no_newer_save),
    ("a_late_deletion_at_apache_undoes_no_newer_save", a_late_deletion_undoes_no_newer_save),
    ("a_late_renaming_at_apache_undoes_no_newer_save", a_late_renaming_undoes_no_newer_save),
];

/// How long the mount waits for an answer.
const SHORT: Duration = Duration::from_secs(3);

struct World {
    apache: Apache,
    link: HoldingLink,
    here: PathBuf,
    runtime: Option<Runtime>,
    mount: Option<Mount>,
    _scratch: tempfile::TempDir,
}

impl World {
    /// None, and said, without Apache.
    fn new(lock: LockPolicy) -> Result<Option<Self>, Box<dyn Error>> {
        let directives = "<Directory \"ROOT/files\">\nDav On\nRequire all granted\n</Directory>\n";
        let Some(apache) = Apache::start(&[], directives, |_| ()) else { return Ok(None) };
        let scratch = tempfile::Builder::new().prefix("haul-mount").tempdir()?;
        let [here, cache] = ["here", "cache"].map(|name| scratch.path().join(name));
        fs::create_dir(&here)?;
        let link = HoldingLink::to(apache.address)?;
        let origin = Origin::of(&format!("http://{}", link.at).parse()?)?;
        let timeouts = Timeouts { connect: SHORT, first_byte: SHORT, pipelined: SHORT, stall: SHORT, idle: PATIENCE };
        let settings = Settings { timeouts, patience: Some(SHORT), ..Settings::default() };
        let dav = Dav::new(Client::new(settings, Authenticator::default())?, origin);
        let options = Options { lock, ..doubled::options_of(format!("http://{}/files/", link.at), &cache) };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mount = runtime.block_on(Mount::new(dav, RemotePath::from_url_path("/files/")?, here.clone(), options))?;
        Ok(Some(Self { apache, link, here, runtime: Some(runtime), mount: Some(mount), _scratch: scratch }))
    }

    fn on_disk(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.apache.path("root/files").join(name)).ok()
    }

    /// These files with "newer", and no others.
    fn expect(&self, names: &[&str], late: &str) {
        for name in names {
            assert_eq!(
                self.on_disk(name).as_deref(),
                Some("newer"),
                "{name}, late: {late}: {}",
                self.apache.text("access.log")
            );
        }
        let all = fs::read_dir(self.apache.path("root/files")).expect("it is there");
        let all = all.map(|entry| entry.expect("it is there").file_name().into_string().expect("a name"));
        let mut all: Vec<_> = all.filter(|name| name != ".DAV").collect();
        all.sort();
        assert_eq!(all, names, "{}", self.apache.text("access.log"));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some((runtime, mount)) = self.runtime.take().zip(self.mount.take()) {
            let _ = runtime.block_on(mount.unmount());
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

fn a_late_upload_undoes_no_newer_save() -> Result<(), Failed> {
    for (lock, is_new) in
        [(LockPolicy::Never, false), (LockPolicy::Never, true), (LockPolicy::OnEdit, false), (LockPolicy::Always, true)]
    {
        let Some(world) = World::new(lock)? else { return Ok(()) };
        let path = world.here.join("file");
        if !is_new {
            fs::write(&path, "first")?;
        }
        let mut file =
            if is_new { File::create(&path)? } else { File::options().read(true).write(true).open(&path)? };
        file.write_all(b"older")?;
        world.link.hold("PUT", "/files/file");
        // Its answer is missing, so it fails, or another copy of it has succeeded.
        let _ = file.sync_all();
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(b"newer")?;
        file.sync_all()?;
        let late = world.link.let_go();
        drop(file);
        world.expect(&["file"], &late);
    }
    Ok(())
}

fn a_late_deletion_undoes_no_newer_save() -> Result<(), Failed> {
    let Some(world) = World::new(LockPolicy::OnEdit)? else { return Ok(()) };
    let path = world.here.join("file");
    fs::write(&path, "first")?;
    world.link.hold("DELETE", "/files/file");
    fs::remove_file(&path).expect_err("its answer is missing");
    fs::write(&path, "newer")?;
    let late = world.link.let_go();
    world.expect(&["file"], &late);
    Ok(())
}

fn a_late_renaming_undoes_no_newer_save() -> Result<(), Failed> {
    let Some(world) = World::new(LockPolicy::OnEdit)? else { return Ok(()) };
    let [path, other] = ["file", "other"].map(|name| world.here.join(name));
    fs::write(&path, "first")?;
    fs::write(&other, "newer")?;
    world.link.hold("MOVE", "/files/other");
    fs::rename(&other, &path).expect_err("its answer is missing");
    fs::write(&path, "newer")?;
    let late = world.link.let_go();
    world.expect(&["file", "other"], &late);
    Ok(())
}
