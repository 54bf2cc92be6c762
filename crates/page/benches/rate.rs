//! How many requests a second the replay server answers, beside nginx: keep-alive, 5 KB, the same load on both, in
//! turns. The bar: no fewer than nginx.
//!
//!     cargo bench --package page --bench rate

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
    let folder = tempfile::tempdir().expect("a folder");
    let nginx = Nginx::start(folder.path());
    let pages = pages();
    let servers = [("nginx", nginx.address), ("pages", pages)];
    let mut rates = [vec![], vec![]];
    for round in 0..=ROUNDS {
        for (rates, (_, address)) in rates.iter_mut().zip(servers) {
            let rate = load(address);
            // The first round warms up.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let [nginx, pages] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("keep-alive, {BYTES} bytes, wrk {} on the same {cores} cores, medians of {ROUNDS}", LOAD.join(" "));
    println!("  nginx          {nginx:9.0} requests/s");
    println!("  replay server  {pages:9.0} requests/s, {:.2} × nginx (bar: ≥ 1)", pages / nginx);
    if pages >= nginx { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// nginx, tuned: no log, open files cached.
struct Nginx {
    address: SocketAddr,
    process: Child,
}

impl Nginx {
    fn start(folder: &Path) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let here = folder.display();
        let configuration = format!(
            "daemon off; worker_processes auto; pid {here}/pid; error_log {here}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;\n\
             open_file_cache max=10; open_file_cache_valid 1h; client_body_temp_path {here}/body;\n\
             server {{ listen {address}; root {here}; }} }}"
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
        Self { address, process }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers exit only with SIGTERM.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}
