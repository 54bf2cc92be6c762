//! The link of a capture, where it was set: explaining an emulated link, nothing of it has to be inferred.

use units::Rate;

use crate::{infer::sender_properties::SenderProperties, side::Side};

/// The bottleneck's rates; none where the link has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownLink {
    /// From the client to the server, counting whole IP packets.
    pub up: Option<Rate>,
    /// From the server to the client.
    pub down: Option<Rate>,
}

impl KnownLink {
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
