//! A sender's host that sends below what the path carries.

use units::Size;

use crate::truth::{
    draw::{Draw, size},
    scenario::{
        ClientProgram::{self, Curl, Wget},
        Scenario,
        ServerProgram::{self, Apache, Nginx, Python},
        Shaper,
    },
};

/// The lowest and the highest rate in bytes per second, below those of the links.
const RATE: (f64, f64) = (1.5e5, 1.2e6);

/// A rate that the sending program sets for its socket (SO_MAX_PACING_RATE).
pub(super) fn pacing(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((15.0, 80.0), (25.0, 80.0));
    let rate = draw.between(RATE.0, RATE.1);
    let bytes = rate * draw.between(1.5, 3.0);
    let is_upload = draw.chance(0.25);
    let iperf3 = draw.iperf3();
    // Its server does not pace.
    let is_upload = is_upload || iperf3.is_some();
    let (server, client) = match iperf3 {
        Some(pair) => pair,
        None if is_upload => (draw.server(&[Python, Nginx])?, draw.client(&[ClientProgram::Python])?),
        None => (
            draw.server(&[Python])?,
            draw.client(&[Curl, Wget, ClientProgram::Python, ClientProgram::Node, ClientProgram::Rclone])?,
        ),
    };
    let mut back = draw.scenario(network, server, client, bytes)?;
    back.is_upload = is_upload;
    let mut turned = back.clone();
    *(if is_upload { &mut turned.client.pacing } else { &mut turned.server.pacing }) = Some(size(rate));
    Some([turned, back])
}

/// A shaper with a bucket in the sender's host (tc-tbf).
pub(super) fn shaper(draw: &mut Draw) -> Option<[Scenario; 2]> {
    let network = draw.network((15.0, 80.0), (25.0, 80.0));
    let shaper = Shaper { rate: size(draw.between(RATE.0, RATE.1)), burst: Size(1000 * u64::from(draw.count(4, 40))) };
    let bytes = shaper.rate.0 as f64 * draw.between(1.5, 3.0);
    let is_upload = draw.chance(0.25);
    let (server, client) = if is_upload {
        (draw.server(&[Python, Nginx, ServerProgram::Node])?, draw.client(&[Curl, ClientProgram::Python])?)
    } else {
        let server = draw.server(&[Python, Nginx, Apache, ServerProgram::Node])?;
        (server, draw.client(&[Curl, Wget, ClientProgram::Python, ClientProgram::Node, ClientProgram::Rclone])?)
    };
    let mut back = draw.scenario(network, server, client, bytes)?;
    back.is_upload = is_upload;
    let mut turned = back.clone();
    *(if is_upload { &mut turned.client.shaper } else { &mut turned.server.shaper }) = Some(shaper);
    draw.installed.has_tc.then_some([turned, back])
}
