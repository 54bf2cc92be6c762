//! Two hosts, connected by a plain veth pair, our cable, or Rattan.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    net::Ipv4Addr,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use link::{
    cable::{Cable, Options, Traffic},
    host::Host,
    spec::{LinkSpec, LossModel, LossSpec},
    tap::Tap,
};
use nix::sched::{CloneFlags, setns};

use crate::{Result, report::Bar};

/// The MTU of Ethernet, and of every rig.
pub(crate) const MTU: u16 = 1500;

/// What a TCP connection may keep in flight and in its buffers.
const BUFFERS: &str = "4096 131072 134217728";

/// The connection of the hosts.
#[derive(Debug, Clone)]
pub(crate) enum Rig {
    /// A veth pair: no delay, no rate limit, no loss.
    Veth,
    /// Ours.
    Cable {
        /// Its stages.
        spec: LinkSpec,
        /// The folder for captures of both ends, if wanted.
        tapped: Option<PathBuf>,
    },
    /// Rattan, with the same parameters as far as it has them.
    Rattan(LinkSpec),
}

/// A network namespace that threads may enter.
pub(crate) struct Place(File);

impl Place {
    fn of(host: &Host) -> Result<Self> {
        Ok(Self(host.run(|| File::open("/proc/thread-self/ns/net"))??))
    }

    /// Runs `f` on a thread there.
    pub(crate) fn thread<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<std::thread::JoinHandle<io::Result<T>>> {
        let namespace = self.0.try_clone()?;
        Ok(std::thread::Builder::new().spawn(move || {
            setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET)?;
            f()
        })?)
    }

    /// Runs `f` there and waits for it.
    pub(crate) fn run<T: Send + 'static>(&self, f: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
        Ok(self.thread(f)?.join().map_err(|_| "a thread panicked")??)
    }

    /// Allows large TCP buffers, and ping for everybody.
    fn equip(&self) -> Result<()> {
        self.run(|| {
            fs::write("/proc/sys/net/ipv4/tcp_rmem", BUFFERS)?;
            fs::write("/proc/sys/net/ipv4/tcp_wmem", BUFFERS)?;
            let gid = nix::unistd::getegid();
            fs::write("/proc/sys/net/ipv4/ping_group_range", format!("{gid} {gid}"))
        })
    }

    /// A path of the namespace for other processes, valid while this process lives.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// A running rig. Dropping it removes everything.
pub(crate) struct Joined {
    /// The sender of pings and flows.
    pub(crate) client: Place,
    /// Their receiver.
    pub(crate) server: Place,
    /// The server's address.
    pub(crate) address: Ipv4Addr,
    cable: Option<Cable>,
    taps: [Option<Arc<Tap>>; 2],
    _rattan: Option<Rattan>,
    _hosts: [Host; 2],
}

impl Joined {
    /// Disconnects the cable, if the rig is ours, and returns its counters.
    pub(crate) fn disconnect(self) -> Result<Option<[Traffic; 2]>> {
        let traffic = self.cable.map(Cable::disconnect).transpose()?;
        for tap in self.taps.into_iter().flatten() {
            if let Err(error) = Arc::into_inner(tap).ok_or("a relay still holds its tap")?.finish() {
                eprintln!("{error}"); // a busy machine may fall behind; the cable continues
            }
        }
        Ok(traffic)
    }
}

impl Rig {
    /// The bars, if the rig is one of ours.
    pub(crate) fn bars<const N: usize>(&self, bars: [Bar; N]) -> Vec<Bar> {
        if matches!(self, Self::Cable { .. }) { bars.into() } else { Vec::new() }
    }

    /// Why it is not available on this machine, if so.
    pub(crate) fn missing(&self) -> Option<String> {
        let starts = |program: &str, flag: &str| {
            let command = Command::new(program).arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
            command.is_ok_and(|status| status.success())
        };
        match self {
            Self::Veth if !starts("ip", "-V") => {
                Some("plain veth: there is no `ip` (sudo apt-get install iproute2)".into())
            }
            Self::Rattan(_) if !starts("rattan", "--version") => {
                Some("Rattan: it is not on the PATH (cargo install rattan)".into())
            }
            Self::Rattan(_) if !link::sandbox::is_root() => Some("Rattan: it needs root".into()),
            _ => None,
        }
    }

    /// Sets it up.
    pub(crate) fn join(&self) -> Result<Joined> {
        let hosts = [Host::new("client")?, Host::new("server")?];
        let joined = match self {
            Self::Veth => veth(hosts)?,
            Self::Cable { spec, tapped } => cable(hosts, spec, tapped.as_deref())?,
            Self::Rattan(spec) => rattan(hosts, spec)?,
        };
        joined.client.equip()?;
        joined.server.equip()?;
        Ok(joined)
    }
}

fn cable(hosts: [Host; 2], spec: &LinkSpec, folder: Option<&Path>) -> Result<Joined> {
    let tap = |end: &str| -> Result<Option<Arc<Tap>>> {
        let tap = folder.map(|folder| Tap::create(&folder.join(end), end, None)).transpose()?;
        Ok(tap.map(Arc::new))
    };
    let taps = [tap("client")?, tap("server")?];
    let options = Options { taps: taps.clone(), mtu: MTU, ..Options::default() };
    let cable = Cable::connect(&hosts[0], &hosts[1], spec.lanes()?, &options)?;
    drop(options);
    Ok(Joined {
        client: Place::of(&hosts[0])?,
        server: Place::of(&hosts[1])?,
        address: cable.addresses()[1].v4,
        cable: Some(cable),
        taps,
        _rattan: None,
        _hosts: hosts,
    })
}

fn veth(hosts: [Host; 2]) -> Result<Joined> {
    let (client, server) = (Place::of(&hosts[0])?, Place::of(&hosts[1])?);
    let address = Ipv4Addr::new(100, 64, 0, 2);
    let mtu = MTU.to_string();
    ip(
        &hosts[0],
        &["link", "add", "eth0", "mtu", &mtu, "type", "veth", "peer", "eth0", "mtu", &mtu, "netns", &server.path()],
    )?;
    for (host, end) in hosts.iter().zip(["100.64.0.1/24", "100.64.0.2/24"]) {
        ip(host, &["address", "add", end, "dev", "eth0"])?;
        ip(host, &["link", "set", "eth0", "up"])?;
    }
    Ok(Joined { client, server, address, cable: None, taps: [None, None], _rattan: None, _hosts: hosts })
}

fn ip(host: &Host, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    host.attach(command.args(arguments));
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`ip {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()).into())
}

/// Rattan runs as long as the command inside does, which waits for the end of its input.
struct Rattan(Child);

impl Drop for Rattan {
    fn drop(&mut self) {
        self.0.stdin.take();
        let _ = self.0.wait();
    }
}

/// The server's host is the one on which Rattan is started, the client's one of Rattan's own.
fn rattan(hosts: [Host; 2], spec: &LinkSpec) -> Result<Joined> {
    let mut command = Command::new("rattan");
    command.arg("link");
    for way in ["uplink", "downlink"] {
        command.arg(format!("--{way}-delay={}us", (spec.rtt.total() / 2).as_micros()));
        if let Some(rate) = spec.rate {
            command.arg(format!("--{way}-bandwidth={}bps", rate.up.as_bits_per_second()));
        }
        if let Some(LossSpec { up: LossModel::Independent(loss), .. }) = spec.loss {
            command.arg(format!("--{way}-loss={}", loss.fraction()));
        }
    }
    command.args(["--", "sh", "-c", "echo $$ $RATTAN_BASE; read end"]);
    // Its warnings are in the same stream as the reply.
    command.env("RUST_LOG", "error");
    hosts[1].attach(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut rattan = Rattan(command.spawn()?);
    let mut line = String::new();
    BufReader::new(rattan.0.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let (pid, address) = line.trim().split_once(' ').ok_or("Rattan does not start")?;
    let client = Place(File::open(format!("/proc/{pid}/ns/net"))?);
    std::thread::sleep(Duration::from_millis(200)); // its own start-up
    Ok(Joined {
        client,
        server: Place::of(&hosts[1])?,
        address: address.parse()?,
        cable: None,
        taps: [None, None],
        _rattan: Some(rattan),
        _hosts: hosts,
    })
}
