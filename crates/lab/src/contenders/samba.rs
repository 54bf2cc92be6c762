//! Samba in front of a mount, on a middle box: the article's way to keep the Windows redirector off the long link. A
//! desktop computer speaks SMB to the box over the LAN, and the box speaks WebDAV to the server through the mount: davfs2,
//! as in the article, or `haul mount`, write-through. `haul mount` locks existing files by default, and davfs2 new ones
//! too, so `haul mount` also takes part with a lock around every upload.
//!
//! Settings of the article's container (dperson/samba) that affect the file system are set here too. Without its
//! `create mask`, Samba stores DOS's archive bit by making each new file executable, and davfs2 would send a PROPPATCH
//! for it.
//!
//! smbclient plays the desktop computer. Like Explorer, it copies one file after another in one session. Its start and
//! the session setup, over the LAN, are within the clock. In a second pair of contenders impacket does, a client library
//! that shares no code with Samba, and whose session begins before the clock. Explorer's other requests (change notification, thumbnails,
//! desktop.ini) are left out; on the LAN they would cost little.

use std::{fs, path::Path, thread, time::Duration};

use nix::unistd::{Gid, Uid};

use super::{
    Contender, Failure, Prepared, Registered, SampleSetup,
    davfs2::{self, Mode},
    haul, haul_mount, impacket, io_failure,
    mounted::{MountPoint, no_fuse},
};
use crate::{
    process::{Daemon, Program, ordinary_user, run},
    servers::{Http, Server},
    work::{Done, Work},
};

const SMBD: Program = Program { name: "smbd", package: "samba", version: "--version" };
const SMBCLIENT: Program = Program { name: "smbclient", package: "smbclient", version: "--version" };
const SHARE: &str = "dav";

macro_rules! registered {
    ($name:literal, $describe:literal, $behind:expr) => {
        registered!($name, $describe, $behind, ClientProgram::Smbclient, "smbclient")
    };
    ($name:literal, $describe:literal, $behind:expr, $client:expr, $program:literal) => {
        Registered {
            name: $name,
            parameters: &[],
            make: |_| {
                let describe =
                    concat!("a middle box with Samba over ", $describe, ", used with ", $program, " over a LAN");
                Box::new(Samba { name: $name, describe, behind: $behind, client: $client })
            },
        }
    };
}

pub(super) const LOCKS: Registered =
    registered!("samba-davfs2", "a davfs2 mount with locks", Behind::Davfs2(Mode::Locks));
pub(super) const NO_LOCKS: Registered =
    registered!("samba-davfs2-nolocks", "a davfs2 mount without locks", Behind::Davfs2(Mode::NoLocks));
pub(super) const HAUL: Registered = registered!("samba-haul", "haul mount", Behind::HaulMount { lock: "edit" });
pub(super) const HAUL_LOCKS: Registered =
    registered!("samba-haul-locks", "haul mount with a lock around every upload", Behind::HaulMount { lock: "always" });
pub(super) const HAUL_NO_LOCKS: Registered =
    registered!("samba-haul-nolocks", "haul mount without locks", Behind::HaulMount { lock: "never" });
pub(super) const LOCKS_IMPACKET: Registered = registered!(
    "samba-davfs2-impacket",
    "a davfs2 mount with locks",
    Behind::Davfs2(Mode::Locks),
    ClientProgram::Impacket,
    "impacket"
);
pub(super) const HAUL_IMPACKET: Registered = registered!(
    "samba-haul-impacket",
    "haul mount",
    Behind::HaulMount { lock: "edit" },
    ClientProgram::Impacket,
    "impacket"
);

/// The mount behind Samba.
#[derive(Clone, Copy)]
enum Behind {
    Davfs2(Mode),
    HaulMount {
        /// Which files it locks: the value of `--lock`.
        lock: &'static str,
    },
}

/// What speaks SMB on the desktop computer.
#[derive(Clone, Copy)]
enum ClientProgram {
    Smbclient,
    Impacket,
}

struct Samba {
    name: &'static str,
    describe: &'static str,
    behind: Behind,
    client: ClientProgram,
}

impl Contender for Samba {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn describe(&self) -> &str {
        self.describe
    }

    fn needs_root(&self) -> bool {
        true
    }

    fn needs_pc(&self) -> bool {
        true
    }

    fn needs(&self) -> &[Program] {
        match self.behind {
            Behind::Davfs2(_) => &[SMBD, SMBCLIENT, davfs2::MOUNT],
            Behind::HaulMount { .. } => &[SMBD, SMBCLIENT],
        }
    }

    /// Over TLS `haul mount` may choose HTTP/2.
    fn http(&self, tls: bool) -> Http {
        if tls && matches!(self.behind, Behind::HaulMount { .. }) { Http::Two } else { Http::One }
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        let lacks_haul = || match self.behind {
            Behind::Davfs2(_) => None,
            Behind::HaulMount { .. } => haul::program().err(),
        };
        let lacks_client = || match self.client {
            ClientProgram::Smbclient => None,
            ClientProgram::Impacket => impacket::missing().map(|missing| missing.to_string()),
        };
        no_fuse().or_else(lacks_haul).or_else(lacks_client)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = match self.behind {
            Behind::Davfs2(mode) => davfs2::settings(mode),
            Behind::HaulMount { lock } => vec![("options".to_owned(), haul_options(lock).join(" "))],
        };
        settings.push(("server min protocol".to_owned(), "SMB2".to_owned()));
        if matches!(self.client, ClientProgram::Impacket) {
            settings.push(("impacket".to_owned(), impacket::version()));
        }
        settings
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        Ok(match self.behind {
            Behind::Davfs2(mode) => Box::new(Shared::start(davfs2::Mount::new(sample, mode)?, sample, self.client)?),
            Behind::HaulMount { lock } => {
                let mount = haul_mount::mount(sample, false, &haul_options(lock))?;
                Box::new(Shared::start(mount, sample, self.client)?)
            }
        })
    }
}

/// As with davfs2, the files belong to the user as whom Samba lets guests in.
fn haul_options(lock: &str) -> Vec<String> {
    let (uid, gid) = ordinary_user().unwrap_or((Uid::current(), Gid::current()));
    format!("--allow-other --no-xattr --uid {uid} --gid {gid} --lock {lock}").split(' ').map(str::to_owned).collect()
}

/// A mount, and the Samba in front of it; fields are dropped in order.
struct Shared<'a, M: MountPoint> {
    /// None if smbclient does the work.
    library: Option<impacket::Session>,
    smbd: Daemon,
    mount: M,
    sample: &'a SampleSetup<'a>,
}

impl<'a, M: MountPoint> Shared<'a, M> {
    /// Shares a mount on the LAN of the desktop computer.
    fn start(mount: M, sample: &'a SampleSetup<'a>, client: ClientProgram) -> Result<Self, Failure> {
        let pc = sample.pc.ok_or(Failure::NoPc("Samba"))?;
        for folder in ["private", "lock", "state", "cache", "run", "ncalrpc"] {
            let folder = sample.scratch.join("samba").join(folder);
            fs::create_dir_all(&folder).map_err(io_failure("create", &folder))?;
        }
        let conf = sample.scratch.join("smb.conf");
        let text = configuration(sample.scratch, mount.point(), &pc.share.ip().to_string(), pc.share.port());
        fs::write(&conf, text).map_err(io_failure("write", &conf))?;
        let mut command = SMBD.command(sample.scratch)?;
        command.arg("--foreground").arg("--no-process-group").arg("--debug-stdout").arg("--configfile").arg(&conf);
        let smbd = Daemon::start(sample.client, &mut command, &sample.scratch.join("smbd.log"))?;
        let mut shared = Self { library: None, smbd, mount, sample };
        shared.wait_ready()?;
        if matches!(client, ClientProgram::Impacket) {
            shared.library = Some(impacket::Session::begin(sample, pc, SHARE)?);
        }
        Ok(shared)
    }

    /// Waits until a session can be opened from the desktop computer.
    fn wait_ready(&mut self) -> Result<(), Failure> {
        loop {
            self.smbd.check()?;
            let Err(failure) = self.smbclient("exit") else { return Ok(()) };
            if self.sample.deadline.check().is_err() {
                return Err(failure);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn smbclient(&self, commands: &str) -> Result<String, Failure> {
        let pc = self.sample.pc.ok_or(Failure::NoPc("Samba"))?;
        let mut command = SMBCLIENT.command(self.sample.scratch)?;
        command
            .arg(format!("//{}/{SHARE}", pc.share.ip()))
            .args(["--no-pass", "--debuglevel", "0", "--port"])
            .arg(pc.share.port().to_string());
        command.arg("--configfile").arg(self.sample.scratch.join("smb.conf")).args(["--command", commands]);
        Ok(run(pc.host, &mut command, &self.sample.deadline)?.stdout)
    }
}

impl<M: MountPoint> Prepared for Shared<'_, M> {
    fn run(&mut self) -> Result<Done, Failure> {
        let task = self.sample.task;
        let mut done = Done { writes_behind: self.mount.writes_behind() && task.work().writes(), ..Done::default() };
        if let Some(library) = &mut self.library {
            done.listing = library.work(task, &self.sample.deadline)?;
            return Ok(done);
        }
        let enter = format!("cd {}; prompt", task.folder);
        match task.work() {
            Work::Upload { .. } | Work::Tree { .. } => {
                self.smbclient(&format!("{enter}; recurse; lcd \"{}\"; mput *", task.source.display()))?;
            }
            Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
                self.smbclient(&format!("{enter}; lcd \"{}\"; mget file*", task.target.display()))?;
            }
            Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => {
                let printed = self.smbclient(&format!("{enter}; ls"))?;
                done.listing = Some(names(&printed));
            }
            Work::Edit { .. } => {
                let saves = task.writes().map(|(file, _, name)| format!("put \"{}\" {name}; ", file.display()));
                self.smbclient(&format!("{enter}; {}", saves.collect::<String>()))?;
            }
        }
        Ok(done)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        // It ends its session.
        self.library = None;
        self.smbd.stop();
        let Shared { mount, .. } = *self;
        mount.unmount()
    }
}

/// The files in the output of smbclient's `ls`: lines of two spaces, the name, and attributes, size and date.
fn names(printed: &str) -> Vec<String> {
    let entries = printed.lines().filter_map(|line| line.strip_prefix("  "));
    let names = entries.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !matches!(*name, "." | "..")).map(str::to_owned).collect()
}

fn configuration(scratch: &Path, shared: &Path, address: &str, port: u16) -> String {
    let samba = scratch.join("samba");
    let samba = samba.display();
    format!(
        "[global]
server role = standalone server
server min protocol = SMB2
smb ports = {port}
interfaces = {address}/24
bind interfaces only = yes
disable netbios = yes
map to guest = Bad User
guest account = nobody
create mask = 0664
force create mode = 0664
strict locking = no
load printers = no
printcap name = /dev/null
disable spoolss = yes
private dir = {samba}/private
lock directory = {samba}/lock
state directory = {samba}/state
cache directory = {samba}/cache
pid directory = {samba}/run
ncalrpc dir = {samba}/ncalrpc
[{SHARE}]
path = {shared}
guest ok = yes
read only = no
",
        shared = shared.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smbclient_listing_is_parsed() {
        let printed = "  .                                   D        0  Sat Nov 21 19:41:02 2026
  ..                                  D        0  Sat Nov 21 19:41:02 2026
  entry0000.txt                       N        0  Sat Nov 21 19:41:02 2026
  entry0001.txt                       A        0  Sat Nov 21 19:41:02 2026

\t\t1048576 blocks of size 1024. 1048576 blocks available
";
        assert_eq!(names(printed), ["entry0000.txt", "entry0001.txt"]);
    }
}
