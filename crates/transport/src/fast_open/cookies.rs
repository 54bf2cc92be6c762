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
/// `TCP_METRICS_ATTR_ADDR_IPV4` and `_IPV6`, `_FOPEN_COOKIE`, `_SADDR_IPV4` and `_IPV6`.
const SERVER: [u16; 2] = [1, 2];
const COOKIE: u16 = 10;
const OURS: [u16; 2] = [11, 12];
/// `struct genlmsghdr`.
const HEADER: usize = 4;

/// The server's cookie for this local address. The kernel keys cookies by both addresses.
pub(super) fn cookie(ours: IpAddr, server: SocketAddr) -> io::Result<Option<Vec<u8>>> {
    let who = [address(SERVER, server.ip()), address(OURS, ours)].concat();
    let answers = match command(GET, 0, &who) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        answers => answers?,
    };
    let found = answers.iter().flat_map(|answer| attributes(answer.get(HEADER..).unwrap_or_default()));
    Ok(found.filter(|(kind, _)| *kind == COOKIE).map(|(_, cookie)| cookie.to_vec()).next())
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
