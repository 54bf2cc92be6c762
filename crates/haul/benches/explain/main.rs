//! Speed and memory of `haul explain`, compared with tcptrace and tshark.
//!
//! `cargo bench -p haul --bench explain` generates a capture of 2 GB (or `LONGHAUL_BENCH_BYTES`) in a temporary folder.
//! `haul explain` explains it; tcptrace and tshark's expert system analyse it, where they are installed. Two more captures
//! have 100,000 connections: consecutive ones, and simultaneous ones.
//!
//! The file is in the page cache and synced to disk before each run, and output goes to `/dev/null`. `haul` and tcptrace
//! take turns, and the median of their times counts. tshark runs once, as it takes half a minute or more.

use std::{
    error::Error,
    fs::{self, File},
    io::BufWriter,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

mod traffic;

use traffic::Traffic;

/// The default size of the capture in bytes.
const BYTES: u64 = 2_000_000_000;

/// The required packets per second of `haul explain` on two processors.
const MIN_RATE: f64 = 2e6;

/// The maximum memory for 100,000 connections, in bytes.
const MAX_MEMORY: u64 = 300_000_000;

/// The number of runs of `haul` and of tcptrace.
const ROUNDS: usize = 3;

/// The maximum duration of a run.
const TIMEOUT: Duration = Duration::from_mins(15);

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = std::env::var("LONGHAUL_BENCH_BYTES").map_or(Ok(BYTES), |bytes| bytes.parse())?;
    let folder = tempfile::tempdir()?;
    let free = nix::sys::statvfs::statvfs(folder.path())?;
    let free = free.blocks_available() * free.fragment_size();
    if free < 2 * bytes {
        println!("skipped: {} has {free} bytes free; twice {bytes} are needed", folder.path().display());
        return Ok(());
    }
    let file = folder.path().join("capture.pcap");
    let load = fs::read_to_string("/proc/loadavg")?;
    println!("{} processors, load {}", thread::available_parallelism()?, load.trim());

    let busy = Traffic { connections: u32::MAX, simultaneous: 64, bytes: (10_000, 20_000_000), size: bytes };
    let packets = generate("files", busy, &file)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.extend(measure("haul explain --json", haul(&file), packets)?.map(|run| run.time));
        let tcptrace = command("tcptrace", &["-l", "-n"], &file);
        theirs.extend(measure("tcptrace -l -n", tcptrace, packets)?.map(|run| run.time));
    }
    measure("tshark -q -z expert", command("tshark", &["-n", "-q", "-z", "expert", "-r"], &file), packets)?;
    if let Some(time) = median(ours) {
        let rate = packets as f64 / time.as_secs_f64();
        verdict(rate >= MIN_RATE, &format!("{:.2} of 2 million packets/s", rate / 1e6));
        if let Some(tcptrace) = median(theirs) {
            let times = tcptrace.as_secs_f64() / time.as_secs_f64();
            verdict(times >= 1.0, &format!("{times:.2} times as fast as tcptrace"));
        }
    }

    for (name, simultaneous) in [("consecutive connections", 1000), ("simultaneous connections", 100_000)] {
        let many = Traffic { connections: 100_000, simultaneous, bytes: (1_000, 10_000), size: u64::MAX };
        let packets = generate(name, many, &file)?;
        if let Some(haul) = measure("haul explain --json", self::haul(&file), packets)? {
            verdict(haul.memory <= MAX_MEMORY, &format!("{} of 300 MB", haul.memory / 1_000_000));
        }
    }
    Ok(())
}

fn generate(name: &str, traffic: Traffic, file: &Path) -> Result<u64, Box<dyn Error>> {
    let to = File::create(file)?;
    let (packets, connections) = traffic::write(traffic, BufWriter::with_capacity(1 << 20, &to))?;
    // The disk must not be busy with it during the measurements.
    to.sync_all()?;
    let size = file.metadata()?.len() as f64 / 1e9;
    println!("\n{name}: {packets} packets, {connections} connections, {size:.2} GB");
    Ok(packets)
}

fn haul(file: &Path) -> Command {
    command(env!("CARGO_BIN_EXE_haul"), &["explain", "--json", "-"], file)
}

fn command(program: &str, arguments: &[&str], file: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(file);
    command
}

/// The resources of a run.
struct Run {
    time: Duration,
    /// The peak memory in bytes.
    memory: u64,
}

/// Runs a program that analyses this many packets; none if it is not installed.
fn measure(name: &str, mut command: Command, packets: u64) -> Result<Option<Run>, Box<dyn Error>> {
    let began = Instant::now();
    let Ok(mut child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        println!("  {name:<22} skipped: it is not installed");
        return Ok(None);
    };
    let status = format!("/proc/{}/status", child.id());
    let mut memory = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        if began.elapsed() > TIMEOUT {
            child.kill()?;
            break child.wait()?;
        }
        // The kernel keeps the peak, so that only growth in the last two milliseconds is missed.
        let peak = fs::read_to_string(&status).unwrap_or_default();
        let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        memory = memory.max(1024 * peak.unwrap_or(0u64));
        thread::sleep(Duration::from_millis(2));
    };
    let time = began.elapsed();
    if !ended.success() {
        println!("  {name:<22} failed after {time:.1?}: {ended}");
        return Ok(None);
    }
    let rate = packets as f64 / time.as_secs_f64() / 1e6;
    println!("  {name:<22} {:>7.2} s {rate:>6.2} Mpkt/s {:>6} MB", time.as_secs_f64(), memory / 1_000_000);
    Ok(Some(Run { time, memory }))
}

/// The median time.
fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn verdict(met: bool, what: &str) {
    println!("  {} {what}", if met { "met:   " } else { "missed:" });
}
