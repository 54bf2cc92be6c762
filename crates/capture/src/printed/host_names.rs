//! Placeholder addresses for hosts that are printed by name.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The address ranges of the placeholders, and the maximum number of names.
const V4: u32 = 0xF000_0000;
const V6: u128 = 0x0100 << 112;
const MAX_NAMES: u32 = 1 << 20;

/// The names found so far; the n-th name has the n-th address of either range.
#[derive(Debug, Default)]
pub(super) struct HostNames {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl HostNames {
    /// The address of the host printed as `host`, an IPv6 one if `v6`. A printed address is returned as it is.
    pub(super) fn address(&mut self, host: &str, v6: bool) -> Result<IpAddr, &'static str> {
        let (bare, _zone) = host.split_once('%').unwrap_or((host, ""));
        if let Ok(address) = bare.parse() {
            return Ok(address);
        }
        let number = match self.numbers.get(host) {
            Some(number) => *number,
            None => self.add(host)?,
        };
        Ok(if v6 { Ipv6Addr::from(V6 + u128::from(number)).into() } else { Ipv4Addr::from(V4 + number).into() })
    }

    fn add(&mut self, host: &str) -> Result<u32, &'static str> {
        self.names.push(host.to_owned());
        let number = self.names.len() as u32;
        if number > MAX_NAMES {
            return Err("too many host names");
        }
        self.numbers.insert(host.to_owned(), number);
        Ok(number)
    }

    /// The name with this placeholder address.
    pub(super) fn name(&self, address: IpAddr) -> Option<&str> {
        let number = match address {
            IpAddr::V4(address) => u128::from(u32::from(address).checked_sub(V4)?),
            IpAddr::V6(address) => u128::from(address).checked_sub(V6)?,
        };
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.names.get(index).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_placeholder_addresses_and_addresses_are_kept() {
        let mut names = HostNames::default();
        let mut address = |host, v6| names.address(host, v6).expect("room for a few").to_string();
        assert_eq!(address("host22", false), "240.0.0.1");
        assert_eq!(address("yangtze", false), "240.0.0.2");
        assert_eq!(address("host22", false), "240.0.0.1");
        assert_eq!(address("host22", true), "100::1");
        assert_eq!(address("10.0.0.1", false), "10.0.0.1");
        assert_eq!(address("fe80::1%eth0", true), "fe80::1");
        let name = |address: &str| names.name(address.parse().expect("an address"));
        assert_eq!([name("240.0.0.2"), name("100::2")], [Some("yangtze"); 2]);
        for unknown in ["240.0.0.0", "240.0.0.3", "10.0.0.1", "100::", "100::1:0:0:0:1", "::1", "ff::"] {
            assert_eq!(name(unknown), None, "{unknown}");
        }
    }
}
