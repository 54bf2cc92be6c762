//! `haul link`: a command at the end of an emulated link.

pub(crate) mod changes;
mod compare;
mod control;
mod server;
pub(crate) mod session;
mod sysctl;

use std::{
    error::Error,
    ffi::OsString,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use link::{
    calibrate::calibrate,
    lanes::Lanes,
    middleboxes::{self, Parameter},
    sandbox,
    spec::{LinkSpec, SpecError},
    topology::Topology,
};

pub(crate) use self::session::{HostOptions, Served, Session, Task};
use self::{
    changes::TimedChange,
    compare::{Compare, CompareOptions},
    control::SetArgs,
};

/// Maximum size of a topology file in bytes.
const MAX_TOPOLOGY: u64 = 1 << 20;

/// Run a command at the end of an emulated link
///
/// The command runs on the client host, the command of --server on the server host; the link described by the options
/// connects them. With --compare, commands are timed in turn. With --topology, a file describes hosts and cables instead. The hosts' names resolve, and the environment
/// variables `HAUL_SERVER_IP`, `HAUL_CLIENT_IP`, `HAUL_SERVER_IP6` and `HAUL_CLIENT_IP6` contain their addresses. All output
/// of servers goes to standard error. The exit status is that of the command, as in a shell: 127 if it does not exist,
/// 128 + n if signal n killed it. Needs no root.
#[derive(clap::Args)]
#[command(
    override_usage = "haul link [OPTIONS] -- <CMD>...\n       haul link --compare <CMD> --compare <CMD> [OPTIONS]\n       \
                      haul link --topology <FILE> [OPTIONS] -- <CMD>...\n       haul link set <PATH> <[CABLE.]KEY=VALUE>...\n       haul link --calibrate [--json <FILE>]",
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

    #[command(flatten)]
    hosts: HostOptions,

    /// Measure the emulator's accuracy on this machine, and run no command
    #[arg(long, conflicts_with_all = [
        "at", "server", "topology", "capture", "snaplen", "outside", "sysctl", "control", "compare", "command",
    ])]
    calibrate: bool,

    /// Write the comparison (schema longhaul.link-compare/1) or the calibration (longhaul.calibration/1) as JSON to FILE;
    /// `-` is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The command, after `--`
    #[arg(last = true, required_unless_present_any = ["calibrate", "compare"], value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten)]
    compare: CompareOptions,

    // Last: the options after it get its heading.
    #[command(flatten)]
    link: TimedLink,
}

/// A link, and its changes.
#[derive(clap::Args)]
pub(crate) struct TimedLink {
    #[command(flatten)]
    pub(crate) spec: LinkSpec,

    /// Change the link at a time after the start, as in `--at 5s:loss=100% --at 8s:rate.up=1mbit`; with a topology,
    /// `--at 5s:CABLE.loss=100%`; repeatable
    #[arg(long = "at", id = "at", value_name = "TIME:KEY=VALUE")]
    pub(crate) changes: Vec<TimedChange>,
}

#[derive(clap::Subcommand)]
enum Action {
    Set(SetArgs),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(Action::Set(set)) = &args.action {
        return control::set(set);
    }
    let spec = &args.link.spec;
    if args.calibrate && *spec != LinkSpec::default() {
        return Err(crate::usage("--calibrate measures its own links; leave out the options that describe a link"));
    }
    let compares = args.compare.is_given()?;
    if args.json.is_some() && !args.calibrate && !compares {
        return Err(crate::usage("--json needs --compare or --calibrate"));
    }
    args.compare.check_files(args.json.as_deref())?;
    let (topology, lanes) = topology(args)?;
    let timetable = changes::timetable(&topology, &args.link.changes)?;
    let sandbox = sandbox::enter()?;
    if args.calibrate {
        sandbox.on_signal(|signal| std::process::exit(128 + signal))?;
        print_calibration(args.json.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let compare = Compare { options: &args.compare, json: args.json.as_deref(), link: links(&topology) };
    let session = Session {
        options: &args.hosts,
        topology,
        lanes,
        timetable,
        has_cable_names: args.topology.is_some(),
        task: if compares { Task::Compare(compare) } else { Task::Command(&args.command) },
    };
    session::run(session, &sandbox, |_| Ok(Served::default()))
}

/// All links, for people.
fn links(topology: &Topology) -> String {
    match topology.cables.as_slice() {
        [cable] => cable.spec.to_string(),
        cables => cables.iter().map(|cable| format!("{} {}", cable.name, cable.spec)).collect::<Vec<_>>().join("; "),
    }
}

/// What to build, checked, and the stages of each cable.
fn topology(args: &Args) -> Result<(Topology, Vec<Lanes>), Box<dyn Error>> {
    let Some(path) = &args.topology else {
        let lanes = lanes(&args.link.spec, ToString::to_string)?;
        return Ok((Topology::pair(args.link.spec.clone(), args.server.clone()), vec![lanes]));
    };
    if args.link.spec != LinkSpec::default() {
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
pub(crate) fn lanes(spec: &LinkSpec, message: impl Fn(&SpecError) -> String) -> Result<Lanes, Box<dyn Error>> {
    spec.lanes().map_err(|error| match error {
        SpecError::Read { .. } | SpecError::Trace { .. } | SpecError::Line { .. } => message(&error).into(),
        _ => crate::usage(message(&error)),
    })
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
pub(crate) fn middlebox_help() -> String {
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
