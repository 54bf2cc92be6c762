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
    programs::{Told, talk},
    scenario::{End, Scenario},
};

/// The places of the captures, from the client to the server.
pub(crate) const PLACES: [&str; 3] = ["client", "middle", "server"];

/// What a scenario left behind.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    /// The captures at [`PLACES`].
    pub(crate) captures: [PathBuf; 3],
    pub(crate) told: Told,
}

/// Plays a scenario, with its captures in `folder`.
pub(crate) fn play(scenario: &Scenario, folder: &Path) -> Result<Played, Box<dyn Error>> {
    let taps = [Tap::new(PLACES[0])?, Tap::new(PLACES[1])?, Tap::new(PLACES[2])?];
    let hosts = [Host::new("client")?, Host::new("server")?];
    let options = Options { mtu: scenario.mtu, ..Options::default() };
    let cable = Cable::connect(&hosts[0], &hosts[1], lanes(scenario, &taps)?, &options)?;
    for (host, end) in hosts.iter().zip([&scenario.client, &scenario.server]) {
        set_up(host, end)?;
    }
    let server = cable.addresses()[1];
    let at = if scenario.ipv6 { server.v6.into() } else { server.v4.into() };
    let told = talk(scenario, &hosts, at)?;
    // The ends of the connection close, and their last words pass.
    std::thread::sleep(scenario.path.rtt.0 * 2);
    let traffic = cable.disconnect()?;
    if traffic.iter().any(|way| way.device_drops > 0) {
        return Err("a host's device dropped packets; this machine is too busy".into());
    }
    std::fs::create_dir_all(folder)?;
    let captures = PLACES.map(|place| folder.join(format!("{place}.pcapng")));
    for (tap, capture) in taps.iter().zip(&captures) {
        tap.save(capture)?;
    }
    let played = Played { captures, told };
    check(scenario, &played)?;
    Ok(played)
}

/// What must be true of every scenario whatever it is about: the programs have heard all that was said, and each
/// capture shows it.
fn check(scenario: &Scenario, played: &Played) -> Result<(), Box<dyn Error>> {
    let sizes = scenario.sizes();
    let [up, down] = &played.told.kernels;
    for (size, kernel) in sizes.into_iter().zip([up, down]) {
        let acknowledged = kernel.bytes_acked.unwrap_or(u64::MAX);
        if acknowledged < size {
            return Err(format!("{size} bytes were sent, and only {acknowledged} acknowledged").into());
        }
    }
    if played.told.exchanges.len() != scenario.exchange.len() {
        return Err("an exchange is missing".into());
    }
    for capture in &played.captures {
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
    // The same on every machine: BBR, which some have as theirs, has no slow start as others know it.
    host.sysctl("net.ipv4.tcp_congestion_control", "reno")?;
    for (name, value) in &end.sysctl {
        host.sysctl(name, value)?;
    }
    if let Some(segments) = end.initial_window {
        host.initial_window(segments)?;
    }
    Ok(())
}
