//! How far away the sender of a packet is, and whether a packet comes from where the others of its end come from.
//!
//! Routers take one from the time to live (IPv4) or hop limit (IPv6) of each packet, so packets of one machine arrive with
//! what it began with, less the same number of hops. A firewall or a censor that resets a connection writes the address of
//! an end into its packet, but sits elsewhere on the path, and its packet arrives from another distance (Weaver, Sommer and
//! Paxson, NDSS 2009). Kernels may begin with another value for a reset than for their sockets, so distances are compared,
//! not values; and a route may differ by a hop for a while, so that one hop says nothing.
//!
//! The IP identification says less: kernels number the resets of closed sockets differently from those of open ones (Linux
//! sends 0, and before 4.17 a number of another counter), so a number out of order is no sign of another machine.

use crate::system::hops;

/// The maximum number of values that are kept. An end with more is several machines, or its route changes all the time.
const MAX_VALUES: usize = 4;

/// The number of packets that show where an end is.
const MIN_PACKETS: u32 = 2;

/// The difference in hops that routes account for.
const MAX_DETOUR: u8 = 1;

/// The largest limit that a program sets for a neighbour.
const MAX_OWN: u8 = 2;

/// The hop limits with which the packets of an end arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HopLimits {
    values: [u8; MAX_VALUES],
    len: usize,
    packets: u32,
    is_overfull: bool,
}

impl HopLimits {
    /// A packet that the end itself sent.
    pub(crate) fn add(&mut self, value: u8) {
        self.packets = self.packets.saturating_add(1);
        if self.values[..self.len].contains(&value) {
            return;
        }
        match self.values.get_mut(self.len) {
            Some(place) => {
                *place = value;
                self.len += 1;
            }
            None => self.is_overfull = true,
        }
    }

    /// The value of the end's packets that is nearest to this one, if a packet with it comes from another machine.
    pub(crate) fn others(&self, value: u8) -> Option<u8> {
        let known = &self.values[..self.len];
        // A program's own limit for its socket (RFC 5082; BGP), which the kernel's resets do not have.
        let is_set_by_program = |known: &u8| *known <= MAX_OWN && hops(value) == 0;
        // A printed capture has none.
        let is_unknown = value == 0 || known.contains(&0) || known.iter().any(is_set_by_program);
        if self.is_overfull || self.packets < MIN_PACKETS || is_unknown {
            return None;
        }
        let is_elsewhere = |known: &u8| {
            let differs = |a: u8, b: u8| a.abs_diff(b) > MAX_DETOUR;
            // Near the value that it began with, what is taken for another beginning may be a long path.
            differs(hops(*known), hops(value)) && differs(*known, value)
        };
        let nearest = known.iter().min_by_key(|known| known.abs_diff(value)).copied();
        nearest.filter(|_| known.iter().all(is_elsewhere))
    }
}

#[cfg(test)]
mod tests {
    use super::HopLimits;

    fn others(values: &[u8], reset: u8) -> Option<u8> {
        let mut limits = HopLimits::default();
        for value in values {
            limits.add(*value);
        }
        limits.others(reset)
    }

    #[test]
    fn packet_from_another_distance_is_recognised() {
        assert_eq!(others(&[52, 52, 52], 61), Some(52));
        assert_eq!(others(&[52, 52], 252), Some(52));
        assert_eq!(others(&[52, 53, 52], 61), Some(53));
        // Same machine, another initial value.
        for same in [52, 116, 243, 20] {
            assert_eq!(others(&[52, 52], same), None, "{same}");
        }
        // A hop more or less, and too little or too much to compare with.
        assert_eq!([others(&[52, 52], 53), others(&[52], 61), others(&[52, 50, 48, 46, 44], 61)], [None; 3]);
        // BGP between neighbours.
        assert_eq!(others(&[1, 1], 64), None);
        // A capture that was printed.
        assert_eq!([others(&[0, 0], 61), others(&[52, 52], 0)], [None; 2]);
    }
}
