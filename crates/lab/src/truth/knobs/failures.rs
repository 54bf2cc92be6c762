//! Connections that are reset or refused.

use crate::truth::{
    draw::{Draw, span},
    scenario::{
        ClientProgram::{self, Curl, Wget},
        Scenario,
        ServerProgram::{self, Apache, Nginx, Python},
    },
};

/// A middlebox that resets the connection in the middle of the transfer.
pub(super) fn reset(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((10.0, 80.0), (10.0, 60.0));
    let server = draw.server(&[Python, Nginx, Apache, ServerProgram::Node])?;
    let client = draw.client(&[Curl, ClientProgram::Python])?;
    let bytes = draw.between(3e5, 1.5e6);
    let back = draw.scenario(network, server, client, bytes)?;
    let mut turned = back.clone();
    let at = (bytes * draw.between(0.2, 0.8)).round();
    let middlebox = format!("reset:bytes={at}B").parse().ok()?;
    let index = usize::from(draw.chance(0.5));
    turned.links[index].middlebox.push(middlebox);
    Some([turned, back])
}

/// A server that listens only after a second or two, and a client that tries again until then.
pub(super) fn refused(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((5.0, 80.0), (10.0, 60.0));
    let server = draw.server(&[Python, ServerProgram::Node])?;
    let client = draw.client(&[Curl, Wget])?;
    let bytes = draw.between(1e3, 1e5);
    let back = draw.scenario(network, server, client, bytes)?;
    let mut turned = back.clone();
    turned.server.late = Some(span(draw.between(1.0, 2.5)));
    Some([turned, back])
}
