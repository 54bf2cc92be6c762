//! What the gateway adds to a request that it passes on, beside nginx as a plain reverse proxy: latency and requests a
//! second, in front of the same server, in turns. The bars, with 50 connections: at most twice the latency that nginx adds,
//! and at least half its requests a second.
//!
//!     cargo bench --profile dist --package gateway --bench proxy
//!     cargo bench --profile dist --package gateway --bench proxy -- serve    # keeps the servers, for a profiler, until a line is read
//!
//! The profile is that of the packages: `cargo bench` alone compiles for a quick build. The server is nginx with one file of 1 KiB. Both proxies speak HTTP/1.1 in cleartext over loopback with wrk and with the
//! server, keep their connections to it and the client's, and write no log. nginx has a worker process per core, the gateway
//! a worker thread. nginx keeps up to 64 connections to the server in each worker; the gateway has its default of six for a
//! credential, and wrk is one user. Each request has a password, as the gateway's requests do. The latency is wrk's median; what a proxy adds is the difference from the server without a proxy
//! in the same round.
//!
//! There are three loads: one connection; 50 connections that pause for 5 ms after each answer, a load that both proxies can
//! carry, for the latency; and 50 without a pause, for the requests a second. Without a pause wrk sends the next request when
//! it has the answer, and the latency is nothing but the number of connections by the requests a second: requests wait for
//! a processor, for the proxy, the server and wrk share all of them.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use gateway::{Gateway, Settings};

const BYTES: usize = 1024;
/// Odd, so that the median is a round's.
const ROUNDS: usize = 9;
const LOADS: [Load; 3] = [
    Load { connections: 1, pause_ms: 0 },
    Load { connections: 50, pause_ms: 5 },
    Load { connections: 50, pause_ms: 0 },
];
/// How long the gateway believes a listing: its default.
const FRESH: Duration = Duration::from_secs(5);
/// The bars.
const MOST_ADDED: f64 = 2.0;
const LEAST_RATE: f64 = 0.5;

fn main() -> ExitCode {
    for program in ["wrk", "nginx"] {
        if Command::new("which").arg(program).stdout(Stdio::null()).status().is_ok_and(|found| !found.success()) {
            eprintln!("skipped: {program} is not installed; `apt-get install {program}` brings it");
            return ExitCode::SUCCESS;
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let nginx = Nginx::start(folder.path());
    let paths = [nginx.server, nginx.proxy, gateway(nginx.server)];
    if std::env::args().any(|argument| argument == "serve") {
        println!("server {}, nginx {}, gateway {}, process {}", paths[0], paths[1], paths[2], std::process::id());
        let _ = std::io::stdin().lines().next();
        return ExitCode::SUCCESS;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "GET of {BYTES} bytes, keep-alive, wrk on the same {cores} cores, medians of {ROUNDS} rounds (2nd to 8th)"
    );
    let mut is_within = true;
    for load in LOADS {
        // The first round warms up.
        let rounds: Vec<_> =
            (0..=ROUNDS).map(|_| paths.map(|path| load.measure(path, folder.path()))).skip(1).collect();
        is_within &= load.report(&rounds);
    }
    if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What wrk does.
#[derive(Clone, Copy)]
struct Load {
    connections: u32,
    /// Of each connection, between an answer and the next request.
    pause_ms: u32,
}

/// What wrk measured in one go.
#[derive(Clone, Copy)]
struct Measured {
    /// Requests a second.
    rate: f64,
    /// The median latency in microseconds.
    latency_us: f64,
}

impl Load {
    /// Prints the measurements of the server, nginx and the gateway, and returns whether the bars hold.
    fn report(self, rounds: &[[Measured; 3]]) -> bool {
        let Self { connections, pause_ms } = self;
        let plural = if connections == 1 { "" } else { "s" };
        let pause = if pause_ms > 0 { format!(", each pausing {pause_ms} ms") } else { String::new() };
        println!("{connections} connection{plural}{pause}");
        for (index, name) in ["server alone", "nginx", "gateway"].into_iter().enumerate() {
            let rate = Spread::of(rounds.iter().map(|round| round[index].rate));
            let latency = Spread::of(rounds.iter().map(|round| round[index].latency_us));
            let added = Spread::of(rounds.iter().map(|round| round[index].latency_us - round[0].latency_us));
            let added = if index == 0 { String::new() } else { format!(", {:.0} µs added", added.median) };
            println!("  {name:13} {:8.0} requests/s, {:6.0} µs{added}", rate.median, latency.median);
        }
        let added = |load: Measured, server: Measured| load.latency_us - server.latency_us;
        let added =
            Spread::of(rounds.iter().map(|[server, nginx, gateway]| added(*gateway, *server) / added(*nginx, *server)));
        let rate = Spread::of(rounds.iter().map(|[_, nginx, gateway]| gateway.rate / nginx.rate));
        let (is_latency, is_rate) = (connections > 1 && pause_ms > 0, connections > 1 && pause_ms == 0);
        let bar = |is_one: bool, bar: &str| if is_one { format!(" (bar: {bar})") } else { String::new() };
        println!("  latency added, gateway ÷ nginx: {added}{}", bar(is_latency, &format!("≤ {MOST_ADDED}")));
        println!("  requests/s,    gateway ÷ nginx: {rate}{}", bar(is_rate, &format!("≥ {LEAST_RATE}")));
        !(is_latency && added.median > MOST_ADDED || is_rate && rate.median < LEAST_RATE)
    }

    /// Loads a server for two seconds; every response must be successful.
    fn measure(self, server: SocketAddr, folder: &Path) -> Measured {
        let script = folder.join("pause.lua");
        fs::write(&script, format!("function delay() return {} end\n", self.pause_ms)).expect("a file");
        let mut wrk = Command::new("wrk");
        // One thread: more would compete with the proxies for the processors.
        wrk.args(["--latency", "--threads", "1", "--duration", "2s", "--connections", &self.connections.to_string()]);
        if self.pause_ms > 0 {
            wrk.arg("--script").arg(script);
        }
        // "ann:secret".
        wrk.args(["--header", "Authorization: Basic YW5uOnNlY3JldA==", &format!("http://{server}/0")]);
        let said = String::from_utf8_lossy(&wrk.output().expect("wrk").stdout).into_owned();
        assert!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{said}");
        let value = |label: &str| {
            let line = said.lines().find_map(|line| line.trim().strip_prefix(label));
            line.map_or_else(|| panic!("wrk said: {said}"), str::trim)
        };
        let rate = value("Requests/sec:").parse().expect("a rate");
        Measured { rate, latency_us: microseconds(value("50%")).expect("a latency") }
    }
}

/// A median and the range that has the true one in 96 of 100 cases: from the second to the eighth of nine
/// (the binomial distribution of the values on one side of it).
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Self { median: values[ROUNDS / 2], low: values[1], high: values[ROUNDS - 2] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.median, self.low, self.high)
    }
}

/// wrk prints `85.00us`, `1.23ms` or `1.02s`.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, factor) = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// A gateway as `haul gateway` runs it.
fn gateway(server: SocketAddr) -> SocketAddr {
    let upstream = format!("http://{server}/").parse().expect("a URL");
    let settings =
        Settings { upstream, client: haul_http::Settings::default(), fresh: FRESH, write_back: None, cache: None };
    let gateway = Gateway::new(settings).expect("a gateway");
    let address = free_address();
    let config = serve::Config { listen: vec![address], ..serve::Config::default() };
    let server = serve::Server::with_service(Arc::new(gateway), &config).expect("a server");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(server.run(std::future::pending()))
    });
    address
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

/// nginx as the server, and another one as a proxy in front of it.
struct Nginx {
    server: SocketAddr,
    proxy: SocketAddr,
    processes: Vec<Child>,
}

impl Nginx {
    fn start(folder: &Path) -> Self {
        let (server, proxy) = (free_address(), free_address());
        // Started by root, it reads as another user.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("a passable folder");
        let serving = format!(
            "open_file_cache max=10; open_file_cache_valid 1h; server {{ listen {server}; root {}/server; }}",
            folder.display()
        );
        let passing = format!(
            "upstream origin {{ server {server}; keepalive 64; keepalive_requests 1000000000; }}\n\
             server {{ listen {proxy}; location / {{ proxy_pass http://origin; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; proxy_set_header Host $http_host; }} }}"
        );
        let processes = [("server", serving), ("proxy", passing)];
        let processes = processes.map(|(name, http)| start(&folder.join(name), &http)).into();
        Self { server, proxy, processes }
    }
}

/// Starts an nginx in its own folder with this `http` block.
fn start(folder: &Path, http: &str) -> Child {
    fs::create_dir(folder).expect("a folder");
    let here = folder.display();
    let configuration = format!(
        "daemon off; worker_processes auto; pid {here}/pid; error_log {here}/error.log;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;\n\
         client_body_temp_path {here}/body; proxy_temp_path {here}/passed;\n{http} }}"
    );
    fs::write(folder.join("nginx.conf"), configuration).expect("a configuration");
    fs::write(folder.join("0"), vec![b'x'; BYTES]).expect("a file");
    let mut command = Command::new("nginx");
    command.args(["-e", "error.log", "-p"]).arg(folder).args(["-c", "nginx.conf"]);
    let process = command.stderr(Stdio::null()).spawn().expect("nginx");
    let begun = Instant::now();
    while fs::read_to_string(folder.join("pid")).unwrap_or_default().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10), "nginx did not start");
        thread::sleep(Duration::from_millis(10));
    }
    process
}

impl Drop for Nginx {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Its workers exit only with SIGTERM.
            let _ = Command::new("kill").arg(process.id().to_string()).status();
            let _ = process.wait();
        }
    }
}
