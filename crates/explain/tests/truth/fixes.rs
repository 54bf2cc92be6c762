//! Runs each fix for Linux once, because users will type what a finding prints.
//!
//! A host is a network namespace, which has most of these settings. Fixes for the others (the default queue of new devices,
//! the loaded congestion controls), and those whose program is missing, are skipped with a message.

use std::{error::Error, path::Path, process::Command};

use explain::Cause;
use link::{
    cable::{Cable, Options},
    host::Host,
    lanes::Lanes,
};

/// The prefixes of commands that are run.
const COMMANDS: [&str; 3] = ["sysctl -w ", "ip route change ", "nstat "];

/// Runs all fixes on a host with a route to another.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let hosts = [Host::new("client")?, Host::new("server")?];
    let cable = Cable::connect(&hosts[0], &hosts[1], Lanes::default(), &Options::default())?;
    let gateway = cable.addresses()[1].v4.to_string();
    shell(&hosts[0], &format!("ip route replace default via {gateway}"))?;
    let (mut done, mut lacks_program) = (0, false);
    for command in commands() {
        let program = command.split(' ').next().unwrap_or_default();
        if shell(&hosts[0], &format!("command -v {program}")).is_err() {
            eprintln!("SKIPPED: `{command}`: {program} is not installed");
            lacks_program = true;
            continue;
        }
        let command = command.replace("GATEWAY", &gateway);
        if let Some(settings) = command.strip_prefix("sysctl -w ") {
            done += sysctl(&hosts[0], settings)?;
        } else {
            shell(&hosts[0], &command)?;
            done += 1;
        }
        if let Some((_, wanted)) = command.split_once(&format!("default via {gateway} ")) {
            let routes = shell(&hosts[0], "ip route show default")?;
            let shown: Vec<&str> = routes.split_whitespace().collect();
            if !wanted.split_whitespace().all(|word| shown.contains(&word)) {
                return Err(format!("`{command}` made the route `{routes}`").into());
            }
        }
    }
    cable.disconnect()?;
    // Some settings are not per namespace in every kernel, but most are.
    if done < 8 && !lacks_program { Err(format!("only {done} of the fixes could be run").into()) } else { Ok(()) }
}

/// The commands of all fixes for Linux.
fn commands() -> Vec<String> {
    let fixes = Cause::all().flat_map(Cause::fixes);
    let linux = fixes.filter(|fix| fix.system.contains("Linux") || fix.system == "both ends");
    let parts = linux.flat_map(|fix| fix.how.split(';').map(|part| part.trim().to_owned()).collect::<Vec<_>>());
    let mut commands: Vec<String> =
        parts.filter(|part| COMMANDS.iter().any(|prefix| part.starts_with(prefix))).collect();
    commands.sort();
    commands.dedup();
    commands
}

/// Applies settings and reads them back; returns their number.
fn sysctl(host: &Host, settings: &str) -> Result<u32, Box<dyn Error>> {
    let mut done = 0;
    // Values with spaces are quoted.
    for setting in settings.replace("' ", "'\n").split(if settings.contains('\'') { '\n' } else { ' ' }) {
        let (name, value) = setting.split_once('=').ok_or("a setting needs a value")?;
        let value = value.trim_matches('\'');
        let file = Path::new("/proc/sys").join(name.replace('.', "/"));
        let unknown = shell(host, &format!("test -w {}", file.display())).is_err();
        let loaded = host.read_sysctl("net.ipv4.tcp_available_congestion_control")?;
        if unknown || name.ends_with("congestion_control") && !loaded.split_whitespace().any(|known| known == value) {
            eprintln!("SKIPPED: `sysctl -w {setting}`: not a setting of network namespaces");
            continue;
        }
        if let Err(error) = shell(host, &format!("sysctl -w {setting}")) {
            // The administrator decides which congestion controls are allowed.
            if !name.ends_with("congestion_control") {
                return Err(error);
            }
            eprintln!("SKIPPED: {error}");
            continue;
        }
        let set = host.read_sysctl(name)?;
        if set.split_whitespace().ne(value.split_whitespace()) {
            return Err(format!("`sysctl -w {setting}` left {set}").into());
        }
        done += 1;
    }
    Ok(done)
}

/// The output of a command on a host. An ordinary user's PATH lacks the folders of sysctl and ip.
fn shell(host: &Host, command: &str) -> Result<String, Box<dyn Error>> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; {command}")]);
    // Otherwise nstat leaves a file in /tmp.
    let history = tempfile::NamedTempFile::new()?;
    shell.env("NSTAT_HISTORY", history.path());
    host.attach(&mut shell);
    let output = shell.output()?;
    if !output.status.success() {
        return Err(format!("`{command}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
