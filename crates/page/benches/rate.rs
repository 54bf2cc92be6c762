//! How many requests a second the replay server answers, beside nginx: keep-alive, 5 KB, the same load on both, in
//! turns. The bar: no fewer than nginx with the same settings.
//!
//! Both have a worker for each core, one listening socket, no access log, and what they answer with in memory: the replay
//! server in its own, nginx in the page cache, with its open files cached. Whether `sendfile` helps nginx depends on the
//! size of the answer; the faster one is the bar. `reuseport` gives each of nginx's workers a listening socket of its
//! own; the replay server has no such setting, so that these rows are no bar but show what it would be worth.
//!
//!     cargo bench --package page --bench rate

use std::{
    fmt, fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use page::replay::{PageHandler, visits};

const BYTES: u64 = 5000;
const ROUNDS: usize = 5;
/// The load: two threads with 32 connections each, for two seconds.
const LOAD: [&str; 3] = ["-t2", "-c64", "-d2s"];

fn main() -> ExitCode {
    for program in ["wrk", "nginx"] {
        if Command::new("which").arg(program).stdout(Stdio::null()).status().is_ok_and(|found| !found.success()) {
            eprintln!("skipped: {program} is not installed; `apt-get install {program}` brings it");
            return ExitCode::SUCCESS;
        }
    }
    let tunings = [(true, false), (true, true), (false, false), (false, true)];
    let tunings = tunings.map(|(sendfile, reuseport)| Tuning { sendfile, reuseport });
    let nginx: Vec<Nginx> = tunings.iter().map(|tuning| Nginx::start(*tuning)).collect();
    let pages = pages();
    let addresses: Vec<SocketAddr> = nginx.iter().map(|nginx| nginx.address).chain([pages]).collect();
    let mut rates = vec![Vec::new(); addresses.len()];
    for round in 0..=ROUNDS {
        for (rates, address) in rates.iter_mut().zip(&addresses) {
            let rate = load(*address);
            // The first round warms up.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("keep-alive, {BYTES} bytes, wrk {} on the same {cores} cores, medians of {ROUNDS}", LOAD.join(" "));
    for (tuning, rate) in tunings.iter().zip(&medians) {
        println!("  {:<40} {rate:9.0} requests/s", tuning.to_string());
    }
    let fastest = |has_reuseport: bool| {
        let rows = tunings.iter().zip(&medians).filter(|(tuning, _)| tuning.reuseport == has_reuseport);
        rows.map(|(_, rate)| *rate).fold(0.0, f64::max)
    };
    let ours = medians[nginx.len()];
    let times = [false, true].map(|has_reuseport| ours / fastest(has_reuseport));
    println!("  {:<40} {ours:9.0} requests/s", "replay server");
    println!("  {:.2} × nginx with the same settings (bar: ≥ 1), {:.2} × nginx with reuseport", times[0], times[1]);
    if times[0] >= 1.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Requests a second, measured by wrk; every response must be successful.
fn load(server: SocketAddr) -> f64 {
    let url = format!("http://{server}/0");
    let output = Command::new("wrk").args(LOAD).args(["-H", "Host: www.example.org", &url]).output().expect("wrk");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{said}");
    let rate = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    rate.and_then(|rate| rate.trim().parse().ok()).unwrap_or_else(|| panic!("wrk said: {said}"))
}

fn pages() -> SocketAddr {
    let site = PageHandler::new(&visits(1, 1, BYTES)).expect("a small page");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let server =
        serve::Server::with_responder(Arc::new(site), &serve::Config::default(), vec![listener]).expect("a server");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(server.run(std::future::pending()))
    });
    address
}

/// What may help nginx or not.
#[derive(Clone, Copy)]
struct Tuning {
    /// Whether files go from the page cache to the socket without a copy, in which case the head is sent with them
    /// (`tcp_nopush`).
    sendfile: bool,
    /// Whether each worker has a listening socket of its own.
    reuseport: bool,
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |is_on| if is_on { "on" } else { "off" };
        write!(f, "nginx, sendfile {}, reuseport {}", on(self.sendfile), on(self.reuseport))
    }
}

/// nginx: no log, open files cached.
struct Nginx {
    address: SocketAddr,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Nginx {
    fn start(tuning: Tuning) -> Self {
        let kept = tempfile::tempdir().expect("a folder");
        let folder = kept.path();
        let sendfile = if tuning.sendfile { "sendfile on; tcp_nopush on;" } else { "sendfile off;" };
        let reuseport = if tuning.reuseport { " reuseport" } else { "" };
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let here = folder.display();
        let configuration = format!(
            "daemon off; worker_processes auto; pid {here}/pid; error_log {here}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; {sendfile} keepalive_requests 1000000000;\n\
             open_file_cache max=10; open_file_cache_valid 1h; client_body_temp_path {here}/body;\n\
             server {{ listen {address}{reuseport}; root {here}; }} }}"
        );
        fs::write(folder.join("nginx.conf"), configuration).expect("a configuration");
        fs::write(folder.join("0"), vec![b'x'; BYTES as usize]).expect("a file");
        // Started by root, it reads as another user.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("a passable folder");
        let mut command = Command::new("nginx");
        command.args(["-e", "error.log", "-p"]).arg(folder).args(["-c", "nginx.conf"]);
        let process = command.stderr(Stdio::null()).spawn().expect("nginx");
        let begun = Instant::now();
        while fs::read_to_string(folder.join("pid")).unwrap_or_default().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "nginx did not start");
            thread::sleep(Duration::from_millis(10));
        }
        Self { address, process, _folder: kept }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers exit only with SIGTERM.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}
