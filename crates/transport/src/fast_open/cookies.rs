//! The kernel's cookies: `tcp_metrics`, by generic netlink (`include/uapi/linux/tcp_metrics.h`).
//!
//! Anybody may read them. Only the machine's root may delete one, not a container's.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use super::netlink::{GENERIC, ask, attribute, attributes};

/// Generic netlink's controller, and its query for a family's number.
const CONTROLLER: u16 = libc::GENL_ID_CTRL as u16;
const GET_FAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
const FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
const FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
/// `TCP_METRICS_CMD_GET` and `_DEL`.
const GET: u8 = 1;
const DELETE: u8 = 2;
/// `TCP_METRICS_ATTR_ADDR_IPV4` and `_IPV6`, `_FOPEN_MSS`, `_FOPEN_COOKIE`, `_SADDR_IPV4` and `_IPV6`.
const SERVER: [u16; 2] = [1, 2];
const ANSWERED: u16 = 7;
const COOKIE: u16 = 10;
const OURS: [u16; 2] = [11, 12];
/// `struct genlmsghdr`.
const HEADER: usize = 4;

/// What the kernel remembers of TCP Fast Open with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembered {
    /// Nothing: its next request for a cookie has the option of RFC 7413, kind 34.
    Nothing,
    /// It has requested a cookie and got none. Its next request may have the experimental option, kind 254.
    Asked,
    /// A cookie, by either option.
    Cookie,
}

/// What the kernel remembers of a server, for this local address.
pub fn remembered(ours: IpAddr, server: SocketAddr) -> io::Result<Remembered> {
    let kinds: Vec<u16> = metrics(ours, server)?.into_iter().map(|(kind, _)| kind).collect();
    Ok(match kinds {
        kinds if kinds.contains(&COOKIE) => Remembered::Cookie,
        // Set by each answer to a SYN with one of the options.
        kinds if kinds.contains(&ANSWERED) => Remembered::Asked,
        _ => Remembered::Nothing,
    })
}

/// The server's cookie for this local address.
pub(super) fn cookie(ours: IpAddr, server: SocketAddr) -> io::Result<Option<Vec<u8>>> {
    let found = metrics(ours, server)?.into_iter().find(|(kind, _)| *kind == COOKIE);
    Ok(found.map(|(_, cookie)| cookie))
}

/// The kernel's metrics of a server, by kind. The kernel keys them by both addresses.
fn metrics(ours: IpAddr, server: SocketAddr) -> io::Result<Vec<(u16, Vec<u8>)>> {
    let who = [address(SERVER, server.ip()), address(OURS, ours)].concat();
    let answers = match command(GET, 0, &who) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Vec::new()),
        answers => answers?,
    };
    let found = answers.iter().flat_map(|answer| attributes(answer.get(HEADER..).unwrap_or_default()));
    Ok(found.map(|(kind, value)| (kind, value.to_vec())).collect())
}

/// Deletes the kernel's metrics of a server, including the cookie.
pub(super) fn forget(ours: IpAddr, server: SocketAddr) -> io::Result<()> {
    let who = [address(SERVER, server.ip()), address(OURS, ours)].concat();
    match command(DELETE, libc::NLM_F_ACK, &who) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
        _ => Ok(()),
    }
}

fn address(kinds: [u16; 2], address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => attribute(kinds[0], &v4.octets()),
        IpAddr::V6(v6) => attribute(kinds[1], &v6.octets()),
    }
}

fn command(command: u8, flags: i32, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let name = attribute(FAMILY_NAME, b"tcp_metrics\0");
    let families = ask(GENERIC, CONTROLLER, 0, &[&[GET_FAMILY, 1, 0, 0], &name[..]].concat())?;
    let family = families.iter().flat_map(|answer| attributes(answer.get(HEADER..).unwrap_or_default()));
    let number = family.filter(|(kind, _)| *kind == FAMILY_ID).find_map(|(_, number)| number.first_chunk());
    let number = number.map(|number| u16::from_ne_bytes(*number)).ok_or(io::ErrorKind::NotFound)?;
    ask(GENERIC, number, flags, &[&[command, 1, 0, 0], body].concat())
}
