//! Samba in front of davfs2, on a middle box: the article's way to keep Windows' own
//! redirector off the long link. A desktop computer speaks SMB to the box over the LAN, the
//! box speaks WebDAV to the server through a davfs2 mount.
//!
//! What the article's container (dperson/samba) sets and a file system like davfs2 notices
//! is set here too. Without its `create mask` each new file would be made executable, since
//! Samba keeps DOS's archive bit there, and davfs2 would send a PROPPATCH for that.
//!
//! The desktop computer is played by smbclient, which like Explorer moves one file after
//! another in one session. The session is there before the clock starts, as it is with a
//! mapped drive: smbclient has printed its prompt and reads its commands from a pipe. Inside the
//! clock is its end, of which smbclient tells the box over the LAN. What it does of Windows' own housekeeping (change notification,
//! thumbnails, desktop.ini) is nothing, and on the LAN that would cost little.

use std::{fmt::Write, fs, path::Path, thread, time::Duration};

use super::{
    Contender, Failure, Pc, Prepared, Registered, Sample,
    davfs2::{self, Mount, no_fuse},
    io_failure,
};
use crate::{
    process::{Daemon, Program, Waiting},
    servers::{Http, Server},
    work::{Done, Work},
};

const SMBD: Program = Program { name: "smbd", package: "samba", version: "--version" };
const SMBCLIENT: Program = Program { name: "smbclient", package: "smbclient", version: "--version" };
const SHARE: &str = "dav";
/// What smbclient prints when it waits for a command in the share's root.
const PROMPT: &str = "smb: \\> ";
const NEEDS: &[Program] = &[SMBD, SMBCLIENT, davfs2::MOUNT];

pub(super) const LOCKS: Registered =
    Registered { name: "samba-davfs2", parameters: &[], make: |_| Box::new(Samba { locks: true }) };
pub(super) const NO_LOCKS: Registered =
    Registered { name: "samba-davfs2-nolocks", parameters: &[], make: |_| Box::new(Samba { locks: false }) };

struct Samba {
    locks: bool,
}

impl Contender for Samba {
    fn name(&self) -> String {
        if self.locks { LOCKS.name } else { NO_LOCKS.name }.to_owned()
    }

    fn describe(&self) -> &'static str {
        if self.locks {
            "a middle box with Samba over a davfs2 mount with locks, used with smbclient over a LAN"
        } else {
            "a middle box with Samba over a davfs2 mount without locks, used with smbclient over a LAN"
        }
    }

    fn needs_root(&self) -> bool {
        true
    }

    fn needs_pc(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [Program] {
        NEEDS
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        no_fuse()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = davfs2::settings(self.locks);
        settings.push(("server min protocol".to_owned(), "SMB2".to_owned()));
        settings
    }

    fn prepare<'a>(&self, sample: &'a Sample<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let pc = sample.pc.ok_or(Failure::NoPc("Samba"))?;
        let mount = Mount::new(sample, self.locks)?;
        for folder in ["private", "lock", "state", "cache", "run", "ncalrpc"] {
            let folder = sample.scratch.join("samba").join(folder);
            fs::create_dir_all(&folder).map_err(io_failure("create", &folder))?;
        }
        let conf = sample.scratch.join("smb.conf");
        let text = configuration(sample.scratch, &mount.point, &pc.share.ip().to_string(), pc.share.port());
        fs::write(&conf, text).map_err(io_failure("write", &conf))?;
        let mut command = SMBD.command(sample.scratch)?;
        command.arg("--foreground").arg("--no-process-group").arg("--debug-stdout").arg("--configfile").arg(&conf);
        let smbd = Daemon::start(sample.client, &mut command, &sample.scratch.join("smbd.log"))?;
        let mut shared = Shared { smbclient: None, smbd, mount, sample };
        shared.connect(pc)?;
        Ok(Box::new(shared))
    }
}

/// A mount and the Samba in front of it; what comes first is dropped first.
struct Shared<'a> {
    smbclient: Option<Waiting>,
    smbd: Daemon,
    mount: Mount,
    sample: &'a Sample<'a>,
}

impl Shared<'_> {
    /// Opens a session from the desktop computer, as soon as Samba lets it.
    fn connect(&mut self, pc: Pc) -> Result<(), Failure> {
        loop {
            self.smbd.check()?;
            let mut command = SMBCLIENT.command(self.sample.scratch)?;
            command
                .arg(format!("//{}/{SHARE}", pc.share.ip()))
                .args(["--no-pass", "--debuglevel", "0", "--port"])
                .arg(pc.share.port().to_string());
            command.arg("--configfile").arg(self.sample.scratch.join("smb.conf"));
            // Without it smbclient prompts on a terminal only.
            command.env("CLI_FORCE_INTERACTIVE", "1");
            match Waiting::start(pc.place, &mut command, PROMPT, &self.sample.bounds) {
                Ok(smbclient) => {
                    self.smbclient = Some(smbclient);
                    return Ok(());
                }
                Err(error) if self.sample.bounds.check().is_err() => return Err(error.into()),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Prepared for Shared<'_> {
    fn run(&mut self) -> Result<Done, Failure> {
        let task = self.sample.task;
        let mut commands = format!("cd {}\nprompt\n", task.folder);
        let _ = match task.work() {
            Work::Upload { .. } => writeln!(commands, "lcd \"{}\"\nmput *", task.source.display()),
            Work::Download { .. } => writeln!(commands, "lcd \"{}\"\nmget file*", task.target.display()),
            Work::List { .. } => writeln!(commands, "ls"),
            Work::Edit { .. } => {
                task.writes().try_for_each(|(file, _, name)| writeln!(commands, "put \"{}\" {name}", file.display()))
            }
        };
        let smbclient = self.smbclient.take().ok_or(Failure::NoPc("Samba"))?;
        let printed = smbclient.run(&commands, &self.sample.bounds)?.stdout;
        let listing = matches!(task.work(), Work::List { .. }).then(|| names(&printed));
        Ok(Done { listing, writes_behind: task.work().writes() })
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        self.smbd.stop();
        let Shared { mount, .. } = *self;
        mount.unmount()
    }
}

/// The files in what smbclient's `ls` printed: a line with two spaces, the name, and
/// attributes, size and date after more.
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
    fn reads_a_listing() {
        let printed = "  .                                   D        0  Sat Nov 21 19:41:02 2026
  ..                                  D        0  Sat Nov 21 19:41:02 2026
  entry0000.txt                       N        0  Sat Nov 21 19:41:02 2026
  entry0001.txt                       A        0  Sat Nov 21 19:41:02 2026

\t\t1048576 blocks of size 1024. 1048576 blocks available
";
        assert_eq!(names(printed), ["entry0000.txt", "entry0001.txt"]);
    }
}
