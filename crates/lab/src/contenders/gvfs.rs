//! gvfs, the virtual file system of GNOME's file manager: `gio mount`, then `gio copy` and `gio list`; straight to the server,
//! and from a desktop computer through `haul gateway`.
//!
//! gvfs needs a session bus and no desktop: `dbus-daemon` starts its daemons when `gio` asks for them. They are children of
//! the bus, and end with it. The share is mounted before the clock starts, as it is for a user of a file manager.
//!
//! gvfs trusts the system's certificates, and has no option for others. So `gio mount` asks whether the run's certificate is to
//! be trusted, and is told yes, as a user would click; after that gvfs accepts this certificate and no other.
//!
//! It is told to speak HTTP/1.1: over HTTP/2 the mount was lost in two of five uploads to Apache (gvfs 1.50.3, libsoup 3.2.3,
//! Apache 2.4.71), and in none without TLS or to `haul serve`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use super::{
    Contender, Failure, Prepared, Registered, SampleSetup, haul, io_failure, middle_box::gateway, mounted::no_user_name,
};
use crate::{
    process::{Daemon, Program, run},
    servers::{Http, Server},
    spawn::Spawn,
    work::{Done, Work},
};

pub(super) const STRAIGHT: Registered =
    Registered { name: "gvfs", parameters: &[], make: |_| Box::new(Gvfs { has_gateway: false }) };
pub(super) const GATEWAY: Registered =
    Registered { name: "gvfs-gateway", parameters: &[], make: |_| Box::new(Gvfs { has_gateway: true }) };

const GIO: Program = Program { name: "gio", package: "libglib2.0-bin", version: "version" };
const BUS: Program = Program { name: "dbus-daemon", package: "dbus-daemon", version: "--version" };
/// Where distributions have the daemon that speaks WebDAV.
const DAEMONS: [&str; 2] = ["/usr/libexec/gvfsd-dav", "/usr/lib/gvfs/gvfsd-dav"];
/// What answers `gio mount`, which asks about the certificate: 1 is yes.
const MOUNT: &str = "echo 1 | gio mount \"$1\"";

struct Gvfs {
    has_gateway: bool,
}

impl Contender for Gvfs {
    fn name(&self) -> String {
        if self.has_gateway { GATEWAY.name } else { STRAIGHT.name }.to_owned()
    }

    fn describe(&self) -> &'static str {
        if self.has_gateway {
            "gio copy into a share that gvfs has mounted, through haul gateway on a middle box on its LAN"
        } else {
            "gio copy into a share that gvfs has mounted: several requests for each file, one after another"
        }
    }

    fn needs_pc(&self) -> bool {
        self.has_gateway
    }

    fn needs(&self) -> &'static [Program] {
        &[GIO, BUS]
    }

    /// The gateway may choose HTTP/2.
    fn http(&self, tls: bool) -> Http {
        if tls && self.has_gateway { Http::Two } else { Http::One }
    }

    fn unable(&self, work: &Work, _server: &dyn Server, tls: bool) -> Option<String> {
        if !DAEMONS.iter().any(|path| Path::new(path).is_file()) {
            return Some("gvfsd-dav is not installed; install it with `apt-get install gvfs-backends`".to_owned());
        }
        if let Work::Tree { .. } = work {
            return Some("gio copy copies no folders".to_owned());
        }
        let lacks_program = || match (self.has_gateway, tls) {
            (false, _) => None,
            (true, false) => Some("haul gateway serves a LAN only with TLS".to_owned()),
            (true, true) => haul::program().err(),
        };
        no_user_name("dbus-daemon").or_else(lacks_program)
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![
            ("certificate".to_owned(), "accepted at mount".to_owned()),
            ("SOUP_FORCE_HTTP1".to_owned(), "1".to_owned()),
        ]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let (host, server, middle_box) = if self.has_gateway {
            let pc = sample.pc.ok_or(Failure::NoPc("A gateway"))?;
            let scratch = sample.scratch.join("middle-box");
            fs::create_dir_all(&scratch).map_err(io_failure("create", &scratch))?;
            let running = gateway(sample, pc.share, &scratch, false)?;
            (pc.host, format!("https://{}/", pc.share), Some(running))
        } else {
            (sample.client, sample.server().to_owned(), None)
        };
        let share = server.replacen("http", "dav", 1);
        let bus = sample.scratch.join("bus");
        let runtime = sample.scratch.join("runtime");
        // It looks for its sockets there before it has made the folder.
        fs::create_dir_all(runtime.join("gvfsd")).map_err(io_failure("create", &runtime))?;
        let private = fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700));
        private.map_err(io_failure("protect", &runtime))?;
        let mut command = BUS.command(sample.scratch)?;
        command.args(["--session", "--nofork", "--nopidfile"]).arg(format!("--address=unix:path={}", bus.display()));
        in_session(&mut command, &bus, &runtime);
        let mut daemon = Daemon::start(host, &mut command, &sample.scratch.join("bus.log"))?;
        while !bus.exists() {
            daemon.check()?;
            let waited = sample.deadline.check();
            waited.map_err(|stop| Failure::Stopped { what: "starting dbus-daemon".to_owned(), stop })?;
            thread::sleep(Duration::from_millis(2));
        }
        let folder = format!("{share}{}/", sample.task.folder);
        let session = Session { host, folder, bus, runtime, sample, daemon, _middle_box: middle_box };
        let mut mount = crate::process::command(Path::new("/bin/sh"), sample.scratch);
        run(host, session.enter(mount.args(["-c", MOUNT, "sh", &share])), &sample.deadline)?;
        Ok(Box::new(session))
    }
}

fn in_session(command: &mut Command, bus: &Path, runtime: &Path) {
    command.env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", bus.display())).env("XDG_RUNTIME_DIR", runtime);
    command.env("GIO_USE_VOLUME_MONITOR", "unix").env("SOUP_FORCE_HTTP1", "1");
}

/// A session with a mounted share; fields are dropped in order.
struct Session<'a> {
    host: &'a dyn Spawn,
    /// Of the task.
    folder: String,
    bus: PathBuf,
    runtime: PathBuf,
    sample: &'a SampleSetup<'a>,
    daemon: Daemon,
    _middle_box: Option<Daemon>,
}

impl Session<'_> {
    fn enter<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        in_session(command, &self.bus, &self.runtime);
        command
    }

    fn gio(&self, arguments: &[String]) -> Result<String, Failure> {
        let mut command = GIO.command(self.sample.scratch)?;
        command.args(arguments);
        Ok(run(self.host, self.enter(&mut command), &self.sample.deadline)?.stdout)
    }

    fn copy(&self, from: impl Iterator<Item = String>, to: String) -> Result<(), Failure> {
        let arguments: Vec<String> = std::iter::once("copy".to_owned()).chain(from).chain([to]).collect();
        self.gio(&arguments).map(drop)
    }
}

impl Prepared for Session<'_> {
    fn run(&mut self) -> Result<Done, Failure> {
        let task = self.sample.task;
        let mut done = Done::default();
        match task.work() {
            Work::Upload { .. } | Work::Tree { .. } => {
                self.copy(task.writes().map(|(file, ..)| file.display().to_string()), self.folder.clone())?;
            }
            Work::Edit { .. } => {
                for (file, _, name) in task.writes() {
                    self.copy(std::iter::once(file.display().to_string()), format!("{}{name}", self.folder))?;
                }
            }
            Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
                let files = task.names().into_iter().map(|name| format!("{}{name}", self.folder));
                self.copy(files, task.target.display().to_string())?;
            }
            Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => {
                let listed = self.gio(&["list", "-l", "-a", "time::modified", &self.folder].map(str::to_owned))?;
                let names = listed.lines().filter_map(|line| line.split('\t').next());
                done.listing = Some(names.map(str::to_owned).collect());
            }
        }
        Ok(done)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        self.daemon.stop();
        Ok(())
    }
}
