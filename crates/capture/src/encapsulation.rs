//! From a header of the link layer to the IP packet behind it: Ethernet, VLANs, LLC, MPLS, PPPoE and PPP.
//!
//! Each header names the one that follows. The chain is walked header by header, up to [`MAX_HEADERS`] of them, so that
//! no packet can hold the walk up.

/// Maximum number of headers before IP. Real packets have up to ten.
const MAX_HEADERS: usize = 32;

/// EtherTypes (IEEE 802 numbers): IP, and VLAN tags (IEEE 802.1Q, 802.1ad, and QinQ before its standard).
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86DD;
pub(crate) const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];

/// EtherTypes of what carries IP: an Ethernet frame in a tunnel (RFC 7637 §3.2), MPLS (RFC 3032 §5), PPP in GRE (RFC 2637)
/// and PPPoE's sessions (RFC 2516 §4).
const BRIDGED_ETHERNET: u16 = 0x6558;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPP: u16 = 0x880B;
const PPPOE_SESSION: u16 = 0x8864;

/// A smaller value in the place of an EtherType is the length of an LLC frame (IEEE 802.3 §3.2.6).
const MIN_ETHER_TYPE: u16 = 0x0600;

/// What a header's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Ip,
    Ethernet,
    /// An EtherType, and what it announces.
    EtherType,
    /// LLC with SNAP (RFC 1042).
    Llc,
    Mpls,
    Pppoe,
    /// PPP, with or without HDLC framing.
    Ppp,
}

/// A layer, and its bytes.
pub(crate) type Layered<'a> = (Layer, &'a [u8]);

/// The bytes from the IP header on, if the headers before it are complete and known.
pub(crate) fn ip((mut layer, mut bytes): Layered<'_>) -> Option<&[u8]> {
    for _ in 0..MAX_HEADERS {
        (layer, bytes) = match layer {
            Layer::Ip => return Some(bytes),
            Layer::Ethernet => (Layer::EtherType, bytes.get(12..)?),
            Layer::EtherType => {
                let (kind, rest) = bytes.split_first_chunk()?;
                announced(u16::from_be_bytes(*kind), rest)?
            }
            Layer::Llc => (Layer::EtherType, snap(bytes)?),
            Layer::Mpls => mpls(bytes)?,
            Layer::Pppoe => (Layer::Ppp, pppoe(bytes)?),
            Layer::Ppp => ppp(bytes)?,
        };
    }
    None
}

/// What an EtherType announces.
pub(crate) fn announced(kind: u16, rest: &[u8]) -> Option<Layered<'_>> {
    Some(match kind {
        IPV4 | IPV6 => (Layer::Ip, rest),
        kind if TAGS.contains(&kind) => (Layer::EtherType, rest.get(2..)?),
        kind if MPLS.contains(&kind) => (Layer::Mpls, rest),
        PPPOE_SESSION => (Layer::Pppoe, rest),
        PPP => (Layer::Ppp, rest),
        BRIDGED_ETHERNET => (Layer::Ethernet, rest),
        ..MIN_ETHER_TYPE => (Layer::Llc, rest),
        _ => return None,
    })
}

/// From the EtherType on. The organization is 0, or that of bridge tunnels.
fn snap(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk()?;
    matches!(head, [0xAA, 0xAA, 0x03, 0, 0, 0 | 0xF8]).then_some(rest)
}

/// Behind the label stack, nothing names the payload (RFC 4928 §2): the first four bits are IP's version, or 0 in the
/// control word before an Ethernet frame (RFC 4448 §4.6), which may be absent.
fn mpls(mut bytes: &[u8]) -> Option<Layered<'_>> {
    loop {
        let (label, rest) = bytes.split_first_chunk::<4>()?;
        bytes = rest;
        if label[2] & 1 == 1 {
            break;
        }
    }
    let is_frame_at = |at: usize| {
        let kind = bytes.get(at + 12..).and_then(<[u8]>::first_chunk).map(|kind| u16::from_be_bytes(*kind));
        kind.is_some_and(|kind| kind >= MIN_ETHER_TYPE && announced(kind, &[0; 2]).is_some())
    };
    match bytes.first()? >> 4 {
        4 | 6 if !is_frame_at(0) || is_ip(bytes) => Some((Layer::Ip, bytes)),
        0 if is_frame_at(4) => Some((Layer::Ethernet, &bytes[4..])),
        _ => is_frame_at(0).then_some((Layer::Ethernet, bytes)),
    }
}

/// Whether these bytes begin like an IP header that is consistent with their number.
fn is_ip(bytes: &[u8]) -> bool {
    match bytes {
        [0x45..=0x4F, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])) >= bytes.len().min(20),
        [first, ..] => first >> 4 == 6,
        [] => false,
    }
}

/// From the PPP header on, in the session stage (RFC 2516 §4).
fn pppoe(bytes: &[u8]) -> Option<&[u8]> {
    let ([0x11, 0, ..], rest) = bytes.split_first_chunk::<6>()? else { return None };
    Some(rest)
}

/// A PPP frame: the framing's address and control are optional, and so is the protocol's upper byte (RFC 1661 §6.5,
/// RFC 1662 §3.1).
fn ppp(bytes: &[u8]) -> Option<Layered<'_>> {
    let bytes = bytes.strip_prefix(&[0xFF, 0x03]).unwrap_or(bytes);
    // The lower byte of a protocol is odd, the upper one is even.
    let (protocol, rest) = match bytes {
        [low, rest @ ..] if low & 1 == 1 => (u16::from(*low), rest),
        [high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]), rest),
        _ => return None,
    };
    match protocol {
        0x0021 | 0x0057 => Some((Layer::Ip, rest)),
        0x0281 | 0x0283 => Some((Layer::Mpls, rest)),
        _ => None,
    }
}

/// HDLC framing with PPP or Cisco's own protocol, which has an EtherType (RFC 1547 §4.3.1).
pub(crate) fn hdlc(bytes: &[u8]) -> Layered<'_> {
    match bytes {
        [0x0F | 0x8F, _, rest @ ..] => (Layer::EtherType, rest),
        _ => (Layer::Ppp, bytes),
    }
}

/// Frame Relay with an address of two bytes: IP by its network layer protocol identifier (RFC 2427 §4).
pub(crate) fn frame_relay(bytes: &[u8]) -> Option<Layered<'_>> {
    match bytes {
        [_, _, 0x03, 0xCC | 0x8E, rest @ ..] => Some((Layer::Ip, rest)),
        [_, _, 0x03, 0, 0x80, 0, 0, 0, rest @ ..] => Some((Layer::EtherType, rest)),
        _ => None,
    }
}
