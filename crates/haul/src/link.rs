//! `haul link`: a command at the end of an emulated link.

mod changes;
mod control;
mod server;
mod sysctl;

use std::{
    error::Error,
    ffi::OsString,
    fmt::Write as _,
    fs, io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use link::{
    addresses,
    cable::Traffic,
    calibrate::calibrate,
    host::Host,
    lanes::Lanes,
    lateness::Lateness,
    middleboxes::{self, Parameter},
    outside::Outside,
    sandbox::{self, Sandbox},
    spec::{LinkSpec, SpecError},
    tap::Tap,
    topology::{self, HostPlan, Network, Topology},
};
use units::Span;

use crate::link::{
    changes::{Coming, TimedChange, Timetable},
    control::{SetArgs, Socket},
    server::Server,
    sysctl::Sysctl,
};

/// Exit statuses for a command that cannot be run, as in a shell (POSIX, Shell Command Language, 2.8.2).
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Maximum size of a topology file in bytes.
const MAX_TOPOLOGY: u64 = 1 << 20;

/// Run a command at the end of an emulated link
///
/// The command runs on the client host, the command of --server on the server host; the link described by the options
/// connects them. With --topology, a file describes hosts and cables instead. The hosts' names resolve, and the environment
/// variables `HAUL_SERVER_IP`, `HAUL_CLIENT_IP`, `HAUL_SERVER_IP6` and `HAUL_CLIENT_IP6` contain their addresses. All output
/// of servers goes to standard error. The exit status is that of the command, as in a shell: 127 if it does not exist,
/// 128 + n if signal n killed it. Needs no root.
#[derive(clap::Args)]
#[command(
    override_usage = "haul link [OPTIONS] -- <CMD>...\n       haul link --topology <FILE> [OPTIONS] -- <CMD>...\n       \
                      haul link set <PATH> <[CABLE.]KEY=VALUE>...\n       haul link --calibrate [--json <FILE>]",
    after_long_help = middlebox_help(),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,

    /// Command for the server host, run by sh; without it, the server host only answers pings
    #[arg(long, value_name = "CMD")]
    server: Option<String>,

    /// Hosts and cables described in a TOML file, in place of a client, a server and the options of the link
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    topology: Option<PathBuf>,

    /// Capture the packets at both ends of each cable, into HOST.pcapng in this folder (HOST.CABLE.pcapng for routers)
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,

    /// Maximum number of bytes captured per packet [default: all]
    #[arg(long, value_name = "BYTES", requires = "capture", value_parser = clap::value_parser!(u32).range(1..))]
    snaplen: Option<u32>,

    /// Let the command's host also reach this machine's network (needs the package passt)
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

    /// Measure the emulator's accuracy on this machine, and run no command
    #[arg(long, conflicts_with_all = [
        "at", "server", "topology", "capture", "snaplen", "outside", "sysctl", "control", "command",
    ])]
    calibrate: bool,

    /// Write the calibration as JSON (schema longhaul.calibration/1) to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The command, after `--`
    #[arg(last = true, required_unless_present = "calibrate", value_name = "CMD")]
    command: Vec<OsString>,

    // Last but one: the options after it get its heading.
    #[command(flatten)]
    link: LinkSpec,

    /// Change the link at a time after the start, as in `--at 5s:loss=100% --at 8s:rate.up=1mbit`; with a topology,
    /// `--at 5s:CABLE.loss=100%`; repeatable
    #[arg(long, value_name = "TIME:KEY=VALUE")]
    at: Vec<TimedChange>,
}

#[derive(clap::Subcommand)]
enum Action {
    Set(SetArgs),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(Action::Set(set)) = &args.action {
        return control::set(set);
    }
    let spec = &args.link;
    if args.calibrate && *spec != LinkSpec::default() {
        return Err(crate::usage("--calibrate measures its own links; leave out the options that describe a link"));
    }
    if args.json.is_some() && !args.calibrate {
        return Err(crate::usage("--json needs --calibrate, and no command"));
    }
    let (topology, lanes) = topology(args)?;
    let timetable = changes::timetable(&topology, &args.at)?;
    let sandbox = sandbox::enter()?;
    if args.calibrate {
        sandbox.on_signal(|signal| std::process::exit(128 + signal))?;
        print_calibration(args.json.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = run_in(args, topology, lanes, &timetable, &sandbox).or_else(|error| match error.downcast_ref() {
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

/// What to build, checked, and the stages of each cable.
fn topology(args: &Args) -> Result<(Topology, Vec<Lanes>), Box<dyn Error>> {
    let Some(path) = &args.topology else {
        let lanes = lanes(&args.link, ToString::to_string)?;
        return Ok((Topology::pair(args.link.clone(), args.server.clone()), vec![lanes]));
    };
    if args.link != LinkSpec::default() {
        return Err(crate::usage(
            "--topology describes the links in its file; leave out the options that describe a link",
        ));
    }
    let name = path.display();
    let text = read_topology(path).map_err(|error| format!("cannot read the topology {name}: {error}"))?;
    let topology = Topology::parse(&text, &name.to_string()).map_err(crate::usage)?;
    let lanes = topology.cables.iter().map(|cable| {
        let message = |error: &SpecError| format!("{name}: cable `{}`: {error}", cable.name);
        lanes(&cable.spec, message)
    });
    let lanes = lanes.collect::<Result<_, _>>()?;
    Ok((topology, lanes))
}

fn read_topology(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = io::Read::read_to_string(&mut io::Read::take(fs::File::open(path)?, MAX_TOPOLOGY), &mut text)?;
    if read as u64 == MAX_TOPOLOGY { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// The stages of a cable. Contradicting options are a usage error; an unreadable file is a failure.
fn lanes(spec: &LinkSpec, message: impl Fn(&SpecError) -> String) -> Result<Lanes, Box<dyn Error>> {
    spec.lanes().map_err(|error| match error {
        SpecError::Read { .. } | SpecError::Trace { .. } | SpecError::Line { .. } => message(&error).into(),
        _ => crate::usage(message(&error)),
    })
}

/// Connects the hosts, runs all commands, and disconnects them; returns the command's exit status.
fn run_in(
    args: &Args,
    topology: Topology,
    lanes: Vec<Lanes>,
    timetable: &Timetable,
    sandbox: &Sandbox,
) -> Result<i32, Box<dyn Error>> {
    let socket = args.control.as_deref().map(Socket::bind).transpose()?;
    let mut hosts = Vec::new();
    for host in &topology.hosts {
        continues(sandbox)?;
        hosts.push(Host::new(&host.name)?);
    }
    for host in &hosts {
        for sysctl in &args.sysctl {
            sysctl.set(host)?;
        }
    }
    // The first device gets the default route, so this one must come before the cables.
    let outside = args.outside.then(|| Outside::open(&hosts[topology.default])).transpose()?;
    let mut taps = Vec::new();
    let count = topology.cables.len() as u16;
    let first_number = addresses::first_free(count).ok_or_else(|| {
        format!("no addresses are left in 100.64.0.0/10 for {count} cables; end a `haul link` around this one")
    })?;
    let plan = topology.clone();
    let tap = |host, cable| -> Result<_, Box<dyn Error>> {
        let Some(folder) = &args.capture else { return Ok(None) };
        let tap = self::tap(folder, &tap_name(&plan, host, cable), args.snaplen)?;
        taps.push(tap.clone());
        Ok(Some(tap))
    };
    let network = Network::connect(topology, hosts, lanes, first_number, tap, || continues(sandbox))?;
    if !args.quiet {
        describe(args, timetable, &network);
    }
    let mut status = with_changes(timetable, socket.as_ref(), &network, || run_commands(args, sandbox, &network))?;
    drop((outside, socket));
    let traffic = network.disconnect()?;
    for tap in taps.into_iter().filter_map(Arc::into_inner) {
        if let Err(error) = tap.finish() {
            crate::say(error);
            status = status.max(1); // keeps the command's own failure
        }
    }
    if !args.quiet {
        for (cable, traffic) in plan.cables.iter().zip(&traffic) {
            print_summary(&prefix(args, &cable.name), traffic);
        }
    }
    Ok(status)
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

/// Runs the commands of all hosts; returns the exit status of the default host's.
fn run_commands(args: &Args, sandbox: &Sandbox, network: &Network) -> Result<i32, Box<dyn Error>> {
    let topology = network.topology();
    let address = |(index, host): (usize, &HostPlan)| Some((host.name.clone(), network.address(index)?));
    let names: Vec<_> = topology.hosts.iter().enumerate().filter_map(address).collect();
    if let Err(error) = topology::install_names(sandbox, &names)
        && !args.quiet
    {
        crate::say(format_args!("the names of the hosts do not resolve: cannot change /etc/hosts: {error}"));
    }
    let equip = |command: &mut Command| {
        for (name, addresses) in &names {
            let name = name.to_uppercase().replace('-', "_");
            command.env(format!("HAUL_{name}_IP"), addresses.v4.to_string());
            command.env(format!("HAUL_{name}_IP6"), addresses.v6.to_string());
        }
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
    let [program, arguments @ ..] = args.command.as_slice() else { return Err("no command".into()) };
    let mut command = Command::new(program);
    command.args(arguments);
    equip(&mut command);
    network.hosts()[topology.default].attach(&mut command);
    match command.spawn() {
        Ok(child) => {
            let status = sandbox.wait_for(&child);
            // All at once; each is then waited for.
            for (server, _) in &servers {
                server.terminate();
            }
            Ok(status)
        }
        Err(error) => {
            crate::say(format_args!("cannot run {}: {error}", program.display()));
            Ok(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
        }
    }
}

/// The name of the capture at one end of a cable: the host's, with that of the cable if the host has several.
fn tap_name(topology: &Topology, host: usize, cable: usize) -> String {
    let name = &topology.hosts[host].name;
    let has_several = topology.cables_of(host).nth(1).is_some();
    if has_several { format!("{name}.{}", topology.cables[cable].name) } else { name.clone() }
}

fn tap(folder: &Path, name: &str, snaplen: Option<u32>) -> Result<Arc<Tap>, Box<dyn Error>> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))?;
    Ok(Arc::new(Tap::create(&folder.join(format!("{name}.pcapng")), name, snaplen)?))
}

/// The name of a cable in front of a message, if there may be several.
fn prefix(args: &Args, cable: &str) -> String {
    if args.topology.is_some() { format!("{cable}: ") } else { String::new() }
}

fn describe(args: &Args, timetable: &Timetable, network: &Network) {
    let plans = &network.topology().cables;
    for (plan, cable) in plans.iter().zip(network.cables()) {
        let [a, b] = plan.ends.map(|end| network.topology().hosts[end].name.as_str());
        let [at_a, at_b] = cable.addresses().map(|addresses| addresses.v4);
        // "a cable without delay", but "a link of 18ms RTT".
        let prefix = prefix(args, &plan.name);
        let kind = match &args.topology {
            Some(_) => "",
            None if plan.spec == LinkSpec::default() => "a ",
            None => "a link of ",
        };
        crate::say(format_args!("{prefix}{kind}{}; {a} {at_a}, {b} {at_b}", plan.spec));
        if cable.passes_segments_unsplit().contains(&true) {
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
    for Coming { at, cable, spec, .. } in timetable {
        let prefix = prefix(args, &plans[*cable].name);
        crate::say(format_args!("after {}: {prefix}{spec}", Span(*at)));
    }
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

fn print_calibration(json: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let calibration = calibrate()?;
    if let Some(path) = json {
        let mut object = serde_json::to_value(lab::results::Calibration::from(&calibration))?;
        object["schema"] = "longhaul.calibration/1".into();
        let text = serde_json::to_string_pretty(&object)? + "\n";
        if path == Path::new("-") {
            return crate::print(text.as_bytes());
        }
        output::write(path, |to| to.write_all(text.as_bytes()))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let mut text = String::from("Error of a one-way delay of 9 ms, in µs:\n");
    writeln!(text, "{:>12}  {:>6}  {:>6}  {:>6}  {:>5}", "packets/s", "p50", "p99", "max", "lost")?;
    for row in &calibration.delay {
        let us = |time: Duration| time.as_micros();
        let (p50, p99, max) = (us(row.error.quantile(0.5)), us(row.error.quantile(0.99)), us(row.error.max()));
        writeln!(text, "{:>12}  {p50:>6}  {p99:>6}  {max:>6}  {:>5}", row.packets_per_second, row.lost)?;
    }
    let error = (calibration.rate_error * 10_000.0).round() / 100.0 + 0.0; // not -0
    writeln!(text, "Error of a rate of 100 Mbit/s: {error:+.2} %")?;
    writeln!(text, "Capacity: {:.0} packets/s of 100 bytes in one direction", calibration.packets_per_second)?;
    let priority = if calibration.real_time { "real-time" } else { "normal (other programs can delay them)" };
    writeln!(text, "Priority of the relays: {priority}")?;
    crate::print(text.as_bytes())
}

/// The list of middleboxes at the end of the help.
fn middlebox_help() -> String {
    let mut text = String::from("Middleboxes; at=client or at=server selects the end of the link:\n");
    for kind in middleboxes::ALL {
        let _ = writeln!(text, "  {}\n      {}", kind.name, kind.help);
        for Parameter { name, form, help, default } in kind.parameters {
            let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            let _ = writeln!(text, "      {name}={form}  {help}{default}");
        }
    }
    text
}
