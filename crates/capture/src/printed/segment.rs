//! A printed TCP segment, and the packet that is built from it.

use std::net::{IpAddr, SocketAddr};

use etherparse::{Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, ip_number};

/// Maximum length of a header's options, in bytes.
const MAX_OPTIONS: usize = 40;

/// The time to live of the packets, which is not printed; no packet arrives with it.
const TIME_TO_LIVE: u8 = 0;

/// The fields of a segment in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) flags: Flags,
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) window: u16,
    pub(super) urgent: u16,
    /// Bytes of data.
    pub(super) len: u32,
    pub(super) options: Vec<u8>,
}

/// The control bits that matter (RFC 9293 §3.1, RFC 3168 §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // one for each bit of the header
pub(super) struct Flags {
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
    pub(super) psh: bool,
    pub(super) ack: bool,
    pub(super) urg: bool,
    pub(super) ece: bool,
    pub(super) cwr: bool,
}

impl Segment {
    /// Writes the packet's two headers to `packet`, and returns its length with data.
    pub(super) fn write(&self, packet: &mut Vec<u8>) -> u32 {
        let mut tcp = TcpHeader::new(self.from.port(), self.to.port(), self.sequence, self.window);
        let Flags { syn, fin, rst, psh, ack, urg, ece, cwr } = self.flags;
        (tcp.syn, tcp.fin, tcp.rst, tcp.psh, tcp.ack, tcp.urg, tcp.ece, tcp.cwr) =
            (syn, fin, rst, psh, ack, urg, ece, cwr);
        tcp.acknowledgment_number = self.acknowledgment;
        tcp.urgent_pointer = self.urgent;
        let options = tcp.set_options_raw(&self.options);
        debug_assert!(options.is_ok(), "options() returns no more than fit");
        // 0 if the packet is too long for the field, as in captures with segmentation offload.
        let payload = u16::try_from(self.len.saturating_add(u32::from(tcp.header_len_u16()))).unwrap_or(0);
        packet.clear();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut ip =
                    Ipv4Header { protocol: ip_number::TCP, time_to_live: TIME_TO_LIVE, ..Ipv4Header::default() };
                (ip.source, ip.destination) = (from.octets(), to.octets());
                ip.total_len = if payload > 0 { payload.checked_add(20).unwrap_or(0) } else { 0 };
                ip.header_checksum = ip.calc_header_checksum();
                packet.extend(ip.to_bytes());
            }
            (from, to) => {
                let octets = |address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: payload,
                    next_header: ip_number::TCP,
                    hop_limit: TIME_TO_LIVE,
                    source: octets(from),
                    destination: octets(to),
                };
                packet.extend(ip.to_bytes());
            }
        }
        packet.extend(tcp.to_bytes());
        (packet.len() as u32).saturating_add(self.len)
    }
}

/// The bytes of options from a list such as `mss 1160,nop,nop,sackOK`, with the words of snoop or tcpdump. Unknown
/// options, and those that do not fit into a header, are omitted.
///
/// `edge` converts the edges of a selective acknowledgment to sequence numbers.
pub(super) fn options(list: &str, edge: impl Fn(u32) -> u32) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    for option in list.split(',') {
        let mut words = option.split_whitespace();
        let mut option = Vec::new();
        match words.next() {
            Some("nop") => option.push(1),
            Some("mss") => {
                option.extend([2, 4]);
                option.extend(words.next()?.parse::<u16>().ok()?.to_be_bytes());
            }
            Some("wscale") => option.extend([3, 3, words.next()?.parse().ok()?]),
            Some("sackOK") => option.extend([4, 2]),
            Some("sack") => {
                let mut edges = Vec::new();
                // tcpdump prints the number of blocks and {1:2}{3:4}; snoop prints 1-2 3-4.
                for word in words.filter(|word| word.contains([':', '-'])) {
                    let numbers = word.split(['{', '}', ':', '-']).filter(|number| !number.is_empty());
                    for number in numbers {
                        edges.extend(edge(number.parse().ok()?).to_be_bytes());
                    }
                }
                option.extend([5, 2 + u8::try_from(edges.len()).ok()?]);
                option.extend(edges);
            }
            Some("TS" | "tstamp") => {
                option.extend([8, 10]);
                let numbers = words.filter(|word| !matches!(*word, "val" | "ecr"));
                option.extend(
                    numbers
                        .map(str::parse::<u32>)
                        .collect::<Result<Vec<_>, _>>()
                        .ok()?
                        .iter()
                        .flat_map(|number| number.to_be_bytes()),
                );
                if option.len() != 10 {
                    return None;
                }
            }
            Some("tfo") => {
                let cookie = match words.next()? {
                    "cookie" => hex(words.next()?)?,
                    _ => Vec::new(), // a cookie request
                };
                option.extend([34, 2 + u8::try_from(cookie.len()).ok()?]);
                option.extend(cookie);
            }
            _ => {}
        }
        if raw.len() + option.len() <= MAX_OPTIONS {
            raw.extend(option);
        }
    }
    Some(raw)
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_options_become_header_bytes() {
        let raw = |list| options(list, |edge| edge + 1000);
        assert_eq!(raw(""), Some(vec![]));
        assert_eq!(raw("mss 1160,nop,nop,sackOK"), Some(vec![2, 4, 4, 136, 1, 1, 4, 2]));
        assert_eq!(raw("nop,wscale 7,eol"), Some(vec![1, 3, 3, 7]));
        let times = Some(vec![8, 10, 0, 0, 0, 5, 0, 0, 1, 0]);
        assert_eq!(raw("TS val 5 ecr 256"), times);
        assert_eq!(raw("tstamp 5 256"), times);
        let blocks = Some(vec![5, 18, 0, 0, 3, 233, 0, 0, 3, 234, 0, 0, 3, 235, 0, 0, 3, 236]);
        assert_eq!(raw("sack 2 {1:2}{3:4}"), blocks);
        assert_eq!(raw("sack 1-2 3-4"), blocks);
        assert_eq!(raw("tfo  cookie 0a0b"), Some(vec![34, 4, 10, 11]));
        assert_eq!(raw("tfo  cookiereq,unknown-99 0x01"), Some(vec![34, 2]));
        for wrong in
            ["mss", "mss 70000", "wscale -1", "TS val 5", "tstamp 1 2 3", "sack 1-x", "tfo cookie 0", "tfo cookie ää"]
        {
            assert_eq!(raw(wrong), None, "{wrong}");
        }
        let many = raw(&"tstamp 1 2,".repeat(9)).expect("valid options");
        assert_eq!(many.len(), 40);
    }
}
