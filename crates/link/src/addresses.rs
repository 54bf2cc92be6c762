//! The addresses of the cables: one network for each, by its number.
//!
//! IPv4 networks are in 100.64.0.0/10 (RFC 6598), which the user's networks should not use, and IPv6 networks are unique
//! local (RFC 4193). A host may itself run `haul link`, whose hosts reach the outer ones through it. The networks inside
//! must then differ from those outside, so they continue after the highest number in use ([`first_free`]). Mahimahi's
//! nested shells take the first unused addresses of that range (`src/util/interfaces.cc`); here a host at the second level
//! has no address of the first one, which would then be taken again at the third.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use nix::{
    ifaddrs::{InterfaceAddress, getifaddrs},
    sys::socket::SockaddrStorage,
};

/// The second byte of the IPv4 addresses; 100.127.0.0/16 is left to [`crate::outside`].
const SECOND: RangeInclusive<u8> = 64..=126;

/// The number of networks.
pub const NETWORKS: u16 = (*SECOND.end() - *SECOND.start() + 1) as u16 * 256;

/// The prefix length of a cable's IPv4 network.
pub(crate) const PREFIX: u8 = 24;

/// The prefix length of a cable's IPv6 network.
pub(crate) const PREFIX6: u8 = 64;

/// The addresses of one end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4, in 100.64.0.0/10 (RFC 6598), which the user's networks should not use.
    pub v4: Ipv4Addr,
    /// IPv6, unique local (RFC 4193).
    pub v6: Ipv6Addr,
}

impl Addresses {
    /// Those of an end (1 or 2) of the cable with this number, below [`NETWORKS`]; end 0 is the network itself.
    pub(crate) fn of(number: u16, end: u8) -> Self {
        let [high, low] = (number % NETWORKS).to_be_bytes();
        Self {
            v4: Ipv4Addr::new(100, SECOND.start() + high, low, end),
            v6: Ipv6Addr::new(0xfd00, 0x6861, 0x756c, number, 0, 0, 0, end.into()),
        }
    }
}

/// The first of `count` numbers of cables that are above those in use: in the network namespace of the calling thread, and
/// those of the hosts that the environment names (`HAUL_SERVER_IP`). None if there are not so many left.
pub fn first_free(count: u16) -> Option<u16> {
    let named = std::env::vars().filter(|(name, _)| name.starts_with("HAUL_") && name.ends_with("_IP"));
    let named = named.filter_map(|(_, value)| number_of(value.parse().ok()?, Ipv4Addr::from(u32::MAX << 8)));
    let in_use = ends().into_iter().map(|(_, number)| number).chain(named);
    above(in_use.max(), count)
}

/// The number of the cable at whose end the calling thread's network namespace is: the first one, if it has several. `None`
/// on any other machine: only cables have an IPv4 and an IPv6 address of the same number.
pub(crate) fn own() -> Option<u16> {
    let v6 = |address: Option<SockaddrStorage>| Some(address?.as_sockaddr_in6()?.ip());
    let interfaces: Vec<_> = getifaddrs().ok()?.collect();
    let has_v6 = |name: &str, number: u16| {
        let is_end = |address: Ipv6Addr| (1..=2).any(|end| Addresses::of(number, end).v6 == address);
        interfaces.iter().any(|one| one.interface_name == name && v6(one.address).is_some_and(is_end))
    };
    let mut ends = ends().into_iter().filter(|(name, number)| has_v6(name, *number));
    ends.next().map(|(_, number)| number)
}

/// The interfaces that are ends of cables, with the numbers of these.
fn ends() -> Vec<(String, u16)> {
    let Ok(interfaces) = getifaddrs() else { return Vec::new() };
    let v4 = |address: Option<SockaddrStorage>| Some(address?.as_sockaddr_in()?.ip());
    let end = |one: InterfaceAddress| Some((one.interface_name, number_of(v4(one.address)?, v4(one.netmask)?)?));
    interfaces.filter_map(end).collect()
}

/// The first of `count` numbers above the highest in use.
pub(crate) fn above(highest: Option<u16>, count: u16) -> Option<u16> {
    let first = highest.map_or(0, |highest| highest + 1);
    (first.checked_add(count)? <= NETWORKS).then_some(first)
}

/// The number of the cable whose end has this address; `None` if it is another kind of address, such as one of a VPN in the
/// same range.
fn number_of(address: Ipv4Addr, mask: Ipv4Addr) -> Option<u16> {
    let [first, second, low, end] = address.octets();
    let is_end = first == 100 && SECOND.contains(&second) && (1..=2).contains(&end);
    let mask = u32::from(mask).leading_ones();
    (is_end && mask == u32::from(PREFIX)).then(|| u16::from_be_bytes([second - SECOND.start(), low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_with_the_range() {
        assert_eq!((above(None, 3), above(Some(41), 3)), (Some(0), Some(42)));
        assert_eq!(above(Some(NETWORKS - 4), 3), Some(NETWORKS - 3));
        assert_eq!(
            (above(Some(NETWORKS - 3), 3), above(None, u16::MAX)),
            (None, None),
            "taken again, they would collide"
        );
    }

    #[test]
    fn each_number_has_its_own_network() {
        assert_eq!(Addresses::of(0, 1).v4, Ipv4Addr::new(100, 64, 0, 1));
        assert_eq!(Addresses::of(NETWORKS - 1, 2).v4, Ipv4Addr::new(100, 126, 255, 2));
        for number in [0, 1, 255, 256, 5000, NETWORKS - 1] {
            let mask = Ipv4Addr::new(255, 255, 255, 0);
            assert_eq!(number_of(Addresses::of(number, 2).v4, mask), Some(number));
            assert_eq!(number_of(Addresses::of(number, 2).v4, Ipv4Addr::BROADCAST), None, "a VPN's");
        }
        assert_eq!(number_of(Ipv4Addr::new(100, 127, 255, 2), Ipv4Addr::new(255, 255, 255, 0)), None);
    }
}
