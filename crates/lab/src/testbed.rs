//! The testbed of one sample: hosts, the cables between them, and a tap.
//!
//! Every sample has a new testbed, so that no connection, cached metric or half-closed socket of one contender
//! influences the next.
//!
//! ```text
//! pc ── LAN ── client ── the network under test ── server
//!               ╰ tap
//! ```
//!
//! The PC exists only for contenders that reach the server through a middle box, which is then the client host.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use capture::{Source, Summary, pcapng};
use link::{
    cable::{Cable, CableError, Options},
    host::{Host, HostError},
    lateness::Lateness,
    sandbox::{self, Sandbox},
    spec::{LinkSpec, RateSpec, SpecError},
    tap::{Tap, TapError},
    topology,
};
use units::{Rate, Span};

use nix::mount::{MsFlags, mount};

use crate::{experiment::Network, host_programs, known_link::link_rates_at, link_round_trips, machine, spawn::Spawn};

/// The port of the server under test.
const SERVER_PORT: u16 = 8443;

/// The port at which a middle box serves: SMB's own, at which HTTP does as well.
const SHARE_PORT: u16 = 445;

/// How long a program that is left after a sample may take to end.
const LEFT_OVER: Duration = Duration::from_secs(1);

/// Captured bytes of each packet: enough for all headers with options, and the TLS record header.
const SNAPLEN: u32 = 256;

/// The congestion control of every host, if the kernel allows it in a network namespace: Linux's default, which most
/// machines use.
pub const CONGESTION_CONTROL: &str = "cubic";

/// Why a testbed cannot be created, or its capture not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// A host could not be created or configured.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A cable could not be created or removed.
    #[error(transparent)]
    Cable(#[from] CableError),
    /// The network's description makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The capture failed.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] capture::Error),
}

/// Hosts and cables.
pub struct Testbed {
    /// The client's host.
    pub client: Host,
    /// The server's host.
    pub server: Host,
    /// A desktop computer behind the client's host.
    pub pc: Option<Host>,
    cable: Cable,
    lan: Option<Cable>,
    tap: Arc<Tap>,
    capture: PathBuf,
}

impl Testbed {
    /// Creates a testbed whose cable emulates `network`, with a tap at the client's end.
    pub fn create(network: &Network, with_pc: bool, capture: &Path) -> Result<Self, TestbedError> {
        let (client, server) = (Host::new("client")?, Host::new("server")?);
        let rates = link_rates_at(0, &network.link);
        let tap = Arc::new(Tap::on_link(capture, "client", Some(SNAPLEN), rates)?);
        let mtu = network.link.device_mtu();
        let options = Options { mtu, taps: [Some(tap.clone()), None], ..Options::default() };
        let cable = Cable::connect(&client, &server, network.link.lanes()?, &options)?;
        let (pc, lan) = if with_pc {
            let pc = Host::new("pc")?;
            let lan = Cable::connect(&pc, &client, lan().lanes()?, &Options { number: 1, ..Options::default() })?;
            (Some(pc), Some(lan))
        } else {
            (None, None)
        };
        for host in [Some(&client), Some(&server), pc.as_ref()].into_iter().flatten() {
            // The kernel may not offer it; the run records the one in use.
            let _ = host.sysctl(machine::CONGESTION_CONTROL, CONGESTION_CONTROL);
        }
        // The side that closes first keeps the port for a minute (RFC 9293 section 3.6.1), so a client with thousands of
        // connections would search long for a free one. RFC 6191 allows reuse of the port, based on timestamps.
        let _ = client.sysctl("net.ipv4.tcp_tw_reuse", "1");
        network.server.apply(&server)?;
        Ok(Self { client, server, pc, cable, lan, tap, capture: capture.to_owned() })
    }

    /// The address of the server.
    pub fn server_address(&self) -> SocketAddr {
        (self.cable.addresses()[1].v4, SERVER_PORT).into()
    }

    /// The address of the middle box's share, for the PC.
    pub fn share_address(&self) -> Option<SocketAddr> {
        self.lan.as_ref().map(|lan| (lan.addresses()[1].v4, SHARE_PORT).into())
    }

    /// Ends the programs that a contender or server has left on the hosts.
    pub(crate) fn end_programs(&self) {
        for host in [Some(&self.client), Some(&self.server), self.pc.as_ref()].into_iter().flatten() {
            host_programs::end(host, LEFT_OVER);
        }
    }

    /// Whether all cables still carry packets.
    pub fn check(&self) -> Result<(), TestbedError> {
        self.cable.check()?;
        Ok(self.lan.as_ref().map_or(Ok(()), Cable::check)?)
    }

    /// How late packets have left the cables so far, towards the server and back.
    pub(crate) fn lateness(&self) -> Result<[Lateness; 2], CableError> {
        let mut both = self.cable.lateness()?;
        if let Some(lan) = &self.lan {
            for (direction, of_lan) in both.iter_mut().zip(lan.lateness()?) {
                direction.merge(&of_lan);
            }
        }
        Ok(both)
    }

    /// Tears everything down and returns the captured traffic.
    pub fn end(self) -> Result<Captured, TestbedError> {
        let mut traffic = self.cable.disconnect()?.to_vec();
        if let Some(lan) = self.lan {
            traffic.extend(lan.disconnect()?);
        }
        // No experiment asks for this loss: the emulator is slower than calibrated.
        let drops: u64 = traffic.iter().map(|direction| direction.device_drops).sum();
        if drops > 0 {
            tracing::warn!("the emulator was too slow: {drops} packets were dropped before they reached a cable");
        }
        if let Some(tap) = Arc::into_inner(self.tap) {
            tap.finish()?;
        }
        let all = Summary::of(&mut pcapng::Reader::open(&self.capture)?)?;
        Ok(Captured { all, capture: self.capture })
    }
}

/// The traffic of a testbed.
pub struct Captured {
    /// All of it.
    pub all: Summary,
    capture: PathBuf,
}

impl Captured {
    /// The part from a time on, given since 1970-01-01 00:00 UTC.
    pub fn since(&self, time: Duration) -> Result<Summary, TestbedError> {
        let (mut summary, mut packets) = (Summary::default(), pcapng::Reader::open(&self.capture)?);
        while let Some(packet) = packets.next()? {
            if packet.time >= time {
                summary.add(&packet);
            }
        }
        Ok(summary)
    }

    /// Round trips on the link that follow one another, from a time on, given since 1970-01-01 00:00 UTC; none without delay.
    pub fn round_trips(&self, began: Duration, took: Duration, rtt: Duration) -> Result<Option<u64>, TestbedError> {
        Ok(link_round_trips::count(&mut pcapng::Reader::open(&self.capture)?, began, took, rtt)?)
    }
}

/// The folder on which runs of root mount a tmpfs of their own.
pub const RUN: &str = "/run";

/// Prepares the sandbox's mount namespace for daemons, and returns the folder for the files of samples.
///
/// No host reaches the machine's resolver, and a daemon that looks up a name, as smbd does for each client, would wait for its
/// timeouts: other names fail at once, and the machine's own resolves.
///
/// Root gets a [`RUN`] for this sandbox alone. davfs2 keeps its PID files there. The samples' folder is there too:
/// servers started by root drop their privileges, and then may not reach a folder below root's `TMPDIR`.
pub fn furnish(sandbox: &Sandbox) -> io::Result<PathBuf> {
    // A machine without these files has no resolver to wait for.
    let _ = topology::install_names(sandbox, &[]).and_then(|()| topology::hide_resolvers(sandbox));
    if !sandbox::is_root() {
        return Ok(sandbox.scratch().to_owned());
    }
    mount(Some("haul"), RUN, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=0755"))?;
    let scratch = Path::new(RUN).join("haul");
    fs::create_dir(&scratch)?;
    Ok(scratch)
}

/// The LAN between a desktop computer and a middle box.
fn lan() -> LinkSpec {
    let rate = Rate::bits_per_second(1_000_000_000);
    LinkSpec {
        rtt: Span(Duration::from_micros(500)).into(),
        rate: Some(RateSpec { up: rate, down: rate }),
        ..LinkSpec::default()
    }
}

impl Spawn for Host {
    fn prepare(&self, command: &mut Command) {
        Host::attach(self, command);
    }

    fn thread(&self, name: &str, f: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        Host::thread(self, name, f)
    }

    fn end_programs(&self, grace: Duration) {
        host_programs::end(self, grace);
    }
}
