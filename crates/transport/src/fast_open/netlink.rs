//! A minimal netlink(7) client for two queries. `rtnetlink`, which `link` uses, is asynchronous and does not know
//! `tcp_metrics`.

use std::{
    io::{self, Read},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};

/// The protocols: rtnetlink(7), and generic netlink.
pub(super) const ROUTE: i32 = libc::NETLINK_ROUTE;
pub(super) const GENERIC: i32 = libc::NETLINK_GENERIC;

/// The kernel responds at once, or not at all.
const PATIENCE: Duration = Duration::from_millis(500);
/// A dump comes in messages of at most 32 KiB (`NLMSG_GOODSIZE` and above).
const LARGEST: usize = 64 * 1024;
/// `struct nlmsghdr` and `struct nlattr`.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// Sends a query, and collects the bodies of the responses.
pub(super) fn ask(protocol: i32, kind: u16, flags: i32, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(protocol)))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let flags = flags | libc::NLM_F_REQUEST;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    socket.send(&message)?;

    let (mut answers, mut buffer) = (Vec::new(), vec![0; LARGEST]);
    loop {
        let length = socket.read(&mut buffer)?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, after)) = first(rest) {
            rest = after;
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(answers),
                libc::NLMSG_ERROR => {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return if code == 0 { Ok(answers) } else { Err(io::Error::from_raw_os_error(-code)) };
                }
                _ => answers.push(body.to_vec()),
            }
        }
        if flags & libc::NLM_F_DUMP != libc::NLM_F_DUMP && flags & libc::NLM_F_ACK == 0 {
            return Ok(answers);
        }
    }
}

/// The first message: its kind, its body, and what follows it.
fn first(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// An attribute of a request.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = ATTRIBUTE + value.len();
    let mut bytes = [(length as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// The attributes of an answer.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & !(libc::NLA_F_NESTED as u16);
        let value = bytes.get(ATTRIBUTE..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_round_trip() {
        let bytes = [attribute(1, b"abc"), attribute(7, b""), attribute(2, b"defg")].concat();
        let back: Vec<_> = attributes(&bytes).collect();
        assert_eq!(back, [(1, &b"abc"[..]), (7, b""), (2, b"defg")]);
    }

    proptest! {
        #[test]
        fn malformed_messages_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(attributes(&bytes).count() <= bytes.len());
            let (mut rest, mut count) = (&bytes[..], 0);
            while let Some((_, _, after)) = first(rest) {
                (rest, count) = (after, count + 1);
                prop_assert!(count <= bytes.len());
            }
        }
    }
}
