//! Hosts joined by links, with a command on one of them: from the set-up to the summary.

use std::{
    any::Any,
    error::Error,
    ffi::OsString,
    fs, io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, mpsc},
    thread,
};

use capture::LinkRates;
use lab::known_link::link_rates_at;
use link::{
    addresses::{self, Addresses},
    cable::Traffic,
    host::Host,
    lanes::Lanes,
    lateness::Lateness,
    outside::Outside,
    sandbox::Sandbox,
    spec::LinkSpec,
    tap::Tap,
    topology::{self, CablePlan, HostPlan, Network, Topology},
};
use units::Span;

use super::{
    changes::{self, Coming, Timetable},
    compare::{Compare, NO_METRICS},
    control::Socket,
    server::Server,
    sysctl::Sysctl,
};

/// Exit statuses for a command that cannot be run, as in a shell (POSIX, Shell Command Language, 2.8.2).
pub(super) const NOT_FOUND: i32 = 127;
pub(super) const NOT_EXECUTABLE: i32 = 126;

/// The options of the hosts and their captures.
#[derive(clap::Args)]
pub(crate) struct HostOptions {
    /// Capture the packets at both ends of each cable, into HOST.pcapng in this folder (HOST.CABLE.pcapng for routers)
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,

    /// Maximum number of bytes captured per packet [default: all]
    #[arg(long, value_name = "BYTES", requires = "capture", value_parser = clap::value_parser!(u32).range(1..))]
    snaplen: Option<u32>,

    /// Let the hosts also reach this machine's network, through the far end of the link (needs the package passt)
    #[arg(long)]
    outside: bool,

    /// Set a sysctl on all hosts, such as net.ipv4.tcp_fastopen=3; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    sysctl: Vec<Sysctl>,

    /// Create a socket through which `haul link set` changes the running link
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Print no messages about the link
    #[arg(long, short)]
    quiet: bool,

    /// Also say how packets cross the link
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

impl HostOptions {
    /// Whether none is given.
    pub(crate) fn is_default(&self) -> bool {
        let Self { capture, snaplen: _, outside, sysctl, control, quiet, verbose } = self;
        capture.is_none() && !outside && sysctl.is_empty() && control.is_none() && !quiet && !verbose
    }

    /// Whether no messages about the link are printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// A network to build, and the command to run on it.
pub(crate) struct Session<'a> {
    pub(crate) options: &'a HostOptions,
    pub(crate) topology: Topology,
    /// The stages of each cable.
    pub(crate) lanes: Vec<Lanes>,
    pub(crate) timetable: Timetable,
    /// Whether messages name the cables.
    pub(crate) has_cable_names: bool,
    pub(crate) task: Task<'a>,
}

/// What runs on the default host.
pub(crate) enum Task<'a> {
    /// A command.
    Command(&'a [OsString]),
    /// Commands in turn, with their times.
    Compare(Compare<'a>),
}

/// A server of our own, running on a host of the network until it is dropped.
#[derive(Default)]
pub(crate) struct Served {
    /// Additional names that resolve.
    pub(crate) names: Vec<(String, Addresses)>,
    /// Environment variables for the command.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// What runs.
    pub(crate) running: Option<Box<dyn Any>>,
}

/// Runs the session in a sandbox. `serve` starts a server of our own on the connected network. Returns the command's exit
/// status.
pub(crate) fn run(
    session: Session<'_>,
    sandbox: &Sandbox,
    serve: impl FnOnce(&Network) -> Result<Served, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let status = session.run_in(sandbox, serve).or_else(|error| match error.downcast_ref() {
        Some(Interrupted(signal)) => Ok(128 + signal),
        None => Err(error),
    })?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

/// A signal that ended the set-up.
#[derive(Debug)]
struct Interrupted(i32);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "interrupted by signal {}", self.0)
    }
}

impl Error for Interrupted {}

/// Fails after a termination signal. A large topology takes a while to set up.
fn continues(sandbox: &Sandbox) -> Result<(), Box<dyn Error>> {
    sandbox.termination_signal().map_or(Ok(()), |signal| Err(Interrupted(signal).into()))
}

impl Session<'_> {
    /// Connects the hosts, runs all commands, and disconnects them; returns the command's exit status.
    fn run_in(
        mut self,
        sandbox: &Sandbox,
        serve: impl FnOnce(&Network) -> Result<Served, Box<dyn Error>>,
    ) -> Result<i32, Box<dyn Error>> {
        let options = self.options;
        let (topology, lanes) = (self.topology.clone(), std::mem::take(&mut self.lanes));
        let socket = options.control.as_deref().map(Socket::bind).transpose()?;
        let mut hosts = Vec::new();
        for host in &topology.hosts {
            continues(sandbox)?;
            hosts.push(Host::new(&host.name)?);
        }
        for host in &hosts {
            if let Task::Compare(_) = self.task {
                let (name, value) = NO_METRICS;
                host.sysctl(name, value)?;
            }
            for sysctl in &options.sysctl {
                sysctl.set(host)?;
            }
        }
        let outside = self.outside(&hosts)?;
        let mut taps = Vec::new();
        let count = topology.cables.len() as u16;
        let first_number = match &outside {
            Some(outside) => outside.first_free(count),
            None => addresses::first_free(count),
        };
        let first_number = first_number.ok_or_else(|| {
            format!("no addresses are left in 100.64.0.0/10 for {count} cables; end a `haul link` around this one")
        })?;
        let has_fixed_path = outside.is_none() && self.has_fixed_link();
        let tap = |host: usize, cable: usize| -> Result<_, Box<dyn Error>> {
            let Some(folder) = &options.capture else { return Ok(None) };
            let CablePlan { ends, spec, .. } = &self.topology.cables[cable];
            let rates = if has_fixed_path { link_rates_at(usize::from(host == ends[1]), spec) } else { None };
            let tap = self::tap(folder, &tap_name(&self.topology, host, cable), options.snaplen, rates)?;
            taps.push(tap.clone());
            Ok(Some(tap))
        };
        let network = Network::connect(topology, hosts, lanes, first_number, tap, || continues(sandbox))?;
        if outside.is_some() {
            network.route_outside()?;
        }
        let is_nested = outside.as_ref().is_some_and(Outside::is_outer_link);
        if !options.quiet {
            self.describe(&network);
            if is_nested {
                crate::say("the outer link follows in series: other hosts are reached over both");
            }
        }
        let commands = || self.run_commands(sandbox, &network, outside.as_ref(), serve);
        let mut status = with_changes(&self.timetable, socket.as_ref(), &network, commands)?;
        drop(socket);
        let traffic = network.disconnect()?;
        // Afterwards: packets without a way out would become errors on the cables.
        drop(outside);
        for tap in taps.into_iter().filter_map(Arc::into_inner) {
            if let Err(error) = tap.finish() {
                crate::say(error);
                status = status.max(1); // keeps the command's own failure
            }
        }
        if !options.quiet {
            for (cable, traffic) in self.topology.cables.iter().zip(&traffic) {
                print_summary(&self.prefix(&cable.name), traffic);
            }
        }
        Ok(status)
    }

    /// Whether there is one link, and nobody changes it: then its rates are those of the path.
    fn has_fixed_link(&self) -> bool {
        self.topology.cables.len() == 1 && self.timetable.is_empty() && self.options.control.is_none()
    }

    /// Opens what is beyond the gateway: the link around this one, or the machine's network if wanted. The gateway's first
    /// device gets its default route, so this comes before the cables.
    fn outside(&self, hosts: &[Host]) -> Result<Option<Outside>, Box<dyn Error>> {
        let (gateway, client) = (&hosts[self.topology.gateway], &hosts[self.topology.default]);
        match Outside::join_outer_link(gateway, client)? {
            None if self.options.outside => Ok(Some(Outside::open(gateway, client)?)),
            outer => Ok(outer),
        }
    }

    /// Runs the commands of all hosts; returns the exit status of the default host's. A link in a link without a server of its
    /// own keeps the outer link's: the name `server` still means that one.
    fn run_commands(
        &self,
        sandbox: &Sandbox,
        network: &Network,
        outside: Option<&Outside>,
        serve: impl FnOnce(&Network) -> Result<Served, Box<dyn Error>>,
    ) -> Result<i32, Box<dyn Error>> {
        let topology = network.topology();
        let (has_outside, is_nested) = (outside.is_some(), outside.is_some_and(Outside::is_outer_link));
        let address = |(index, host): (usize, &HostPlan)| Some((host.name.clone(), network.address(index)?));
        let served = serve(network)?;
        let is_way_out = |index: usize| {
            let is_serving = topology.hosts[index].command.is_some() || served.running.is_some();
            is_nested && !self.has_cable_names && index == topology.gateway && !is_serving
        };
        let names = topology.hosts.iter().enumerate().filter(|(index, _)| !is_way_out(*index));
        let names: Vec<_> = names.filter_map(address).collect();
        let all_names = [served.names, names.clone()].concat();
        if let Err(error) = topology::install_names(sandbox, &all_names)
            && !self.options.quiet
        {
            crate::say(format_args!("the names of the hosts do not resolve: cannot change /etc/hosts: {error}"));
        }
        if !has_outside {
            // Without the file, other names only fail later, after time-outs.
            let _ = topology::hide_resolvers(sandbox);
        }
        let equip = |command: &mut Command| {
            for (name, addresses) in &names {
                let name = name.to_uppercase().replace('-', "_");
                command.env(format!("HAUL_{name}_IP"), addresses.v4.to_string());
                command.env(format!("HAUL_{name}_IP6"), addresses.v6.to_string());
            }
            command.envs(served.environment.iter().map(|(name, value)| (name, value)));
        };
        let mut servers = Vec::new();
        for (plan, host) in topology.hosts.iter().zip(network.hosts()) {
            if let Some(command) = &plan.command {
                servers.push((Server::start(command, host, equip)?, plan.listens));
            }
        }
        for (server, _) in servers.iter_mut().filter(|(_, listens)| *listens) {
            server.wait_until_it_listens(sandbox)?;
        }
        continues(sandbox)?;
        let host = &network.hosts()[topology.default];
        let status = match &self.task {
            Task::Command(command) => run_command(command, host, sandbox, equip)?,
            Task::Compare(compare) => compare.run(host, sandbox, equip)?,
        };
        // All at once; each is then waited for.
        for (server, _) in &servers {
            server.terminate();
        }
        drop(served.running);
        Ok(status)
    }

    /// The name of a cable in front of a message, if there may be several.
    fn prefix(&self, cable: &str) -> String {
        if self.has_cable_names { format!("{cable}: ") } else { String::new() }
    }

    fn describe(&self, network: &Network) {
        let plans = &network.topology().cables;
        for (plan, cable) in plans.iter().zip(network.cables()) {
            let [a, b] = plan.ends.map(|end| network.topology().hosts[end].name.as_str());
            let [at_a, at_b] = cable.addresses().map(|addresses| addresses.v4);
            // "a cable without delay", but "a link of 18ms RTT".
            let prefix = self.prefix(&plan.name);
            let kind = match self.has_cable_names {
                true => "",
                false if plan.spec == LinkSpec::default() => "a ",
                false => "a link of ",
            };
            crate::say(format_args!("{prefix}{kind}{}; {a} {at_a}, {b} {at_b}", plan.spec));
            if self.options.verbose && cable.passes_segments_unsplit().contains(&true) {
                let direction = match cable.passes_segments_unsplit() {
                    [true, true] => String::new(),
                    [true, false] => format!(" from the {a} to the {b}"),
                    _ => format!(" from the {b} to the {a}"),
                };
                crate::say(format_args!(
                    "{prefix}TCP segments of up to 64 KiB pass unsplit{direction}, since no stage needs single packets"
                ));
            }
        }
        for Coming { at, cable, spec, .. } in &self.timetable {
            let prefix = self.prefix(&plans[*cable].name);
            crate::say(format_args!("after {}: {prefix}{spec}", Span(*at)));
        }
    }
}

/// Runs a command on a host; returns its exit status.
fn run_command(
    command: &[OsString],
    host: &Host,
    sandbox: &Sandbox,
    equip: impl Fn(&mut Command),
) -> Result<i32, Box<dyn Error>> {
    let [program, arguments @ ..] = command else { return Err("no command".into()) };
    let mut command = Command::new(program);
    command.args(arguments);
    equip(&mut command);
    host.attach(&mut command);
    match command.spawn() {
        Ok(child) => Ok(sandbox.wait_for(&child)),
        Err(error) => {
            crate::say(format_args!("cannot run {}: {error}", program.display()));
            Ok(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
        }
    }
}

/// Calls `f` while the timetable and the control socket may change the network.
fn with_changes<T>(timetable: &Timetable, socket: Option<&Socket>, network: &Network, f: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (running, over) = mpsc::channel::<()>();
        scope.spawn(move || changes::follow(timetable, network, &over));
        // Without file descriptors for the pair, nobody could connect to the socket either.
        let open = socket.and_then(|socket| Some((socket, UnixStream::pair().ok()?)));
        let open = open.map(|(socket, (ours, theirs))| {
            scope.spawn(move || socket.serve(network, &theirs));
            ours
        });
        let result = f();
        drop((running, open));
        result
    })
}

/// The name of the capture at one end of a cable: the host's, with that of the cable if the host has several.
fn tap_name(topology: &Topology, host: usize, cable: usize) -> String {
    let name = &topology.hosts[host].name;
    let has_several = topology.cables_of(host).nth(1).is_some();
    if has_several { format!("{name}.{}", topology.cables[cable].name) } else { name.clone() }
}

fn tap(folder: &Path, name: &str, snaplen: Option<u32>, rates: Option<LinkRates>) -> Result<Arc<Tap>, Box<dyn Error>> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))?;
    Ok(Arc::new(Tap::on_link(&folder.join(format!("{name}.pcapng")), name, snaplen, rates)?))
}

fn print_summary(prefix: &str, [up, down]: &[Traffic; 2]) {
    if up.packets_out + down.packets_out == 0 {
        let what = if prefix.is_empty() { "link" } else { "cable" };
        crate::say(format_args!("{prefix}no packet crossed the {what}"));
        return;
    }
    let mut late = Lateness::default();
    late.merge(&up.lateness);
    late.merge(&down.lateness);
    crate::say(format_args!(
        "{prefix}{} packets up, {} down; sent {} µs late at the median, {} µs at the 99th percentile",
        up.packets_out,
        down.packets_out,
        late.quantile(0.5).as_micros(),
        late.quantile(0.99).as_micros(),
    ));
    let drops = up.device_drops + down.device_drops;
    if drops > 0 {
        crate::say(format_args!(
            "{prefix}the emulator was too slow: {drops} packets were dropped before they reached the link"
        ));
    }
}
