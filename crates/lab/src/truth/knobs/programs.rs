//! Programs that wait, read slowly or write slowly.

use crate::truth::{
    draw::{Draw, size, span},
    scenario::{
        ClientProgram::{self, Curl, Wget},
        Scenario,
        ServerProgram::{self, Nginx, Python},
    },
};

/// A client that reads at a rate below the link's, or that stops once for a second or two. The file is larger than what
/// the receive buffer holds.
pub(super) fn slow_reader(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((5.0, 60.0), (20.0, 80.0));
    let server = draw.server(&[Python, Nginx, ServerProgram::Apache, ServerProgram::Node])?;
    let client = draw.client(&[Curl, Wget, ClientProgram::Python])?;
    let rate = draw.between(3e5, 9e5);
    let seconds = draw.between(1.5, 3.0);
    let stops = client == ClientProgram::Python && draw.chance(0.6);
    // A window of 6 MB is the most; while the program stops, the buffer takes what it has announced so far.
    let bytes = if stops { network.rate / 8.0 * draw.between(0.8, 1.6) } else { rate * seconds };
    let back = draw.scenario(network, server, client, bytes)?;
    let mut turned = back.clone();
    if stops {
        turned.client.stall = Some(span(draw.between(1.0, 2.5)));
    } else {
        turned.client.rate = Some(size(rate));
    }
    Some([turned, back])
}

/// A server (or, in uploads, a client) that writes at a rate below the link's.
pub(super) fn slow_writer(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((5.0, 60.0), (20.0, 80.0));
    let rate = draw.between(1.5e5, 6e5);
    let bytes = rate * draw.between(1.2, 2.5);
    let is_upload = draw.chance(0.3);
    let server = draw.server(&[Nginx, Python, ServerProgram::Node])?;
    let client = if is_upload {
        draw.client(&[Curl])?
    } else {
        draw.client(&[Curl, Wget, ClientProgram::Python, ClientProgram::Node, ClientProgram::Rclone])?
    };
    let mut back = draw.scenario(network, server, client, bytes)?;
    back.is_upload = is_upload;
    let mut turned = back.clone();
    if is_upload {
        turned.client.rate = Some(size(rate));
    } else {
        turned.server.write_rate = Some(size(rate));
    }
    Some([turned, back])
}

/// Python's server writes the head and the body of a response separately. With small files, Nagle's algorithm holds the
/// body until the head is acknowledged, and the client delays that.
pub(super) fn nagle(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((3.0, 40.0), (10.0, 100.0));
    let server = draw.server(&[Python])?;
    let client = draw.client(&[Curl, Wget, ClientProgram::Python, ClientProgram::Node])?;
    let bytes = draw.between(40.0, 900.0);
    let mut turned = draw.scenario(network, server, client, bytes)?;
    turned.count = draw.count(12, 40);
    let back = turned.clone();
    turned.server.nodelay = false;
    Some([turned, back])
}

/// A server that computes before each response.
pub(super) fn server_think(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((5.0, 80.0), (10.0, 100.0));
    let server = draw.server(&[Python, ServerProgram::Node])?;
    let client = draw.client(&[Curl, Wget, ClientProgram::Python, ClientProgram::Node])?;
    let bytes = draw.between(2e3, 1e5);
    let mut back = draw.scenario(network, server, client, bytes)?;
    back.count = draw.count(1, 4);
    let mut turned = back.clone();
    turned.server.think = Some(span(draw.between(0.2, 0.9)));
    Some([turned, back])
}

/// A client that pauses between its requests, over one connection.
pub(super) fn client_think(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((5.0, 60.0), (10.0, 100.0));
    let server = draw.server(&[Python, Nginx, ServerProgram::Apache, ServerProgram::Node])?;
    let client = draw.client(&[Wget, ClientProgram::Python, ClientProgram::Node, Curl])?;
    let bytes = draw.between(5e3, 1e5);
    let mut back = draw.scenario(network, server, client, bytes)?;
    back.count = draw.count(3, 7);
    let mut turned = back.clone();
    turned.client.pause = Some(span(draw.between(0.3, 0.9)));
    Some([turned, back])
}
