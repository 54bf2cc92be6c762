//! The network: loss, rate, queues and other traffic.

use crate::truth::{
    draw::{Draw, Network, span},
    scenario::{
        ClientProgram::{self, Curl, Wget},
        Competitor, Scenario,
        ServerProgram::{self, Apache, Nginx, Python},
    },
};

/// Any server and any client that transfer a file.
fn file_programs(draw: &mut Draw) -> Option<(ServerProgram, ClientProgram)> {
    if let Some(pair) = draw.iperf3() {
        return Some(pair);
    }
    programs(draw)
}

/// Any server and any client.
fn programs(draw: &mut Draw) -> Option<(ServerProgram, ClientProgram)> {
    let server = draw.server(&[Python, Nginx, Apache, ServerProgram::Node])?;
    let client = draw.client(&[Curl, Wget, ClientProgram::Python, ClientProgram::Node, ClientProgram::Rclone])?;
    Some((server, client))
}

/// A congestion control that slows down when packets are lost, and that fills queues.
fn loss_based(draw: &mut Draw, scenario: &mut Scenario) -> Option<()> {
    let known: Vec<_> = draw.installed.congestion_controls.iter().filter(|name| *name != "bbr").cloned().collect();
    scenario.congestion_control = draw.one(&known)?;
    Some(())
}

/// Downloads that share the bottleneck, by another host where that is possible.
fn downloads(draw: &mut Draw, scenario: &Scenario, connections: u32, ahead: f64) -> Competitor {
    let [_, to_server] = &scenario.links;
    Competitor {
        connections,
        ahead: span(ahead),
        with_iperf3: draw.installed.has_iperf3 && draw.chance(0.5),
        is_behind_router: to_server.rate.is_some() && draw.chance(0.5),
    }
}

/// Random loss. The file is as large as Reno transfers in a few seconds (Mathis et al., CCR 1997).
pub(super) fn loss(draw: &mut Draw) -> Option<[Scenario; 2]> {
    const MSS: f64 = 1448.0;
    let network = draw.network((20.0, 120.0), (20.0, 80.0));
    let lossy = Network { loss: draw.between(0.01, 0.05), ..network };
    let (server, client) = file_programs(draw)?;
    let bytes = 1.2 * MSS / network.rtt / lossy.loss.sqrt() * draw.between(1.5, 4.0);
    let mut back = draw.scenario(network, server, client, bytes.max(2e5))?;
    if draw.chance(0.9) {
        loss_based(draw, &mut back)?;
    }
    let turned = Scenario { links: lossy.links(), ..back.clone() };
    Some([turned, back])
}

/// A link that is a fifth to a tenth as fast as without the knob.
pub(super) fn link_rate(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let slow = draw.network((5.0, 50.0), (2.0, 10.0));
    let (server, client) = file_programs(draw)?;
    let bytes = slow.rate / 8.0 * draw.between(0.8, 2.5);
    let turned = draw.scenario(slow, server, client, bytes)?;
    let fast = Network { rate: slow.rate * draw.between(5.0, 10.0), ..slow };
    let back = Scenario { links: fast.links(), ..turned.clone() };
    Some([turned, back])
}

/// Small transfers that queue behind another download: in a queue that holds all that the other may have in flight, and
/// in a short one. The other's receive window limits it, so that the long queue does not overflow: the knob is the
/// delay, not loss.
pub(super) fn bufferbloat(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let short = Network { queue: 0.03, ..draw.network((5.0, 40.0), (5.0, 20.0)) };
    let long = Network { queue: 1.0, ..short };
    let standing = draw.between(0.15, 0.4);
    let (server, client) = programs(draw)?;
    let bytes = draw.between(1e3, 3e4);
    let mut back = draw.scenario(short, server, client, bytes)?;
    // `rclone copyurl` copies one file.
    back.count = if client == ClientProgram::Rclone { 1 } else { draw.count(2, 8) };
    loss_based(draw, &mut back)?;
    // Half of a receive buffer is for the kernel's own use.
    let window = short.rate / 8.0 * (standing + short.rtt);
    back.client
        .sysctls
        .insert("net.ipv4.tcp_rmem".to_owned(), format!("4096 131072 {:.0}", (2.0 * window).max(131_072.0)));
    back.competitor = Some(downloads(draw, &back, 1, 2.0));
    let turned = Scenario { links: long.links(), ..back.clone() };
    Some([turned, back])
}

/// A download that shares the bottleneck with others.
pub(super) fn competitor(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((10.0, 60.0), (8.0, 40.0));
    let (server, client) = file_programs(draw)?;
    let connections = draw.count(2, 6);
    let bytes = network.rate / 8.0 * draw.between(0.2, 0.6);
    let mut back = draw.scenario(network, server, client, bytes)?;
    loss_based(draw, &mut back)?;
    let mut turned = back.clone();
    turned.competitor = Some(downloads(draw, &back, connections, 1.0));
    Some([turned, back])
}
