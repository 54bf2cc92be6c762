//! Spare connections: opened while another one was not yet open, and closed without a request once it was.
//!
//! A client that knows several addresses of a server starts to connect to the next when the first takes long, and uses what
//! is open first (Happy Eyeballs, RFC 8305 §5). Nobody waited for the other connection. It carried nothing, so it is no
//! transfer; and if the client closed it before an answer came, it did not fail.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::pair_captures::PairedConnection;
use crate::{Connection, Failure};

/// The longest time between two attempts of a race (RFC 8305 §5: at most 2 s).
const MAX_ATTEMPT_DELAY: Duration = Duration::from_secs(2);

/// The same server, for a capture's connections: one address, or any of the other IP version. Clients and servers have
/// an address of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Server {
    Address { client: IpAddr, server: SocketAddr },
    Version { is_ipv6: bool, port: u16 },
}

/// Removes the transfers, and the failures, of spare connections.
pub(super) fn forget(connections: &mut [PairedConnection]) {
    let address = |connection: &Connection| {
        let Connection { client, server, .. } = connection;
        Server::Address { client: client.ip(), server: *server }
    };
    // When those began that carried data.
    let mut used: HashMap<(usize, Server), Vec<Duration>> = HashMap::new();
    for PairedConnection { connection, capture, .. } in connections.iter().filter(|paired| has_data(&paired.connection))
    {
        let version = Server::Version { is_ipv6: connection.server.is_ipv6(), port: connection.server.port() };
        for server in [address(connection), version] {
            used.entry((*capture, server)).or_default().push(connection.start);
        }
    }
    for starts in used.values_mut() {
        starts.sort_unstable();
    }
    for PairedConnection { connection, capture, .. } in connections {
        if has_data(connection) || connection.isn.is_none() {
            continue;
        }
        let earliest = connection.start.saturating_sub(MAX_ATTEMPT_DELAY);
        let latest = match &connection.ending {
            None => connection.start + MAX_ATTEMPT_DELAY,
            // The last attempt, when the client already had what it wanted. An earlier one that nothing answered made the
            // client wait.
            Some(ending) if ending.failure == Failure::Unanswered && ending.after.is_zero() => connection.start,
            Some(_) => continue,
        };
        let other = Server::Version { is_ipv6: !connection.server.is_ipv6(), port: connection.server.port() };
        let has_won = |server: Server| {
            let starts = used.get(&(*capture, server)).map_or(&[][..], Vec::as_slice);
            let next = starts.partition_point(|start| *start < earliest);
            starts.get(next).is_some_and(|start| *start <= latest)
        };
        if has_won(address(connection)) || has_won(other) {
            connection.transfers.clear();
            connection.ending = None;
        }
    }
}

fn has_data(connection: &Connection) -> bool {
    connection.transfers.iter().any(|transfer| transfer.bytes > 0)
}
