//! Many users at once: `haul gateway` in front of Apache or `haul serve`, over an emulated link, each user with a password and a
//! folder of their own, doing all kinds of work with pauses.
//!
//! Before `haul serve`, every second user is a Windows machine and locks each file that it saves. Before Apache none is: Debian's
//! Apache 2.4.71 loses locks when several clients lock different files at once, also without a gateway (of 400 files that ten
//! clients locked, wrote and unlocked over loopback, a PUT failed with 412 or an UNLOCK with 400 for about 20).
//!
//! This program runs three times: it starts `haul link`, and is both of its commands. On the server's host it becomes the
//! server; on the client's it runs the gateway and all users, and judges:
//!
//! - no request has an unexpected status, and every content and listing is what this user has left there, during the work
//!   and on the server's disk at the end;
//! - the server's log has no request of one user for another's folder, and each has as many lines in the gateway's log as
//!   requests were sent;
//! - everyone gets a fair share of the completed work;
//! - the gateway's memory does not grow.

mod memory;
mod report;
mod server;
mod user;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use memory::Memory;
pub(crate) use server::{Program, missing};
use user::{User, Work};

/// A timeout that even a busy machine does not reach.
const PATIENCE: Duration = Duration::from_mins(2);
const RTT: &str = "18ms";
const RATE: &str = "100mbit";

/// How many users do how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) users: usize,
    pub(crate) seconds: u64,
    /// The mean pause between two tasks of a user.
    pub(crate) pause_ms: u64,
    pub(crate) server: Program,
}

/// What must hold besides correctness.
#[derive(Debug)]
pub(crate) struct Bars {
    /// Of completed tasks per user.
    pub(crate) most_to_least: f64,
    pub(crate) jain: f64,
    /// How much more memory the last third of the time may need than the middle one: both together.
    pub(crate) growth: f64,
    pub(crate) growth_bytes: u64,
}

/// Runs the whole; an error says what is wrong.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let folder = tempfile::Builder::new().prefix("longhaul-users-").tempdir().map_err(|error| error.to_string())?;
    // Started by root, Apache serves as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut link = Command::new(env!("CARGO_BIN_EXE_haul"));
    link.args(["link", "--quiet", "--rtt", RTT, "--rate", RATE]);
    link.args(["--server", "USERS_ROLE=server exec \"$USERS_PROGRAM\"", "--"]).arg(&program);
    link.env("USERS_ROLE", "clients").env("USERS_PROGRAM", &program).env("USERS_FOLDER", folder.path());
    link.env("USERS_PLAN", format!("{} {} {}", plan.users, plan.seconds, plan.pause_ms));
    link.env("USERS_SERVER", plan.server.name());
    let mut running = Ended(link.spawn().map_err(|error| error.to_string())?);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE + Duration::from_secs(plan.seconds) + PATIENCE {
        match running.0.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(50)),
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("the users' end of the link: {status}; see above")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("it does not end".to_owned())
}

/// What this process is for, if it was started by [`run`]: it does that, and returns the status.
pub(crate) fn role(bars: &Bars) -> Option<ExitCode> {
    let role = env::var("USERS_ROLE").ok()?;
    let folder = PathBuf::from(env::var_os("USERS_FOLDER")?);
    let plan = env::var("USERS_PLAN").ok()?;
    let numbers: Vec<u64> = plan.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [users, seconds, pause_ms] = numbers[..] else { return None };
    let program = Program::named(&env::var("USERS_SERVER").ok()?)?;
    let plan = Plan { users: users as usize, seconds, pause_ms, server: program };
    let server = env::var("HAUL_SERVER_IP").ok()?;
    let result = match role.as_str() {
        "server" => Err(server::become_server(&folder, &server, &plan)),
        _ => clients(&folder, &server, &plan, bars),
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    })
}

/// A process that does not outlive this one.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn clients(folder: &Path, server: &str, plan: &Plan, bars: &Bars) -> Result<(), String> {
    let begun = Instant::now();
    while TcpStream::connect((server, server::PORT)).is_err() {
        if begun.elapsed() > PATIENCE {
            return Err("the server does not start".to_owned());
        }
        thread::sleep(Duration::from_millis(50));
    }
    let (gateway, url, status) = start_gateway(folder, server)?;
    let memory = Memory::watch(gateway.0.id(), Duration::from_millis((plan.seconds * 1000 / 300).max(100)));
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let works = runtime.block_on(async {
        let end = Instant::now() + Duration::from_secs(plan.seconds);
        let tasks: Vec<_> =
            (0..plan.users).map(|number| tokio::spawn(User::new(number, &url, plan).work_until(end))).collect();
        let mut works: Vec<Work> = Vec::new();
        for task in tasks {
            works.push(task.await.map_err(|error| error.to_string())?);
        }
        Ok::<_, String>(works)
    })?;
    let memory = memory.end();
    let broken = runtime.block_on(user::acknowledged_failures(&status))?;
    // It sends what it has acknowledged.
    drop(gateway);
    report::judge(folder, plan, bars, &works, &memory, &broken)
}

/// Starts the gateway; returns its URL, and the one of its metrics.
fn start_gateway(folder: &Path, server: &str) -> Result<(Ended, String, String), String> {
    let status = "127.0.0.1:9100";
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.args(["gateway", "--upstream", &format!("https://{server}:{}/", server::PORT), "--status", status]);
    command.arg("--ca").arg(folder.join("server.pem")).arg("--log").arg(folder.join("gateway.log"));
    command.args(["--listen", "127.0.0.1:8080"]).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut gateway = Ended(command.spawn().map_err(|error| error.to_string())?);
    let mut said = BufReader::new(gateway.0.stderr.take().ok_or("no standard error")?);
    let mut greeting = String::new();
    while !greeting.contains("Stop with Ctrl-C.") {
        if said.read_line(&mut greeting).map_err(|error| error.to_string())? == 0 {
            return Err(format!("haul gateway does not start: {greeting}"));
        }
    }
    // What it says later must find a reader, too.
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
    Ok((gateway, "http://127.0.0.1:8080".to_owned(), format!("http://{status}/metrics")))
}
