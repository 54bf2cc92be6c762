//! The neighbours of a transfer: the other connections of its client that moved data in the same direction meanwhile.
//!
//! `shared_link` says that others filled the link ([`crate::infer::shared_link`]), and the user wants to know which. While a
//! connection is explained, the rest of the capture is known only as bytes per client and time. So they are named when all
//! connections of all captures are known.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::pair_captures::PairedConnection;
use crate::{
    causes::Cause,
    explanation::{Direction, Transfer},
    number_format::{bytes, plural},
};

/// The maximum number of servers that a sentence names.
const MAX_NAMED: usize = 3;

/// Connections to one server that shared the link with a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The server's name or address, and its port.
    pub server: String,
    /// The number of connections.
    pub connections: usize,
    /// The bytes that they moved in the direction of the transfer while it lasted, as if evenly.
    pub bytes: u64,
}

/// The transfers of a client in one direction.
#[derive(Debug, Default)]
struct Traffic {
    /// Sorted by their start.
    transfers: Vec<Part>,
    /// The latest end of each transfer and those before it.
    latest_ends: Vec<Duration>,
}

/// A transfer as its neighbours see it.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: Duration,
    end: Duration,
    bytes: u64,
    connection: usize,
}

impl Part {
    fn of(connection: usize, transfer: &Transfer) -> Self {
        let (start, end) = (transfer.start, transfer.start + transfer.duration);
        Self { start, end, bytes: transfer.bytes, connection }
    }
}

impl Traffic {
    fn sort(&mut self) {
        self.transfers.sort_by_key(|part| part.start);
        let mut latest = Duration::ZERO;
        self.latest_ends = self
            .transfers
            .iter()
            .map(|part| {
                latest = latest.max(part.end);
                latest
            })
            .collect();
    }

    /// The parts of other connections that overlap with one, and the bytes of each in that time.
    fn beside(&self, own: Part) -> impl Iterator<Item = (usize, u64)> {
        let begun = self.transfers.partition_point(|part| part.start < own.end);
        let overlapping = (0..begun).rev().take_while(move |index| self.latest_ends[*index] > own.start);
        overlapping
            .map(|index| &self.transfers[index])
            .filter(move |part| part.connection != own.connection)
            .filter_map(move |part| {
                let both = part.end.min(own.end).checked_sub(part.start.max(own.start))?;
                let share = both.as_secs_f64() / part.end.saturating_sub(part.start).as_secs_f64().max(1e-9);
                Some((part.connection, (part.bytes as f64 * share.min(1.0)) as u64))
            })
    }
}

/// The transfers of all connections, by capture, client and direction.
#[derive(Debug, Default)]
pub(crate) struct Neighbourhood {
    traffic: HashMap<(usize, IpAddr, Direction), Traffic>,
    /// The server of each connection.
    servers: Vec<SocketAddr>,
}

impl Neighbourhood {
    pub(crate) fn of(connections: &[PairedConnection]) -> Self {
        let mut all = Self::default();
        for (index, paired) in connections.iter().enumerate() {
            all.servers.push(paired.connection.server);
            for transfer in &paired.connection.transfers {
                let key = (paired.capture, paired.connection.client.ip(), transfer.direction);
                all.traffic.entry(key).or_default().transfers.push(Part::of(index, transfer));
            }
        }
        for traffic in all.traffic.values_mut() {
            traffic.sort();
        }
        all
    }

    /// The neighbours of a transfer of a connection, most bytes first.
    pub(crate) fn beside(&self, connections: &[PairedConnection], index: usize, transfer: &Transfer) -> Vec<Neighbour> {
        let own = &connections[index];
        let Some(traffic) = self.traffic.get(&(own.capture, own.connection.client.ip(), transfer.direction)) else {
            return Vec::new();
        };
        // By server, and of each server by connection.
        let mut by_server: HashMap<SocketAddr, HashMap<usize, u64>> = HashMap::new();
        for (other, bytes) in traffic.beside(Part::of(index, transfer)) {
            *by_server.entry(self.servers[other]).or_default().entry(other).or_default() += bytes;
        }
        let neighbour = |of_server: HashMap<usize, u64>| {
            let first = of_server.keys().min().copied().unwrap_or(index);
            let [_, server] = connections[first].connection.end_names();
            Neighbour { server, connections: of_server.len(), bytes: of_server.values().sum() }
        };
        let mut neighbours: Vec<Neighbour> = by_server.into_values().map(neighbour).collect();
        neighbours.retain(|neighbour| neighbour.bytes > 0);
        neighbours.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.server.cmp(&b.server)));
        neighbours
    }
}

/// Names the neighbours in all findings of shared links.
pub(super) fn name(connections: &mut [PairedConnection]) {
    let shared = |transfer: &Transfer| transfer.findings.iter().position(|finding| finding.cause == Cause::SharedLink);
    let mut all: Option<Neighbourhood> = None;
    for index in 0..connections.len() {
        for number in 0..connections[index].connection.transfers.len() {
            let transfer = &connections[index].connection.transfers[number];
            let Some(finding) = shared(transfer) else { continue };
            let direction = transfer.direction;
            let all = all.get_or_insert_with(|| Neighbourhood::of(connections));
            let neighbours = all.beside(connections, index, transfer);
            let finding = &mut connections[index].connection.transfers[number].findings[finding];
            finding.why += &sentence(&neighbours, direction);
            finding.neighbours = neighbours;
        }
    }
}

/// Who they were, with a space before it; empty if there were none.
pub(crate) fn sentence(neighbours: &[Neighbour], direction: Direction) -> String {
    if neighbours.is_empty() {
        return String::new();
    }
    let (verb, preposition) = match direction {
        Direction::Download => ("received", "from"),
        Direction::Upload => ("sent", "to"),
    };
    let each = |one: &Neighbour| {
        let connections = plural(one.connections as u64, "connection");
        format!("{} {preposition} {} ({connections})", bytes(one.bytes), one.server)
    };
    let mut named: Vec<String> = neighbours.iter().take(MAX_NAMED).map(each).collect();
    let rest = neighbours.get(MAX_NAMED..).unwrap_or_default();
    if !rest.is_empty() {
        let sum: u64 = rest.iter().map(|one| one.bytes).sum();
        named.push(format!("{} {preposition} {}", bytes(sum), plural(rest.len() as u64, "other server")));
    }
    let list = match named.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => named.concat(),
    };
    format!(" Meanwhile, the client {verb} {list}.")
}
