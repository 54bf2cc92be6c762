//! `cargo bench -p longhaul-link`: the emulator's accuracy and capacity on this machine.
//!
//! Rigs are measured in turn: each round sets up every rig and measures it once, so that other load on the machine
//! affects all of them. A figure is the median of the rounds, with their range. A bar is what an idle machine with two
//! processors must reach; a missed one is reported, and fails nothing.

mod probe;
mod report;
mod rig;

use std::{
    array, fs,
    io::{self, IsTerminal},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use clap::{Parser, ValueEnum};
use link::{
    cable::Traffic,
    host::Host,
    lateness::Lateness,
    sandbox,
    spec::{LinkSpec, LossModel, LossSpec, QueueSpec, RateSpec},
};
use units::{Percent, Rate, Span};

use report::{Bar, Estimate, Section, quantile};
use rig::{Joined, MTU, Rig};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const RTT: Duration = Duration::from_millis(18);
const MEGABIT: u64 = 1_000_000;
const GIGABIT: u64 = 1000 * MEGABIT;

/// Measures the cable, a plain veth pair and, if installed, Rattan.
#[derive(Parser)]
struct Arguments {
    /// What to measure; all by default.
    only: Vec<Measure>,
    /// The number of rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measure {
    Delay,
    Rate,
    Throughput,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = sandbox::enter().map_err(Into::into).and_then(|sandbox| bench(&arguments, sandbox.scratch()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the benchmark cannot go on: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments, scratch: &Path) -> Result<()> {
    describe_machine(arguments.rounds)?;
    let rattan = Rig::Rattan(delay_alone());
    let absent: Vec<String> = [&Rig::Veth, &rattan].into_iter().filter_map(Rig::missing).collect();
    for rig in &absent {
        println!("  skipped    {rig}");
    }
    let bench = Bench { rounds: arguments.rounds, scratch };
    let (mut reached, mut missed) = (0, 0);
    for measure in Measure::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(measure) {
            continue;
        }
        let section = match measure {
            Measure::Delay => delay(&bench),
            Measure::Rate => rate(&bench),
            Measure::Throughput => throughput(&bench),
        };
        let bars = section?.print();
        reached += bars[0];
        missed += bars[1];
    }
    println!("\n{reached} bars reached, {missed} fallen short of");
    Ok(())
}

/// The machine's properties that the figures depend on.
fn describe_machine(rounds: u16) -> Result<()> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let cores = thread::available_parallelism()?;
    println!("The emulator on this machine: medians of {rounds} rounds, with their range\n");
    println!("  kernel     {}", read("/proc/sys/kernel/osrelease").trim());
    println!("  processor  {cores} × {}", model.trim_start_matches([' ', '\t', ':']));
    println!("  idle       {:.0} % of the processors' time, before the start", 100.0 * idle()?);
    println!("  user       {}", if sandbox::is_root() { "root" } else { "ordinary" });
    println!("  TCP        {}, buffers {} MiB", Host::new("any")?.read_sysctl("net.ipv4.tcp_congestion_control")?, 128);
    Ok(())
}

/// The idle share of the processors over half a second (proc(5), /proc/stat).
fn idle() -> Result<f64> {
    let ticks = || -> Result<[f64; 2]> {
        let text = fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().ok_or("/proc/stat is empty")?;
        let all = line.split_whitespace().skip(1).map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        Ok([all.get(3).copied().unwrap_or_default(), all.iter().sum()])
    };
    let before = ticks()?;
    thread::sleep(Duration::from_millis(500));
    let after = ticks()?;
    Ok((after[0] - before[0]) / (after[1] - before[1]).max(1.0))
}

fn delay_alone() -> LinkSpec {
    LinkSpec { rtt: Span(RTT).into(), ..LinkSpec::default() }
}

fn rate_alone(rate: u64, queue: usize) -> LinkSpec {
    let rate = Rate::bits_per_second(rate);
    let rate = Some(RateSpec { up: rate, down: rate });
    LinkSpec { rate, queue: Some(QueueSpec::Packets(queue)), ..LinkSpec::default() }
}

/// Stages that see each packet without effect: a rate above the cable's capacity, and 0 % loss.
fn packet_by_packet() -> LinkSpec {
    let rate = Rate::bits_per_second(10 * GIGABIT);
    LinkSpec {
        rate: Some(RateSpec { up: rate, down: rate }),
        queue: Some(QueueSpec::Infinite),
        loss: Some(LossSpec::both(LossModel::Independent(Percent::from_fraction(0.0)))),
        ..delay_alone()
    }
}

fn cable(spec: LinkSpec) -> Rig {
    Rig::Cable { spec, tapped: None }
}

/// The settings of a measurement.
struct Bench<'a> {
    rounds: u16,
    scratch: &'a Path,
}

impl Bench<'_> {
    /// Measures the available `rigs` in turn. Returns the figures of each round.
    fn measure<const N: usize>(
        &self,
        rigs: Vec<(String, Rig)>,
        f: impl Fn(Joined) -> Result<[f64; N]>,
    ) -> Result<Vec<(String, Rig, [Estimate; N])>> {
        let rigs: Vec<_> = rigs.into_iter().filter(|(_, rig)| rig.missing().is_none()).collect();
        let mut rounds = vec![Vec::new(); rigs.len()];
        for round in 1..=self.rounds {
            for ((name, rig), rounds) in rigs.iter().zip(&mut rounds) {
                progress(&format!("round {round} of {}: {name}", self.rounds));
                rounds.push(rig.join().and_then(&f).map_err(|error| format!("{name}: {error}"))?);
            }
        }
        progress("");
        let estimates = rounds.into_iter().map(|rounds: Vec<[f64; N]>| {
            array::from_fn(|figure| Estimate::of(rounds.iter().map(|round| round[figure]).collect()))
        });
        Ok(rigs.into_iter().zip(estimates).map(|((name, rig), estimates)| (name, rig, estimates)).collect())
    }
}

/// Shows the progress on a terminal, on one line.
fn progress(words: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[2K{words}");
    }
}

/// The lateness of a cable's relays in microseconds: median and 99th percentile.
fn lateness(traffic: &[Traffic; 2]) -> [f64; 2] {
    let mut lateness = Lateness::default();
    for way in traffic {
        lateness.merge(&way.lateness);
    }
    [0.5, 0.99].map(|q| lateness.quantile(q).as_secs_f64() * 1e6)
}

/// A figure in a cell; empty if there is none.
fn cell(figure: f64, decimals: usize) -> String {
    if figure.is_nan() { "–".into() } else { format!("{figure:.decimals$}") }
}

/// The delay of a ping.
fn delay(bench: &Bench<'_>) -> Result<Section> {
    const PINGS: u16 = 200;
    let rigs = vec![
        ("plain veth, no delay".into(), Rig::Veth),
        ("cable".into(), cable(delay_alone())),
        ("Rattan".into(), Rig::Rattan(delay_alone())),
    ];
    let rows = bench.measure(rigs, |joined| {
        let mut trips: Vec<_> = probe::ping(&joined, PINGS)?.iter().map(|trip| trip.as_secs_f64() * 1e3).collect();
        trips.sort_by(f64::total_cmp);
        let [median, p99] = [0.5, 0.99].map(|q| quantile(&trips, q));
        let [late, very_late] = joined.disconnect()?.map_or([f64::NAN; 2], |traffic| lateness(&traffic));
        Ok([median, p99, late, very_late])
    })?;
    let nominal = RTT.as_secs_f64() * 1e3;
    let mut section = Section::new(
        &format!("Round trip of a ping, {nominal} ms asked for; ms"),
        &["over", "median", "p99", "relays late µs, p50", "p99"],
    );
    for (name, rig, [median, p99, late, very_late]) in rows {
        let within = |what: &str, figure: Estimate, bar: f64| {
            Bar::new(format!("{what} within {bar} ms"), (figure.median - nominal).abs() <= bar)
        };
        let bars = rig.bars([within("median", median, 0.1), within("p99", p99, 0.5)]);
        let cells = [format!("{median:.3}"), format!("{p99:.3}"), cell(late.median, 0), cell(very_late.median, 0)];
        section.row(&name, &cells, &bars);
    }
    Ok(section)
}

/// The rate of a narrow link.
fn rate(bench: &Bench<'_>) -> Result<Section> {
    let mut section =
        Section::new("Rate of a narrow link that is offered more; Mbit/s of IP packets", &["over", "rate", "error"]);
    for megabits in [10, 100, 1000] {
        let nominal = megabits * MEGABIT;
        let spec = rate_alone(nominal, 100);
        let rigs = vec![
            (format!("cable, {megabits} Mbit/s"), cable(spec.clone())),
            (format!("Rattan, {megabits} Mbit/s"), Rig::Rattan(spec)),
        ];
        let time = Duration::from_secs(1);
        for (name, rig, [measured]) in bench.measure(rigs, |joined| Ok([probe::flood(&joined, nominal, MTU, time)?]))? {
            let error = measured.median / nominal as f64 - 1.0;
            let bars = rig.bars([Bar::new("within 1 %", error.abs() <= 0.01)]);
            section.row(&name, &[format!("{:.3}", measured.scaled(1e-6)), format!("{:+.2} %", error * 100.0)], &bars);
        }
    }
    Ok(section)
}

/// The throughput of one TCP flow.
fn throughput(bench: &Bench<'_>) -> Result<Section> {
    const TIME: Duration = Duration::from_secs(2);
    const WARM_UP: Duration = Duration::from_secs(1);
    let tapped = Rig::Cable { spec: packet_by_packet(), tapped: Some(bench.scratch.to_owned()) };
    let rigs = vec![
        ("plain veth, no delay".into(), Rig::Veth),
        ("cable, delay alone (segments whole)".into(), cable(delay_alone())),
        ("cable, delay, rate and loss".into(), cable(packet_by_packet())),
        ("the same, both ends captured".into(), tapped),
        ("Rattan, delay alone".into(), Rig::Rattan(delay_alone())),
        ("Rattan, delay, rate and loss".into(), Rig::Rattan(packet_by_packet())),
    ];
    let rows = bench.measure(rigs, |joined| {
        let gigabits = probe::flow(&joined, WARM_UP, TIME)? / GIGABIT as f64;
        let Some(traffic) = joined.disconnect()? else { return Ok([gigabits, f64::NAN, f64::NAN, f64::NAN, f64::NAN]) };
        let packets: u64 = traffic.iter().map(|way| way.packets_out).sum();
        let time: Duration = traffic.iter().map(|way| way.processor_time).sum();
        let [p50, p99] = lateness(&traffic);
        let packets = packets as f64;
        Ok([gigabits, packets / (WARM_UP + TIME).as_secs_f64() / 1e3, time.as_secs_f64() * 1e6 / packets, p50, p99])
    })?;
    let title = format!("One TCP flow, MTU {MTU}, RTT {} ms", RTT.as_millis());
    let columns = ["over", "Gbit/s", "1000 packets/s", "relays' µs/packet", "late µs, p50", "p99"];
    let mut section = Section::new(&title, &columns);
    for (name, rig, figures) in rows {
        let [gigabits, rest @ ..] = figures;
        let bar = match &rig {
            Rig::Cable { spec, .. } if spec.rate.is_none() => 10.0,
            _ => 2.0,
        };
        let bars = rig.bars([Bar::new(format!("≥ {bar} Gbit/s"), gigabits.median >= bar)]);
        let decimals = [0, 2, 0, 0];
        let cells = rest.iter().zip(decimals).map(|(figure, decimals)| cell(figure.median, decimals));
        let cells: Vec<_> = std::iter::once(format!("{gigabits:.2}")).chain(cells).collect();
        section.row(&name, &cells, &bars);
    }
    Ok(section)
}
