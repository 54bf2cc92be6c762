//! DNS messages (RFC 1035 §4.1): queries, and the addresses in answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A DNS query or answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The identifier that an answer shares with its query.
    pub(crate) id: u16,
    pub(crate) answer: bool,
    /// The addresses in the answer.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Message {
    /// Parses a message; none if it is invalid.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let (id, flags, questions, answers) = (number(0)?, number(2)?, number(4)?, number(6)?);
        let mut at = 12;
        for _ in 0..questions.min(16) {
            at = name(bytes, at)? + 4;
        }
        let mut addresses = Vec::new();
        for _ in 0..answers.min(64) {
            at = name(bytes, at)?;
            let (kind, length) = (number(at)?, usize::from(number(at + 8)?));
            let data = bytes.get(at + 10..at + 10 + length)?;
            match kind {
                1 => addresses.push(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
                28 => addresses.push(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
                _ => {}
            }
            at += 10 + length;
        }
        Some(Self { id, answer: flags & 0x8000 != 0, addresses })
    }
}

/// Where a name that begins at `at` ends.
fn name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            // A pointer to the rest (RFC 1035 §4.1.4).
            length if length >= 0xc0 => return Some(at + 2),
            length => at += usize::from(length) + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn response_has_addresses_and_a_truncated_one_is_rejected() {
        let mut bytes = vec![0, 7, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0];
        bytes.extend(b"\x01a\x02cd\x00\x00\x01\x00\x01");
        bytes.extend(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x09\x00\x04\x01b\xc0\x0e");
        bytes.extend(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x09\x00\x04\x0a\x00\x00\x01");
        let whole = Message { id: 7, answer: true, addresses: vec![[10, 0, 0, 1].into()] };
        assert_eq!(Message::read(&bytes), Some(whole));
        for len in 0..bytes.len() {
            assert_eq!(Message::read(&bytes[..len]), None);
        }
    }
}
