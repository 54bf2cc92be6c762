//! Runs a scenario: two hosts, a cable, two programs, three captures.

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use capture::{Summary, pcapng::Reader};
use link::{
    cable::{Cable, Options},
    host::Host,
};

use crate::{
    path::{Tap, lanes},
    programs::{Observed, run_programs},
    scenario::{End, Scenario},
};

/// The vantage points of the captures, from the client to the server.
pub(crate) const VANTAGE_POINTS: [&str; 3] = ["client", "middle", "server"];

/// The captures and measurements of a run.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// The captures at [`VANTAGE_POINTS`].
    pub(crate) captures: [PathBuf; 3],
    pub(crate) observed: Observed,
}

/// Runs a scenario, and saves its captures to `folder`.
pub(crate) fn run(scenario: &Scenario, folder: &Path) -> Result<Recorded, Box<dyn Error>> {
    let taps = [Tap::new(VANTAGE_POINTS[0])?, Tap::new(VANTAGE_POINTS[1])?, Tap::new(VANTAGE_POINTS[2])?];
    let hosts = [Host::new("client")?, Host::new("server")?];
    let options = Options { mtu: scenario.mtu, ..Options::default() };
    let cable = Cable::connect(&hosts[0], &hosts[1], lanes(scenario, &taps)?, &options)?;
    for (host, end) in hosts.iter().zip([&scenario.client, &scenario.server]) {
        set_up(host, end)?;
    }
    let server = cable.addresses()[1];
    let at = if scenario.ipv6 { server.v6.into() } else { server.v4.into() };
    let observed = run_programs(scenario, &hosts, at)?;
    // The connection closes, and its last packets arrive.
    std::thread::sleep(scenario.path.rtt.total() * 2);
    let traffic = cable.disconnect()?;
    if traffic.iter().any(|lane| lane.device_drops > 0) {
        return Err("a host's device dropped packets; this machine is too busy".into());
    }
    std::fs::create_dir_all(folder)?;
    let captures = VANTAGE_POINTS.map(|name| folder.join(format!("{name}.pcapng")));
    for (tap, capture) in taps.iter().zip(&captures) {
        tap.save(capture)?;
    }
    let recorded = Recorded { captures, observed };
    check(scenario, &recorded)?;
    Ok(recorded)
}

/// Checks what holds for every scenario: everything was received, and each capture has it.
fn check(scenario: &Scenario, recorded: &Recorded) -> Result<(), Box<dyn Error>> {
    let sizes = scenario.sizes();
    let [up, down] = &recorded.observed.kernels;
    for (size, kernel) in sizes.into_iter().zip([up, down]) {
        let acknowledged = kernel.bytes_acked.unwrap_or(u64::MAX);
        if acknowledged < size {
            return Err(format!("{size} bytes were sent, and only {acknowledged} acknowledged").into());
        }
    }
    if recorded.observed.exchanges.len() != scenario.exchange.len() {
        return Err("an exchange is missing".into());
    }
    for capture in &recorded.captures {
        let summary = Summary::of(&mut Reader::open(capture)?)?;
        let [connection] = &summary.connections[..] else {
            return Err(format!("{} shows {} connections", capture.display(), summary.connections.len()).into());
        };
        let carried = [connection.to_server.bytes, connection.to_client.bytes];
        if carried.iter().zip(sizes).any(|(carried, size)| *carried < size) {
            return Err(format!("{} shows {carried:?} bytes of {sizes:?}", capture.display()).into());
        }
    }
    Ok(())
}

fn set_up(host: &Host, end: &End) -> Result<(), Box<dyn Error>> {
    // The same on every machine. BBR, the default of some, has another kind of slow start.
    host.sysctl("net.ipv4.tcp_congestion_control", "reno")?;
    for (name, value) in &end.sysctl {
        host.sysctl(name, value)?;
    }
    if let Some(segments) = end.initial_window {
        host.initial_window(segments)?;
    }
    Ok(())
}
