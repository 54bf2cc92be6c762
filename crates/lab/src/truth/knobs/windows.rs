//! Small buffers of the two hosts.

use units::Size;

use crate::truth::{
    draw::{Draw, size, span},
    scenario::{
        ClientProgram::{self, Curl, Node, Rclone, Wget},
        Scenario,
        ServerProgram::{self, Apache, Nginx, Python},
    },
};

/// The smallest and the largest buffer in bytes.
const BUFFER: (f64, f64) = (8192.0, 49152.0);

/// The sysctl of a buffer: the least, the initial and the largest size.
fn buffer_sysctl(bytes: f64) -> String {
    format!("4096 {bytes:.0} {bytes:.0}")
}

/// Two programs that can transfer a file in this direction.
fn ends(draw: &mut Draw, is_upload: bool) -> Option<(ServerProgram, ClientProgram)> {
    if let Some(pair) = draw.iperf3() {
        return Some(pair);
    }
    if is_upload {
        Some((draw.server(&[Nginx, Python, ServerProgram::Node])?, draw.client(&[Curl, ClientProgram::Python])?))
    } else {
        let server = draw.server(&[Python, Nginx, Apache, ServerProgram::Node])?;
        Some((server, draw.client(&[Curl, Wget, ClientProgram::Python, Node, Rclone])?))
    }
}

/// A receive buffer that is small by the host's sysctl, by the option of nginx, or by SO_RCVBUF of a program.
pub(super) fn receive_buffer(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((20.0, 120.0), (20.0, 100.0));
    let buffer = draw.between(BUFFER.0, BUFFER.1);
    // Half of a buffer is for the kernel's own use (tcp_adv_win_scale).
    let bytes = (buffer / 2.0 / network.rtt * draw.between(0.8, 2.5)).max(1e5);
    let is_upload = draw.chance(0.25);
    let (server, client) = ends(draw, is_upload)?;
    let mut back = draw.scenario(network, server, client, bytes)?;
    back.is_upload = is_upload;
    let mut turned = back.clone();
    if is_upload && server == Nginx {
        turned.server.receive_buffer = Some(size(buffer / 2.0));
    } else if is_upload {
        turned.server.sysctls.insert("net.ipv4.tcp_rmem".to_owned(), buffer_sysctl(buffer));
    } else if client == ClientProgram::Python {
        turned.client.receive_buffer = Some(size(buffer / 2.0));
    } else {
        turned.client.sysctls.insert("net.ipv4.tcp_rmem".to_owned(), buffer_sysctl(buffer));
    }
    Some([turned, back])
}

/// A send buffer that is small by the host's sysctl, or by the option of nginx, Apache or a program.
pub(super) fn send_buffer(draw: &mut Draw) -> Option<[Scenario; 2]> {
    // What Linux has in flight with the smallest buffers: a segment of the network card (TSO) may exceed any.
    const IN_FLIGHT: f64 = 5e4;
    let network = draw.network((50.0, 140.0), (40.0, 100.0));
    let buffer = draw.between(BUFFER.0, BUFFER.1 / 1.5);
    let bytes = IN_FLIGHT / network.rtt * draw.between(1.5, 3.0);
    let is_upload = draw.chance(0.25);
    let (server, client) = ends(draw, is_upload)?;
    let mut back = draw.scenario(network, server, client, bytes)?;
    back.is_upload = is_upload;
    let mut turned = back.clone();
    let half: Size = size(buffer / 2.0);
    if is_upload && client == ClientProgram::Python {
        turned.client.send_buffer = Some(half);
    } else if is_upload {
        turned.client.sysctls.insert("net.ipv4.tcp_wmem".to_owned(), buffer_sysctl(buffer));
    } else if matches!(server, Nginx | Apache) {
        turned.server.send_buffer = Some(half);
    } else {
        turned.server.sysctls.insert("net.ipv4.tcp_wmem".to_owned(), buffer_sysctl(buffer));
    }
    Some([turned, back])
}

/// An upload over HTTP/2 to node, whose window is 64 KiB (RFC 9113 §6.9.2) unless a program sets another.
pub(super) fn http2_window(draw: &mut Draw) -> Option<[Scenario; 2]> {
    const WINDOW: f64 = 65_535.0;
    let network = draw.network((40.0, 120.0), (30.0, 100.0));
    let bytes = WINDOW / network.rtt * draw.between(1.0, 2.5);
    let (server, client) = (draw.server(&[ServerProgram::Node])?, draw.client(&[Curl])?);
    let mut turned = draw.scenario(network, server, client, bytes)?;
    (turned.is_upload, turned.is_http2) = (true, true);
    let mut back = turned.clone();
    back.server.http2_window = Some(Size(16 << 20));
    Some([turned, back])
}

/// A small receive buffer, and a server that computes.
pub(super) fn receive_buffer_and_think(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((20.0, 80.0), (20.0, 100.0));
    let buffer = draw.between(BUFFER.0, BUFFER.1);
    let bytes = buffer / 2.0 / network.rtt * draw.between(0.5, 1.5);
    let server = draw.server(&[Python, ServerProgram::Node])?;
    let client = draw.client(&[Curl, Wget, Rclone])?;
    let back = draw.scenario(network, server, client, bytes)?;
    let mut turned = back.clone();
    turned.client.sysctls.insert("net.ipv4.tcp_rmem".to_owned(), buffer_sysctl(buffer));
    turned.server.think = Some(span(draw.between(0.3, 1.2)));
    Some([turned, back])
}
