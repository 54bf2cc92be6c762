//! `haul link`: a command at the end of an emulated link.

mod changes;
mod server;
mod sysctl;

use std::{
    error::Error,
    ffi::OsString,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use link::{
    cable::{Cable, DEFAULT_MTU, Options, Traffic},
    calibrate::calibrate,
    host::Host,
    lanes::Lanes,
    lateness::Lateness,
    middleboxes::{self, Parameter},
    outside::Outside,
    sandbox::{self, Sandbox},
    spec::{LinkSpec, SpecError},
    tap::Tap,
};
use units::Span;

use crate::link::{
    changes::{Change, Timetable},
    server::Server,
    sysctl::Sysctl,
};

/// Exit statuses for a command that cannot be run, as in a shell (POSIX, Shell Command Language, 2.8.2).
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Run a command at the end of an emulated link
///
/// The command runs on the client host, the command of --server on the server host; the link described by the options
/// connects them. The environment variables `HAUL_SERVER_IP`, `HAUL_CLIENT_IP`, `HAUL_SERVER_IP6` and `HAUL_CLIENT_IP6`
/// contain the hosts' addresses. All output of the server goes to standard error. The exit status is that of the command,
/// as in a shell: 127 if it does not exist, 128 + n if signal n killed it. Needs no root.
#[derive(clap::Args)]
#[command(
    override_usage = "haul link [OPTIONS] -- <CMD>...\n       haul link --calibrate [--json <FILE>]",
    after_long_help = middlebox_help()
)]
pub(crate) struct Args {
    /// Command for the server host, run by sh; without it, the server host only answers pings
    #[arg(long, value_name = "CMD")]
    server: Option<String>,

    /// Capture the packets at both ends, into client.pcapng and server.pcapng in this folder
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,

    /// Maximum number of bytes captured per packet [default: all]
    #[arg(long, value_name = "BYTES", requires = "capture", value_parser = clap::value_parser!(u32).range(1..))]
    snaplen: Option<u32>,

    /// Let the client host also reach this machine's network (needs the package passt)
    #[arg(long)]
    outside: bool,

    /// Set a sysctl on both hosts, such as net.ipv4.tcp_fastopen=3; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    sysctl: Vec<Sysctl>,

    /// Print no messages about the link
    #[arg(long, short)]
    quiet: bool,

    /// Measure the emulator's accuracy on this machine, and run no command
    #[arg(long, conflicts_with_all = ["at", "server", "capture", "snaplen", "outside", "sysctl", "command"])]
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

    /// Change the link at a time after the start, as in `--at 5s:loss=100% --at 8s:loss=0%`; repeatable
    #[arg(long, value_name = "TIME:KEY=VALUE")]
    at: Vec<Change>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let spec = &args.link;
    if args.calibrate && *spec != LinkSpec::default() {
        return Err(crate::usage("--calibrate measures its own links; leave out the options that describe a link"));
    }
    if args.json.is_some() && !args.calibrate {
        return Err(crate::usage("--json needs --calibrate, and no command"));
    }
    let lanes = lanes(spec, ToString::to_string)?;
    let timetable = changes::timetable(spec, &args.at)?;
    let sandbox = sandbox::enter()?;
    if args.calibrate {
        sandbox.on_signal(|signal| std::process::exit(128 + signal))?;
        print_calibration(args.json.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = run_over_link(args, spec, lanes, &timetable, &sandbox)?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

/// The stages of the cable. Contradicting options are a usage error; an unreadable file is a failure.
fn lanes(spec: &LinkSpec, message: impl Fn(&SpecError) -> String) -> Result<Lanes, Box<dyn Error>> {
    spec.lanes().map_err(|error| match error {
        SpecError::ReadTrace { .. } | SpecError::Trace { .. } => message(&error).into(),
        _ => crate::usage(message(&error)),
    })
}

/// Connects the hosts, runs both commands, and disconnects them; returns the command's exit status.
fn run_over_link(
    args: &Args,
    spec: &LinkSpec,
    lanes: Lanes,
    timetable: &Timetable,
    sandbox: &Sandbox,
) -> Result<i32, Box<dyn Error>> {
    let (client, server) = (Host::new("client")?, Host::new("server")?);
    for host in [&client, &server] {
        for sysctl in &args.sysctl {
            sysctl.set(host)?;
        }
    }
    // The first device gets the default route, so this one must come before the cable.
    let outside = args.outside.then(|| Outside::open(&client)).transpose()?;
    let taps = match &args.capture {
        Some(folder) => [Some(tap(folder, "client", args.snaplen)?), Some(tap(folder, "server", args.snaplen)?)],
        None => [None, None],
    };
    let options = Options { taps: taps.clone(), mtu: DEFAULT_MTU, ..Options::default() };
    let cable = Cable::connect(&client, &server, lanes, &options)?;
    if !args.quiet {
        describe(spec, timetable, &cable);
    }
    let equip = |command: &mut Command| {
        for (end, addresses) in ["CLIENT", "SERVER"].into_iter().zip(cable.addresses()) {
            command.env(format!("HAUL_{end}_IP"), addresses.v4.to_string());
            command.env(format!("HAUL_{end}_IP6"), addresses.v6.to_string());
        }
    };
    let mut status = thread::scope(|scope| {
        let (running, over) = mpsc::channel::<()>();
        let cable = &cable;
        scope.spawn(move || changes::follow(timetable, cable, &over));
        let status = run_both(args, sandbox, [&client, &server], equip);
        drop(running);
        status
    })?;
    drop(outside);
    drop(options);
    let traffic = cable.disconnect()?;
    for tap in taps.into_iter().flatten().filter_map(Arc::into_inner) {
        if let Err(error) = tap.finish() {
            crate::say(error);
            status = status.max(1); // keeps the command's own failure
        }
    }
    if !args.quiet {
        print_summary(&traffic);
    }
    Ok(status)
}

/// Runs the server's command and the client's; returns the exit status of the latter.
fn run_both(
    args: &Args,
    sandbox: &Sandbox,
    [client, server]: [&Host; 2],
    equip: impl Fn(&mut Command),
) -> Result<i32, Box<dyn Error>> {
    let mut running = args.server.as_deref().map(|command| Server::start(command, server, &equip)).transpose()?;
    if let Some(running) = &mut running {
        running.wait_until_it_listens(sandbox)?;
    }
    if let Some(signal) = sandbox.termination_signal() {
        return Ok(128 + signal);
    }
    let [program, arguments @ ..] = args.command.as_slice() else { return Err("no command".into()) };
    let mut command = Command::new(program);
    command.args(arguments);
    equip(&mut command);
    client.attach(&mut command);
    match command.spawn() {
        Ok(child) => Ok(sandbox.wait_for(&child)),
        Err(error) => {
            crate::say(format_args!("cannot run {}: {error}", program.display()));
            Ok(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
        }
    }
}

fn tap(folder: &Path, end: &str, snaplen: Option<u32>) -> Result<Arc<Tap>, Box<dyn Error>> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))?;
    Ok(Arc::new(Tap::create(&folder.join(end).with_extension("pcapng"), end, snaplen)?))
}

fn describe(spec: &LinkSpec, timetable: &Timetable, cable: &Cable) {
    let [client, server] = cable.addresses();
    // "a cable without delay", but "a link of 18ms RTT".
    let kind = if *spec == LinkSpec::default() { "a " } else { "a link of " };
    crate::say(format_args!("{kind}{spec}; client {}, server {}", client.v4, server.v4));
    if cable.passes_segments_unsplit().contains(&true) {
        let direction = match cable.passes_segments_unsplit() {
            [true, true] => "",
            [true, false] => " from the client to the server",
            _ => " from the server to the client",
        };
        crate::say(format_args!(
            "TCP segments of up to 64 KiB pass unsplit{direction}, since no stage needs single packets"
        ));
    }
    for (at, spec) in timetable {
        crate::say(format_args!("after {}: {spec}", Span(*at)));
    }
}

fn print_summary([up, down]: &[Traffic; 2]) {
    if up.packets_out + down.packets_out == 0 {
        crate::say("no packet crossed the link");
        return;
    }
    let mut late = Lateness::default();
    late.merge(&up.lateness);
    late.merge(&down.lateness);
    crate::say(format_args!(
        "{} packets up, {} down; sent {} µs late at the median, {} µs at the 99th percentile",
        up.packets_out,
        down.packets_out,
        late.quantile(0.5).as_micros(),
        late.quantile(0.99).as_micros(),
    ));
    let drops = up.device_drops + down.device_drops;
    if drops > 0 {
        crate::say(format_args!(
            "the emulator was too slow: {drops} packets were dropped before they reached the link"
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
