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

/// The statuses of a command that cannot be run, as in a shell (POSIX, Shell Command Language, 2.8.2).
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Run a command at the end of an emulated link
///
/// The command runs on the client host, the command of --server on another; between them is a cable
/// as the options describe it. Both find the addresses in `HAUL_SERVER_IP` and `HAUL_CLIENT_IP`
/// (and `HAUL_SERVER_IP6`, `HAUL_CLIENT_IP6`). The exit status is the command's, as in a shell: 127 if there is
/// no such command, 128 + n if signal n ended it. No root is needed.
#[derive(clap::Args)]
#[command(
    override_usage = "haul link [OPTIONS] -- <CMD>...\n       haul link --calibrate [--json <FILE>]",
    after_long_help = middlebox_help()
)]
pub(crate) struct Args {
    /// Run this on the server host, by sh; without it that host answers pings
    #[arg(long, value_name = "CMD")]
    server: Option<String>,

    /// Capture both ends into client.pcapng and server.pcapng in this folder
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,

    /// Keep only so many bytes of each packet in the captures
    #[arg(long, value_name = "BYTES", requires = "capture", value_parser = clap::value_parser!(u32).range(1..))]
    snaplen: Option<u32>,

    /// Let the client host also reach the network this machine is on, beside the link, with the help of
    /// passt (package passt)
    #[arg(long)]
    outside: bool,

    /// Set a sysctl on both hosts, such as net.ipv4.tcp_fastopen=3; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    sysctl: Vec<Sysctl>,

    /// Say nothing about the link
    #[arg(long, short)]
    quiet: bool,

    /// Measure how true the emulator is on this machine, and run nothing
    #[arg(long, conflicts_with_all = ["at", "server", "capture", "snaplen", "outside", "sysctl", "command"])]
    calibrate: bool,

    /// Write the calibration (schema longhaul.calibration/1) to this file; `-`: to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The command, after `--`
    #[arg(last = true, required_unless_present = "calibrate", value_name = "CMD")]
    command: Vec<OsString>,

    // Behind the others, which would come under its heading.
    #[command(flatten)]
    link: LinkSpec,

    /// Change the link while the command runs: 5s:loss=100%, then 8s:loss=0%; may be repeated
    #[arg(long, value_name = "TIME:KEY=VALUE")]
    at: Vec<Change>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let spec = &args.link;
    if args.calibrate && *spec != LinkSpec::default() {
        return Err(crate::usage("--calibrate measures cables of its own; leave out what describes a link"));
    }
    if args.json.is_some() && !args.calibrate {
        return Err(crate::usage("--json is for the calibration; give --calibrate too, and no command"));
    }
    let laid = lanes(spec, ToString::to_string)?;
    let timetable = changes::timetable(spec, &args.at)?;
    let sandbox = sandbox::enter()?;
    if args.calibrate {
        sandbox.on_signal(|signal| std::process::exit(128 + signal))?;
        print_calibration(args.json.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = connect(args, spec, laid, &timetable, &sandbox)?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

/// The stages of a cable. Options that do not go together are wrong usage; a file that cannot be read is a
/// failure.
fn lanes(spec: &LinkSpec, told: impl Fn(&SpecError) -> String) -> Result<Lanes, Box<dyn Error>> {
    spec.lanes().map_err(|error| match error {
        SpecError::ReadTrace { .. } | SpecError::Trace { .. } => told(&error).into(),
        _ => crate::usage(told(&error)),
    })
}

/// Lays the cable, runs both commands, and pulls it out again.
fn connect(
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
    // First come, first routed: what is not for the server goes this way.
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
            status = status.max(1); // what the command said stands, unless it said that all was well
        }
    }
    if !args.quiet {
        account(&traffic);
    }
    Ok(status)
}

/// Runs the server's command and the client's, and returns the exit status of the latter.
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
    fs::create_dir_all(folder).map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    Ok(Arc::new(Tap::create(&folder.join(end).with_extension("pcapng"), end, snaplen)?))
}

fn describe(spec: &LinkSpec, timetable: &Timetable, cable: &Cable) {
    let [client, server] = cable.addresses();
    // A cable that does nothing is told as such, not as what the link consists of.
    let kind = if *spec == LinkSpec::default() { "a " } else { "a link of " };
    crate::say(format_args!("{kind}{spec}; client {}, server {}", client.v4, server.v4));
    if cable.passes_segments_unsplit().contains(&true) {
        let way = match cable.passes_segments_unsplit() {
            [true, true] => "",
            [true, false] => " from the client to the server",
            _ => " from the server to the client",
        };
        crate::say(format_args!("nothing looks at single packets{way}, so TCP segments of up to 64 KiB pass whole"));
    }
    for (at, spec) in timetable {
        crate::say(format_args!("from {} on: {spec}", Span(*at)));
    }
}

fn account([up, down]: &[Traffic; 2]) {
    if up.packets_out + down.packets_out == 0 {
        crate::say("no packet crossed the link");
        return;
    }
    let mut late = Lateness::default();
    late.merge(&up.lateness);
    late.merge(&down.lateness);
    crate::say(format_args!(
        "{} packets up, {} down; the relays sent them {} µs late at the median, {} µs at the 99th percentile",
        up.packets_out,
        down.packets_out,
        late.quantile(0.5).as_micros(),
        late.quantile(0.99).as_micros(),
    ));
    let missed = up.device_drops + down.device_drops;
    if missed > 0 {
        crate::say(format_args!("it did not keep up: {missed} packets were dropped before they came to the link"));
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
    let mut text = String::from("one-way delay of 9 ms, error in µs:\n");
    writeln!(text, "{:>12}  {:>6}  {:>6}  {:>6}  {:>5}", "packets/s", "p50", "p99", "max", "lost")?;
    for row in &calibration.delay {
        let us = |time: Duration| time.as_micros();
        let (p50, p99, max) = (us(row.error.quantile(0.5)), us(row.error.quantile(0.99)), us(row.error.max()));
        writeln!(text, "{:>12}  {p50:>6}  {p99:>6}  {max:>6}  {:>5}", row.packets_per_second, row.lost)?;
    }
    let error = (calibration.rate_error * 10_000.0).round() / 100.0 + 0.0; // not -0
    writeln!(text, "rate of 100 Mbit/s, error: {error:+.2} %")?;
    writeln!(text, "capacity: {:.0} packets/s of 100 bytes one way", calibration.packets_per_second)?;
    let real_time = if calibration.real_time { "in real time" } else { "behind other programs, not in real time" };
    writeln!(text, "relays run {real_time}")?;
    crate::print(text.as_bytes())
}

/// The list of middleboxes at the end of the help.
fn middlebox_help() -> String {
    let mut text = String::from("Middleboxes, each with at=client or at=server:\n");
    for kind in middleboxes::ALL {
        let _ = writeln!(text, "  {}\n      {}", kind.name, kind.help);
        for Parameter { name, form, help, default } in kind.parameters {
            let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            let _ = writeln!(text, "      {name}={form}  {help}{default}");
        }
    }
    text
}
