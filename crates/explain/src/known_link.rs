//! The rate of a capture's link, where it was set.
//!
//! A rate is inferred: from the spacing of packets, which programs and machines space too. So who set it says it, or a capture
//! that an emulator wrote ([`capture::LinkRates`]). All else that an explanation says of a link is measured, and stays so on a known one:
//!
//! - The round-trip time is what the connection saw. A middlebox that holds acknowledgements, jitter, or an end beyond the
//!   link makes it another one than was set; the waits are waits for this one.
//! - Losses are counted: what was sent again, and why.
//! - The length of a queue is inferred nowhere. Its delay is measured, packet by packet.
//!
//! The scenarios of `tests/truth` compare all of them with what their cables were told.

use units::Rate;

use crate::{collect::CapturedConnection, infer::sender_properties::SenderProperties, side::Side};

/// The bottleneck's rates; none where the link has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownLink {
    /// From the client to the server, counting whole IP packets.
    pub up: Option<Rate>,
    /// From the server to the client.
    pub down: Option<Rate>,
}

impl KnownLink {
    /// What the capture of a connection says.
    pub(crate) fn captured(connection: &CapturedConnection) -> Option<Self> {
        let (at, rates) = (connection.captured_at?, connection.link_rates?);
        let [outbound, inbound] = [rates.outbound, rates.inbound].map(|rate| rate.map(Rate::bits_per_second));
        Some(match at {
            Side::Client => Self { up: outbound, down: inbound },
            Side::Server => Self { up: inbound, down: outbound },
        })
    }

    /// Replaces what the packets of a side seem to show. What looks like a bottleneck on a link without a limit is the pace
    /// of the programs and the machine.
    pub(crate) fn correct(self, side: Side, properties: &mut SenderProperties) {
        let rate = if side == Side::Client { self.up } else { self.down };
        properties.rate = rate.map(|rate| rate.as_bits_per_second() as f64);
        match (&mut properties.shared_link, properties.rate) {
            (Some(link), Some(rate)) => link.rate = rate,
            (link, _) => *link = None,
        }
    }
}
