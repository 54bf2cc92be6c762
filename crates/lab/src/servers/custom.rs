//! A server of the user's own: started by its command, and ready when it listens.
//!
//! Whether it listens is read in `/proc/net/tcp` of its host. A connection would show the same, and would be in the
//! server's log and in its count of connections.

use std::{
    fs,
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use super::{Process, RequestLog, Running, Server, ServerError, Setup, url};
use crate::{
    custom::{
        CustomServer, ServerStep,
        program::{self, Environment},
        template::{Template, Values},
    },
    deadline::{Deadline, Stop},
    process::{Daemon, Missing, ProcessError, last_lines, run_until_exit},
    spawn::{Local, Spawn},
};

/// Time limit of a start: a Java program takes some seconds.
const START: Duration = Duration::from_mins(1);

/// Time limit of a command that prints a version.
const VERSION: Duration = Duration::from_secs(5);

/// The state of a listening socket in `/proc/net/tcp` (proc_pid_net(5), `TCP_LISTEN`).
const LISTENING: &str = "0A";

impl Server for Arc<CustomServer> {
    fn name(&self) -> &'static str {
        CustomServer::name(self)
    }

    fn describe(&self) -> &'static str {
        "a server of the user's own"
    }

    fn missing(&self) -> Option<Missing> {
        let program = || Some(Missing { what: self.missing_program()?, package: "".into() });
        self.needs().missing().or_else(program)
    }

    fn tls(&self) -> bool {
        self.has("cert")
    }

    fn settings(&self) -> Vec<(String, String)> {
        let command = self.step(ServerStep::Command).map(|command| ("command".to_owned(), command.text().to_owned()));
        let version = self.step(ServerStep::Version).and_then(|template| version(self, template));
        command.into_iter().chain(version.map(|version| ("version".to_owned(), version))).collect()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let name = CustomServer::name(self);
        let scratch = setup.scratch;
        let (root, home) = (scratch.join("root"), program::home(scratch));
        for folder in [&root, &home] {
            let prepare = |source| ServerError::Prepare { server: name, path: folder.clone(), source };
            fs::create_dir_all(folder).map_err(prepare)?;
        }
        let values = write_files(self, setup, &root)?;
        let environment =
            Environment { values: &values, own: self.environment(), scratch, trust: None, credentials: None };
        let failed = |why: String| ServerError::Start { server: name, address: setup.address, why };
        let deadline = setup.deadline.extended(START);
        if let Some(template) = self.step(ServerStep::Setup) {
            let mut command = environment.command(template);
            let done = run_until_exit(setup.host, &mut command, &deadline, "its setup");
            done.map_err(|error| failed(error.to_string()))?;
        }
        let command = self.step(ServerStep::Command).ok_or_else(|| failed("it has no command".to_owned()))?;
        let output = scratch.join("output");
        let daemon = Daemon::start(setup.host, &mut environment.command(command), &output);
        let mut daemon = daemon.map_err(|error| failed(error.to_string()))?;
        wait_until_it_listens(setup, &mut daemon, &output, &deadline).map_err(failed)?;
        let log = self.has(ACCESS_LOG).then(|| RequestLog::new(values[ACCESS_LOG].clone().into()));
        Ok(Running { url: url(setup), root, owner: None, log, process: Process::Daemon(daemon) })
    }
}

/// The placeholder of the access log.
const ACCESS_LOG: &str = "access-log";

/// Writes certificate, key and configuration, and returns the values of the placeholders.
fn write_files(server: &CustomServer, setup: &Setup, root: &Path) -> Result<Values, ServerError> {
    let file = |name: &str| setup.scratch.join(name);
    let mut values: Values = [
        ("address", setup.address.ip().to_string()),
        ("port", setup.address.port().to_string()),
        ("home", program::users_home()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let files = [
        ("dir", root.to_owned()),
        ("tmp", setup.scratch.to_owned()),
        ("cert", file("server.pem")),
        ("key", file("server.key")),
        (ACCESS_LOG, file("access.log")),
        ("config", file("config")),
    ];
    values.extend(files.into_iter().map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned())));
    let tls = setup.certificates.map(|made| [("cert", made.server_pem.clone()), ("key", made.key_pem.clone())]);
    let config = server.step(ServerStep::Config).map(|text| ("config", text.fill(&values)));
    for (name, text) in tls.into_iter().flatten().chain(config) {
        let path = Path::new(&values[name]);
        program::write_private(path, &text).map_err(|source| ServerError::Prepare {
            server: server.name(),
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(values)
}

/// Waits until a socket of the server's host listens on its port.
fn wait_until_it_listens(setup: &Setup, daemon: &mut Daemon, output: &Path, deadline: &Deadline) -> Result<(), String> {
    let said = || last_lines(&fs::read_to_string(output).unwrap_or_default());
    let mut pause = Duration::from_millis(5);
    while !is_listening(setup.host, setup.address.port()) {
        match daemon.check() {
            Err(ProcessError::Failed { status, .. }) => {
                let ended = if status.success() {
                    "its command ended, but must stay in the foreground".to_owned()
                } else {
                    format!("its command failed ({status})")
                };
                return Err(format!("{ended}: {}", said()).trim_end_matches([' ', ':']).to_owned());
            }
            Err(error) => return Err(error.to_string()),
            Ok(()) => {}
        }
        if let Err(stop) = deadline.check() {
            let why = match stop {
                Stop::TimedOut(time) => format!("it did not listen on port {} within {time:.0?}", setup.address.port()),
                Stop::Cancelled => format!("it {stop}"),
            };
            return Err(format!("{why}: {}", said()).trim_end_matches([' ', ':']).to_owned());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(())
}

/// Whether a TCP socket listens on this port of a host, at any address.
fn is_listening(host: &dyn Spawn, port: u16) -> bool {
    let (answer, listens) = mpsc::channel();
    let look = move || {
        let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")));
        let is_it = |line: &str| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().and_then(|local| u16::from_str_radix(local.rsplit(':').next()?, 16).ok());
            local == Some(port) && fields.nth(1) == Some(LISTENING)
        };
        let _ = answer.send(tables.iter().flatten().any(|table| table.lines().any(is_it)));
    };
    let Ok(thread) = host.thread("listening", Box::new(look)) else { return false };
    let _ = thread.join();
    listens.recv().unwrap_or(false)
}

/// What its version command prints first.
fn version(server: &CustomServer, template: &Template) -> Option<String> {
    let values = [("home".to_owned(), program::users_home())].into();
    let own = server.environment();
    let environment = Environment { values: &values, own, scratch: Path::new("/"), trust: None, credentials: None };
    let mut command = environment.command(template);
    let output = run_until_exit(&Local, &mut command, &Deadline::for_cleanup(VERSION), "its version").ok()?;
    [output.stdout, output.stderr].concat().lines().next().map(str::to_owned)
}
