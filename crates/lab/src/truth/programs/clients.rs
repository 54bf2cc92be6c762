//! The command of a scenario's client.

use std::{fs, net::Ipv4Addr, path::Path, process::Command};

use serde_json::json;
use units::Size;

use super::{CURL, IPERF3, NODE, PORT, PYTHON, RCLONE, WGET, find};
use crate::{
    process,
    truth::{
        measure::MeasureError,
        scenario::{ClientProgram, ClientSide, Scenario},
    },
};

const SCRIPT: &str = include_str!("../scripts/client.py");
const NODE_SCRIPT: &str = include_str!("../scripts/client.js");

/// The pieces in which the script reads slowly, per second.
const READS_PER_SECOND: f64 = 20.0;

/// The command of a scenario's client. In an upload it sends `body`.
pub(crate) fn client(
    scenario: &Scenario,
    server: Ipv4Addr,
    body: &Path,
    folder: &Path,
) -> Result<Command, MeasureError> {
    let side = &scenario.client;
    let urls: Vec<String> =
        scenario.paths().iter().map(|path| format!("{}://{server}:{PORT}{path}", scenario.scheme())).collect();
    match side.program {
        ClientProgram::Curl => curl(scenario, &urls, body, folder),
        ClientProgram::Wget => wget(side, &urls, folder),
        ClientProgram::Rclone => rclone(&urls, folder),
        ClientProgram::Iperf3 => iperf3(scenario, server, folder),
        ClientProgram::Python => script(&find(PYTHON)?, "client.py", SCRIPT, scenario, server, body, folder),
        ClientProgram::Node => script(&find(NODE)?, "client.js", NODE_SCRIPT, scenario, server, body, folder),
    }
}

fn curl(scenario: &Scenario, urls: &[String], body: &Path, folder: &Path) -> Result<Command, MeasureError> {
    let side = &scenario.client;
    let mut command = process::command(&find(CURL)?, folder);
    command.args(["-s", "-S", "-f", "-k"]);
    if let Some(Size(rate)) = side.rate {
        command.args(["--limit-rate", &rate.to_string()]);
    }
    if let Some(pause) = side.pause {
        // The least time between the beginnings of two requests.
        let per_minute = (60.0 / pause.0.as_secs_f64()).round().max(1.0);
        command.args(["--rate", &format!("{per_minute}/m")]);
    }
    if scenario.server.late.is_some() {
        command.args(["--retry", "20", "--retry-connrefused", "--retry-delay", "1"]);
    }
    if scenario.is_http2 {
        command.arg(if scenario.is_tls { "--http2" } else { "--http2-prior-knowledge" });
    }
    for url in urls {
        if scenario.is_upload {
            command.arg("-T").arg(body).arg(url);
        } else {
            command.args(["-o", "/dev/null", url]);
        }
    }
    Ok(command)
}

fn wget(side: &ClientSide, urls: &[String], folder: &Path) -> Result<Command, MeasureError> {
    let mut command = process::command(&find(WGET)?, folder);
    command.args([
        "-q",
        "-O",
        "/dev/null",
        "--no-check-certificate",
        "--tries=20",
        "--retry-connrefused",
        "--waitretry=1",
    ]);
    if let Some(Size(rate)) = side.rate {
        command.arg(format!("--limit-rate={rate}"));
    }
    if let Some(pause) = side.pause {
        command.arg(format!("--wait={:.3}", pause.0.as_secs_f64()));
    }
    command.args(urls);
    Ok(command)
}

fn iperf3(scenario: &Scenario, server: Ipv4Addr, folder: &Path) -> Result<Command, MeasureError> {
    let side = &scenario.client;
    let mut command = process::command(&find(IPERF3)?, folder);
    command.args(["-c", &server.to_string(), "-p", &PORT.to_string(), "-n", &scenario.file.0.to_string()]);
    if !scenario.is_upload {
        command.arg("-R");
    }
    if let Some(Size(rate)) = side.pacing {
        command.args(["--fq-rate", &(8 * rate).to_string()]);
    }
    Ok(command)
}

fn rclone(urls: &[String], folder: &Path) -> Result<Command, MeasureError> {
    let mut command = process::command(&find(RCLONE)?, folder);
    command
        .args(["--config", "/dev/null", "--no-check-certificate", "copyurl"])
        .args(urls.first())
        .arg(folder.join("copied"));
    Ok(command)
}

fn script(
    interpreter: &Path,
    name: &str,
    text: &str,
    scenario: &Scenario,
    server: Ipv4Addr,
    body: &Path,
    folder: &Path,
) -> Result<Command, MeasureError> {
    let side = &scenario.client;
    let mut knobs = json!({ "host": server, "port": PORT, "paths": scenario.paths(), "tls": scenario.is_tls });
    if scenario.is_upload {
        knobs["upload"] = json!(body);
    }
    if let Some(pause) = side.pause {
        knobs["pause"] = json!(pause.0.as_secs_f64());
    }
    if let Some(Size(rate)) = side.rate {
        knobs["read"] = json!([(rate as f64 / READS_PER_SECOND) as u64, 1.0 / READS_PER_SECOND]);
    }
    if let Some(stall) = side.stall {
        knobs["stall"] = json!([scenario.file.0 / 3, stall.0.as_secs_f64()]);
    }
    for (name, size) in
        [("receive_buffer", side.receive_buffer), ("send_buffer", side.send_buffer), ("pacing", side.pacing)]
    {
        if let Some(Size(bytes)) = size {
            knobs[name] = json!(bytes);
        }
    }
    let path = folder.join(name);
    fs::write(&path, text).map_err(|source| MeasureError::File { path: path.clone(), source })?;
    let mut command = process::command(interpreter, folder);
    command.arg(path).arg(knobs.to_string());
    Ok(command)
}
