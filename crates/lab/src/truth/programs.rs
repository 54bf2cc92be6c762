//! The real programs: which are installed, and how a scenario starts them.
//!
//! Several programs do the same work, so that no implementation's habits are learnt: nginx sends a file with sendfile(2),
//! Python writes the head and the body separately, node writes 64 KiB at a time, wget reads 8 KiB at a time.

mod clients;
mod servers;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) use clients::client;
use link::host::Host;
pub(crate) use servers::{competitor, start};

use super::scenario::{ClientProgram, ServerProgram, Shaper};
use crate::process::{self, Missing, Program};

pub(super) const CURL: Program = Program { name: "curl", package: "curl", version: "--version" };
pub(super) const WGET: Program = Program { name: "wget", package: "wget", version: "--version" };
pub(super) const PYTHON: Program = Program { name: "python3", package: "python3", version: "--version" };
pub(super) const NODE: Program = Program { name: "node", package: "nodejs", version: "--version" };
pub(super) const RCLONE: Program = Program { name: "rclone", package: "rclone", version: "version" };
pub(super) const NGINX: Program = Program { name: "nginx", package: "nginx", version: "-v" };
pub(super) const APACHE: Program = Program { name: "apache2", package: "apache2-bin", version: "-v" };
pub(super) const TC: Program = Program { name: "tc", package: "iproute2", version: "-V" };
pub(super) const IPERF3: Program = Program { name: "iperf3", package: "iperf3", version: "--version" };

/// The port of the measured server.
pub(super) const PORT: u16 = 8000;

/// The port of the server of competing downloads.
pub(super) const COMPETITOR_PORT: u16 = 8002;

/// What this machine can run.
#[derive(Debug, Clone, Default)]
pub struct Installed {
    /// The servers.
    pub servers: Vec<ServerProgram>,
    /// The clients.
    pub clients: Vec<ClientProgram>,
    /// Whether iperf3 is there.
    pub has_iperf3: bool,
    /// Whether tc is there.
    pub has_tc: bool,
    /// The congestion controls that a network namespace may use.
    pub congestion_controls: Vec<String>,
    /// The programs that are missing.
    pub missing: Vec<Missing>,
    /// The versions of the programs, by name.
    pub versions: Vec<(String, String)>,
}

impl Installed {
    /// Looks for all programs.
    pub fn look() -> Self {
        let mut installed = Self::default();
        for (program, kind) in [
            (PYTHON, ServerProgram::Python),
            (NGINX, ServerProgram::Nginx),
            (APACHE, ServerProgram::Apache),
            (NODE, ServerProgram::Node),
        ] {
            if installed.has(program) {
                installed.servers.push(kind);
            }
        }
        for (program, kind) in [
            (CURL, ClientProgram::Curl),
            (WGET, ClientProgram::Wget),
            (PYTHON, ClientProgram::Python),
            (NODE, ClientProgram::Node),
            (RCLONE, ClientProgram::Rclone),
        ] {
            if installed.has(program) {
                installed.clients.push(kind);
            }
        }
        installed.has_iperf3 = installed.has(IPERF3);
        installed.has_tc = installed.has(TC);
        let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap_or_default();
        installed.congestion_controls = allowed.split_whitespace().map(str::to_owned).collect();
        installed
    }

    fn has(&mut self, program: Program) -> bool {
        if let Err(missing) = find(program) {
            if !self.missing.contains(&missing) {
                self.missing.push(missing);
            }
            return false;
        }
        if !self.versions.iter().any(|(name, _)| name == program.name) {
            self.versions.push((program.name.to_owned(), program.version()));
        }
        true
    }
}

/// The command that adds a shaper to a host's first device.
pub(super) fn shape(shaper: Shaper, folder: &Path) -> Result<Command, Missing> {
    let mut command = process::command(&find(TC)?, folder);
    let Shaper { rate, burst } = shaper;
    command.args(["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &format!("{}bps", rate.0)]);
    command.args(["burst", &format!("{}b", burst.0), "latency", "200ms"]);
    Ok(command)
}

/// The path of a program. The system's Python goes first: a user's may be a script that needs the user's environment.
pub(super) fn find(program: Program) -> Result<PathBuf, Missing> {
    let system = Path::new("/usr/bin").join(program.name);
    if system.is_file() { Ok(system) } else { program.find() }
}

/// Whether something listens on this TCP port of a host.
pub(super) fn is_listening(host: &Host, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let tables = host.run(|| {
        ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default())
    });
    let wanted = format!("{port:04X}");
    tables.unwrap_or_default().iter().flat_map(|table| table.lines()).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit_once(':'));
        local.is_some_and(|(_, port)| port == wanted) && fields.nth(1) == Some(LISTEN)
    })
}
