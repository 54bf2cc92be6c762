//! The requests of the Windows redirector and of Finder through a middle box: `haul gateway`, and beside it nginx as a plain
//! reverse proxy, which shows what any proxy gives.
//!
//! The box is where Samba is for the contenders with Samba: on the client host, with a desktop computer on its LAN. The
//! computer speaks HTTP/1.1 over TLS with the box, as the model does with a server, in the same requests, one after another. So the contender with the gateway is a model too. But unlike two models with different
//! requests, it can be compared with the model straight to the server: the program on the way is real, and all that differs.
//!
//! The drive has been mapped before the clock starts: the model has looked at the server's root, and with that the box has
//! a connection to the server, as the model without a box has one. The lab's servers ask for no credentials, but for
//! `haul gateway --write back`: it acknowledges files ahead of the server only for users with passwords. There, the clock ends
//! when the server has the files, not when the last one is acknowledged.
//!
//! nginx passes the client's `Host` on. A `Destination` would name the proxy too, and servers compare it with `Host`; without
//! that, MOVE and COPY fail through a plain proxy (nginx cannot rewrite `Destination` without a regular expression in its
//! configuration). The redirector's requests here have no `Destination`. nginx does not verify the server's certificate, its
//! default; `haul gateway` does.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path, thread, time::Duration};

use super::{
    Contender, Failure, Pc, Prepared, Registered, SampleSetup, finder, haul, io_failure,
    windows_redirector::{self, Mapping, TLS},
};
use crate::{
    certs::Certificates,
    deadline::Deadline,
    host_task::HostTask,
    http_client::Endpoint,
    process::{Daemon, Program, command},
    servers::{Http, NGINX as NGINX_PROGRAM, Running, Server, Setup, reverse_proxy},
    spawn::Spawn,
    work::{Done, Task, Work},
};

/// The end of what `haul gateway` prints when it listens.
const GREETING: &str = "Stop with Ctrl-C.";

pub(super) const GATEWAY: Registered = Registered {
    name: "redirector-gateway",
    parameters: &[],
    make: |_| Box::new(ThroughMiddleBox { model: Model::Redirector, program: BoxProgram::HaulGateway }),
};
pub(super) const GATEWAY_BACK: Registered = Registered {
    name: "redirector-gateway-back",
    parameters: &[],
    make: |_| Box::new(ThroughMiddleBox { model: Model::Redirector, program: BoxProgram::HaulGatewayBack }),
};
pub(super) const NGINX: Registered = Registered {
    name: "redirector-nginx",
    parameters: &[],
    make: |_| Box::new(ThroughMiddleBox { model: Model::Redirector, program: BoxProgram::Nginx }),
};
pub(super) const FINDER: Registered = Registered {
    name: "finder-gateway",
    parameters: &[],
    make: |_| Box::new(ThroughMiddleBox { model: Model::Finder, program: BoxProgram::HaulGateway }),
};

/// The client whose requests are sent.
#[derive(Clone, Copy)]
enum Model {
    Redirector,
    Finder,
}

/// The program on the middle box.
#[derive(Clone, Copy)]
enum BoxProgram {
    HaulGateway,
    /// Which acknowledges files from its journal.
    HaulGatewayBack,
    Nginx,
}

/// Maps the drive, from a host, before a deadline, for the work in the endpoint's folder.
type Prepare = fn(&dyn Spawn, &Deadline, Endpoint, &Task, Mapping) -> Result<HostTask<Done>, Failure>;

struct ThroughMiddleBox {
    model: Model,
    program: BoxProgram,
}

impl Contender for ThroughMiddleBox {
    fn name(&self) -> String {
        match (self.model, self.program) {
            (Model::Redirector, BoxProgram::HaulGateway) => GATEWAY.name,
            (Model::Redirector, BoxProgram::HaulGatewayBack) => GATEWAY_BACK.name,
            (Model::Redirector, BoxProgram::Nginx) => NGINX.name,
            (Model::Finder, _) => FINDER.name,
        }
        .to_owned()
    }

    fn describe(&self) -> &'static str {
        match (self.model, self.program) {
            (Model::Finder, _) => {
                "model of macOS' Finder over HTTP/1.1, through haul gateway on a middle box on its LAN"
            }
            (Model::Redirector, BoxProgram::HaulGateway) => {
                "model of the Windows redirector over HTTP/1.1, through haul gateway on a middle box on its LAN"
            }
            (Model::Redirector, BoxProgram::HaulGatewayBack) => {
                "model of the Windows redirector over HTTP/1.1, through haul gateway --write back on a middle box on its LAN"
            }
            (Model::Redirector, BoxProgram::Nginx) => {
                "model of the Windows redirector over HTTP/1.1, through nginx as a plain proxy on a middle box on its LAN"
            }
        }
    }

    fn model(&self) -> bool {
        true
    }

    fn requests_of(&self) -> Option<&'static str> {
        Some(match self.model {
            Model::Redirector => windows_redirector::HTTP1.name,
            Model::Finder => finder::REGISTERED.name,
        })
    }

    fn signs_in(&self) -> bool {
        matches!(self.program, BoxProgram::HaulGatewayBack)
    }

    fn needs_pc(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [Program] {
        match self.program {
            BoxProgram::HaulGateway | BoxProgram::HaulGatewayBack => &[],
            BoxProgram::Nginx => &[NGINX_PROGRAM],
        }
    }

    /// The gateway may choose HTTP/2.
    fn http(&self, tls: bool) -> Http {
        match self.program {
            BoxProgram::HaulGateway | BoxProgram::HaulGatewayBack if tls => Http::Two,
            _ => Http::One,
        }
    }

    fn unable(&self, work: &Work, server: &dyn Server, tls: bool) -> Option<String> {
        let lacks_program = || match self.program {
            BoxProgram::Nginx => None,
            _ if !tls => Some("haul gateway serves a LAN only with TLS".to_owned()),
            _ => haul::program().err(),
        };
        let cannot_ask = self.signs_in() && !server.asks();
        let cannot_ask =
            cannot_ask.then(|| format!("it needs a server that asks for a password, and {} does not", server.name()));
        let lacks = match self.model {
            Model::Redirector => windows_redirector::unable(work, server),
            Model::Finder => finder::unable(work, server),
        };
        lacks.or(cannot_ask).or_else(lacks_program)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let own = match self.program {
            BoxProgram::HaulGateway => [("options", "none"), ("to the server", "any version of HTTP")],
            BoxProgram::HaulGatewayBack => [("options", "--write back"), ("to the server", "any version of HTTP")],
            BoxProgram::Nginx => [("proxy_ssl_verify", "off (default)"), ("to the server", "HTTP/1.1, keepalive 16")],
        };
        let tls = match self.model {
            Model::Redirector => "1.2 to the middle box",
            Model::Finder => "1.3 to the middle box",
        };
        let model = [("TLS", tls), ("connections", "1, open before the clock")];
        model.into_iter().chain(own).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let pc = sample.pc.ok_or(Failure::NoPc("A gateway"))?;
        let running = self.program.start(sample, &pc)?;
        let scheme = if sample.certificates.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/{}/", pc.share, sample.task.folder);
        let (versions, prepare) = match self.model {
            Model::Redirector => (TLS, windows_redirector::prepare as Prepare),
            Model::Finder => (rustls::DEFAULT_VERSIONS, finder::prepare as Prepare),
        };
        let endpoint = Endpoint::new(&url, sample.certificates, versions, Http::One)?;
        let mapping = if self.signs_in() { Mapping::SignsIn } else { Mapping::LooksAtRoot };
        let model = prepare(pc.host, &sample.deadline, endpoint, sample.task, mapping)?;
        let writes_behind = self.signs_in() && sample.task.work().writes();
        Ok(Box::new(Through { model, writes_behind, _middle_box: running }))
    }
}

/// The model, and the program that it goes through; fields are dropped in order.
struct Through {
    model: HostTask<Done>,
    /// Whether files are acknowledged before the server has them.
    writes_behind: bool,
    _middle_box: MiddleBox,
}

impl Prepared for Through {
    fn run(&mut self) -> Result<Done, Failure> {
        Ok(Done { writes_behind: self.writes_behind, ..self.model.run()? })
    }
}

/// A running program on the middle box; dropping it stops it.
#[expect(dead_code, reason = "only kept until the sample has ended")]
enum MiddleBox {
    HaulGateway(Daemon),
    Nginx(Running),
}

impl BoxProgram {
    fn start(self, sample: &SampleSetup, pc: &Pc) -> Result<MiddleBox, Failure> {
        let scratch = sample.scratch.join("middle-box");
        fs::create_dir_all(&scratch).map_err(io_failure("create", &scratch))?;
        match self {
            Self::HaulGateway => gateway(sample, pc.share, &scratch, false).map(MiddleBox::HaulGateway),
            Self::HaulGatewayBack => gateway(sample, pc.share, &scratch, true).map(MiddleBox::HaulGateway),
            Self::Nginx => {
                let setup = Setup {
                    host: sample.client,
                    address: pc.share,
                    certificates: sample.certificates,
                    http: Http::One,
                    asks: false,
                    quirks: serve::Quirks::default(),
                    page: None,
                    scratch: &scratch,
                    deadline: sample.deadline.clone(),
                };
                Ok(MiddleBox::Nginx(reverse_proxy(&setup, sample.address)?))
            }
        }
    }
}

/// Starts `haul gateway`, and waits until it listens.
pub(super) fn gateway(
    sample: &SampleSetup,
    listen: SocketAddr,
    scratch: &Path,
    writes_back: bool,
) -> Result<Daemon, Failure> {
    let program = haul::program().map_err(Failure::Engine)?;
    let mut command = command(&program, scratch);
    command.args(["gateway", "--upstream", sample.server(), "--listen"]).arg(listen.to_string());
    if let Some(certificates) = sample.certificates {
        command.arg("--ca").arg(&certificates.ca_file);
        command.arg("--tls").arg(tls_files(certificates, scratch)?);
    }
    if writes_back {
        command.args(["--write", "back", "--state"]).arg(scratch.join("state"));
    }
    let log = scratch.join("gateway.log");
    let mut daemon = Daemon::start(sample.client, &mut command, &log)?;
    // Not by connecting: another program might answer.
    while !fs::read_to_string(&log).unwrap_or_default().contains(GREETING) {
        daemon.check()?;
        let waited = sample.deadline.check();
        waited.map_err(|stop| Failure::Stopped { what: "starting haul gateway".to_owned(), stop })?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(daemon)
}

/// Writes the run's certificate and key, and names both files as the option `--tls` wants them.
fn tls_files(certificates: &Certificates, scratch: &Path) -> Result<String, Failure> {
    let files = [("gateway.pem", &certificates.server_pem), ("gateway.key", &certificates.key_pem)];
    let mut names = Vec::new();
    for (name, content) in files {
        let path = scratch.join(name);
        fs::write(&path, content).map_err(io_failure("write", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(io_failure("protect", &path))?;
        names.push(path.display().to_string());
    }
    Ok(names.join(","))
}
