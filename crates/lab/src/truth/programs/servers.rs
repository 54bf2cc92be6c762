//! Starting the servers of a scenario.

use std::{
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use link::host::Host;
use serde_json::json;
use units::Size;

use super::{APACHE, COMPETITOR_PORT, CURL, IPERF3, NGINX, NODE, PORT, PYTHON, find, is_listening};
use crate::{
    deadline::Deadline,
    process::{self, Daemon, ordinary_user},
    truth::{
        measure::{CERTIFICATE, KEY, MeasureError},
        scenario::{Competitor, Scenario, ServerProgram},
    },
};

const SCRIPT: &str = include_str!("../scripts/server.py");
const NODE_SCRIPT: &str = include_str!("../scripts/server.js");

/// The time between two writes of a program that writes slowly.
const WRITE_GAP: Duration = Duration::from_millis(100);

/// Starts the server of a scenario, and waits until it listens; not for one that listens late.
pub(crate) fn start(
    scenario: &Scenario,
    host: &Host,
    root: &Path,
    folder: &Path,
    deadline: &Deadline,
) -> Result<Daemon, MeasureError> {
    let mut command = match scenario.server.program {
        ServerProgram::Python => python(scenario, root, folder)?,
        ServerProgram::Node => node(scenario, root, folder)?,
        ServerProgram::Nginx => nginx(scenario, root, folder)?,
        ServerProgram::Apache => apache(scenario, root, folder)?,
        ServerProgram::Iperf3 => {
            let mut command = process::command(&find(IPERF3)?, folder);
            command.args(["-s", "-p", &PORT.to_string()]);
            command
        }
    };
    let mut daemon = Daemon::start(host, &mut command, &folder.join("server.log"))?;
    if scenario.server.late.is_none() {
        wait(host, PORT, &mut daemon, deadline)?;
    }
    Ok(daemon)
}

fn wait(host: &Host, port: u16, daemon: &mut Daemon, deadline: &Deadline) -> Result<(), MeasureError> {
    while !is_listening(host, port) {
        daemon.check()?;
        deadline.check().map_err(|stop| MeasureError::NotReady { port, stop })?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn file(folder: &Path, name: &str, text: &str) -> Result<PathBuf, MeasureError> {
    let path = folder.join(name);
    match fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(source) => Err(MeasureError::File { path, source }),
    }
}

/// The size of a write and the seconds after it, for a rate in bytes per second.
fn pieces(rate: Size) -> [f64; 2] {
    let gap = WRITE_GAP.as_secs_f64();
    [(rate.0 as f64 * gap).round().max(1.0), gap]
}

/// Python's server as it is, unless a knob, an upload or TLS needs the script.
fn python(scenario: &Scenario, root: &Path, folder: &Path) -> Result<Command, MeasureError> {
    let mut command = process::command(&find(PYTHON)?, folder);
    let knobs = script_knobs(scenario, root, folder);
    if !scenario.is_upload && knobs.as_object().is_some_and(|knobs| knobs.len() == 2) {
        command.args(["-m", "http.server", "--protocol", "HTTP/1.1", "--directory"]).arg(root);
        command.arg(PORT.to_string());
    } else {
        command.arg(file(folder, "server.py", SCRIPT)?).arg(knobs.to_string());
    }
    Ok(command)
}

fn node(scenario: &Scenario, root: &Path, folder: &Path) -> Result<Command, MeasureError> {
    let mut command = process::command(&find(NODE)?, folder);
    command.arg(file(folder, "server.js", NODE_SCRIPT)?).arg(script_knobs(scenario, root, folder).to_string());
    Ok(command)
}

/// The settings of a script, of which the root and the port are always there.
fn script_knobs(scenario: &Scenario, root: &Path, folder: &Path) -> serde_json::Value {
    let server = &scenario.server;
    let mut knobs = json!({ "root": root, "port": PORT });
    if scenario.is_tls {
        knobs["certificate"] = json!(folder.join(CERTIFICATE));
        knobs["key"] = json!(folder.join(KEY));
    }
    if server.nodelay {
        knobs["nodelay"] = json!(true);
    }
    if scenario.is_http2 {
        knobs["http2"] = json!({ "window": server.http2_window.map(|Size(bytes)| bytes) });
    }
    for (name, time) in [("think", server.think), ("late", server.late)] {
        if let Some(time) = time {
            knobs[name] = json!(time.0.as_secs_f64());
        }
    }
    if let Some(Size(rate)) = server.pacing {
        knobs["pacing"] = json!(rate);
    }
    if let Some(rate) = server.write_rate {
        let [size, gap] = pieces(rate);
        knobs["write"] = json!([size as u64, gap]);
    }
    knobs
}

fn nginx(scenario: &Scenario, root: &Path, folder: &Path) -> Result<Command, MeasureError> {
    let server = &scenario.server;
    let here = folder.display();
    let (ssl, certificate) = if scenario.is_tls {
        (" ssl", format!("ssl_certificate {here}/{CERTIFICATE}; ssl_certificate_key {here}/{KEY};"))
    } else {
        ("", String::new())
    };
    let option = |name: &str, size: Option<Size>| size.map(|size| format!(" {name}={}", size.0)).unwrap_or_default();
    let buffers = option("sndbuf", server.send_buffer) + &option("rcvbuf", server.receive_buffer);
    let rate = server.write_rate.map(|rate| format!("limit_rate {};", rate.0)).unwrap_or_default();
    // The sandbox's root; its files are on a tmpfs of its own.
    let user = if ordinary_user().is_some() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {here}/{kind};\n"))
        .concat();
    let text = format!(
        "daemon off;\n{user}\nworker_processes 1;\npid {here}/pid;\nerror_log {here}/error.log;\n\
         events {{ worker_connections 256; }}\nhttp {{\naccess_log off;\nsendfile on;\nclient_max_body_size 0;\n{temporary}\
         server {{ listen {PORT}{ssl}{buffers}; {certificate} root {root}; {rate} location / {{ dav_methods PUT; }} }}\n}}\n",
        root = root.display()
    );
    let mut command = process::command(&find(NGINX)?, folder);
    command.arg("-p").arg(folder).arg("-c").arg(file(folder, "nginx.conf", &text)?).args(["-e", "error.log"]);
    Ok(command)
}

fn apache(scenario: &Scenario, root: &Path, folder: &Path) -> Result<Command, MeasureError> {
    let server = &scenario.server;
    let here = folder.display();
    let user = ordinary_user().map(|(uid, gid)| format!("User #{uid}\nGroup #{gid}\n")).unwrap_or_default();
    let size = |name: &str, size: Option<Size>| size.map(|size| format!("{name} {}\n", size.0)).unwrap_or_default();
    let buffers = size("SendBufferSize", server.send_buffer) + &size("ReceiveBufferSize", server.receive_buffer);
    let modules = "/usr/lib/apache2/modules";
    let tls = if scenario.is_tls {
        format!(
            "LoadModule ssl_module {modules}/mod_ssl.so\nSSLEngine on\nSSLSessionCache none\n\
             SSLCertificateFile {here}/{CERTIFICATE}\nSSLCertificateKeyFile {here}/{KEY}\n"
        )
    } else {
        String::new()
    };
    let text = format!(
        "ServerRoot {here}\nServerName localhost\nDefaultRuntimeDir {here}\nPidFile {here}/pid\nMutex file:{here}\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         {user}Listen 0.0.0.0:{PORT}\n{tls}KeepAlive on\nErrorLog {here}/error.log\n{buffers}\
         DocumentRoot {root}\n<Directory {root}>\nRequire all granted\n</Directory>\n",
        root = root.display()
    );
    let mut command = process::command(&find(APACHE)?, folder);
    command.arg("-f").arg(file(folder, "apache.conf", &text)?).args(["-D", "FOREGROUND"]);
    Ok(command)
}

/// Starts downloads that share the links, and lets them run ahead. They end when the returned programs are dropped.
pub(crate) fn competitor(
    competitor: Competitor,
    hosts: [&Host; 2],
    address: Ipv4Addr,
    folder: &Path,
    deadline: &Deadline,
) -> Result<Vec<Daemon>, MeasureError> {
    let [client, server] = hosts;
    let (port, count) = (COMPETITOR_PORT.to_string(), competitor.connections);
    let mut programs = Vec::new();
    if competitor.with_iperf3 {
        let iperf3 = find(IPERF3)?;
        let mut command = process::command(&iperf3, folder);
        command.args(["-s", "-p", &port]);
        programs.push(Daemon::start(server, &mut command, &folder.join("competitor.log"))?);
        wait(server, COMPETITOR_PORT, &mut programs[0], deadline)?;
        let mut command = process::command(&iperf3, folder);
        let address = address.to_string();
        command.args(["-c", &address, "-p", &port, "-R", "-t", "120", "-P", &count.to_string()]);
        programs.push(Daemon::start(client, &mut command, &folder.join("downloads.log"))?);
    } else {
        let mut command = process::command(&find(PYTHON)?, folder);
        let knobs = json!({ "root": folder, "port": COMPETITOR_PORT });
        command.arg(file(folder, "competitor.py", SCRIPT)?).arg(knobs.to_string());
        programs.push(Daemon::start(server, &mut command, &folder.join("competitor.log"))?);
        wait(server, COMPETITOR_PORT, &mut programs[0], deadline)?;
        for index in 0..count {
            let mut command = process::command(&find(CURL)?, folder);
            command.args(["-s", "-o", "/dev/null", &format!("http://{address}:{port}/endless")]);
            programs.push(Daemon::start(client, &mut command, &folder.join(format!("download{index}.log")))?);
        }
    }
    let ahead = Deadline::for_cleanup(competitor.ahead.0);
    while ahead.check().is_ok() {
        deadline.check().map_err(|stop| MeasureError::Stopped { stop })?;
        thread::sleep(ahead.slice());
    }
    for program in &mut programs {
        program.check()?;
    }
    // Kill rather than stop: an endless download has nothing to finish.
    Ok(programs)
}

impl From<crate::process::Missing> for MeasureError {
    fn from(missing: crate::process::Missing) -> Self {
        Self::Files(io::Error::other(missing))
    }
}
