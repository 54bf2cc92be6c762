//! Summary of a capture at one end: connections and traffic.
//!
//! A race reports how many connections a contender opened, and their traffic. A SYN without ACK **opens** a connection.
//! A SYN with the same addresses, ports and initial sequence number as an earlier one is a retransmission (RFC 9293
//! §3.8.1), also if Fast Open falls back to a SYN without data (RFC 7413 §4.1.3). So no connection counts twice when SYNs
//! are lost, and none is missed when a port is reused. Unanswered connections count too. If the cable duplicates packets,
//! a capture at the receiving end shows SYN retransmissions that did not happen; use the sender's end.
//!
//! Packets belong to the latest connection between their ends. Packets of connections from before the capture, and
//! packets of other protocols, count only in the totals.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::SocketAddr,
    time::Duration,
};

use crate::{
    Direction, Error, Packet, Source,
    tcp::{Flags, Segment},
};

/// The traffic of one direction: packets, and their bytes on the link (on a cable, whole IP packets).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// The number of packets.
    pub packets: u64,
    /// Their original lengths, added up.
    pub bytes: u64,
}

impl Traffic {
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.original_len);
    }
}

/// The Fast Open option of a SYN (RFC 7413 §4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastOpen {
    /// A cookie request.
    Request,
    /// A cookie of this length.
    Cookie(usize),
}

/// A connection that was opened while the capture ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The end that sent the SYN.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// The time of the first SYN, since the epoch.
    pub syn: Duration,
    /// The client's initial sequence number.
    pub isn: u32,
    /// The number of retransmissions of the SYN.
    pub syn_retransmissions: u64,
    /// Bytes of data in the first SYN.
    pub syn_data: u32,
    /// The server's maximum segment size (RFC 9293 §3.7.1); none if no SYN-ACK with the option was seen.
    pub mss: Option<u16>,
    /// Bytes of data that the client sent before the server's first data, those in the SYN included and none counted
    /// twice.
    pub first_flight: u32,
    /// The Fast Open option of the first SYN.
    pub fast_open: Option<FastOpen>,
    /// The time of the first data from the server, since the epoch.
    pub answered: Option<Duration>,
    /// From the client to the server, SYNs included.
    pub to_server: Traffic,
    /// From the server to the client.
    pub to_client: Traffic,
}

/// The sums of a capture, built packet by packet.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// What the host received.
    pub inbound: Traffic,
    /// What the host sent.
    pub outbound: Traffic,
    /// Packets without a direction.
    pub undirected: Traffic,
    /// The earliest and the latest time of a packet, since the epoch; `None` for an empty capture.
    pub span: Option<(Duration, Duration)>,
    /// The connections opened, in the order of their first SYNs.
    pub connections: Vec<Connection>,
    /// The index of the connection that a SYN opened, by client, server and initial sequence number.
    opened: HashMap<(SocketAddr, SocketAddr, u32), usize>,
    /// The index of the latest connection between two ends, the smaller one first.
    latest: HashMap<(SocketAddr, SocketAddr), usize>,
}

impl Summary {
    /// Reads `source` to its end. To keep the summary of a broken capture, call [`Summary::add`] instead.
    pub fn of(source: &mut impl Source) -> Result<Self, Error> {
        let mut summary = Self::default();
        while let Some(packet) = source.next()? {
            summary.add(&packet);
        }
        Ok(summary)
    }

    /// Adds the next packet.
    pub fn add(&mut self, packet: &Packet) {
        match packet.direction {
            Some(Direction::Inbound) => self.inbound.add(packet),
            Some(Direction::Outbound) => self.outbound.add(packet),
            None => self.undirected.add(packet),
        }
        let (first, last) = self.span.unwrap_or((packet.time, packet.time));
        self.span = Some((first.min(packet.time), last.max(packet.time)));
        if let Some(segment) = Segment::of(packet) {
            self.add_segment(packet, &segment);
        }
    }

    /// The number of SYN retransmissions of all connections.
    pub fn syn_retransmissions(&self) -> u64 {
        self.connections.iter().map(|connection| connection.syn_retransmissions).sum()
    }

    fn add_segment(&mut self, packet: &Packet, segment: &Segment) {
        let ends = (segment.from.min(segment.to), segment.from.max(segment.to));
        let index = if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
            Some(self.open(ends, packet, segment))
        } else {
            self.latest.get(&ends).copied()
        };
        let Some(index) = index else { return };
        let connection = &mut self.connections[index];
        if connection.client == segment.from {
            connection.to_server.add(packet);
            if connection.answered.is_none() && segment.data > 0 {
                let syn = u32::from(segment.flags.has(Flags::SYN));
                // The SYN has a sequence number of its own (RFC 9293 §3.4).
                let end = segment.sequence.wrapping_add(syn).wrapping_add(segment.data);
                let sent = end.wrapping_sub(connection.isn.wrapping_add(1));
                connection.first_flight = connection.first_flight.max(sent);
            }
        } else {
            connection.to_client.add(packet);
            if segment.flags.has(Flags::SYN) {
                connection.mss = connection.mss.or(segment.mss());
            }
            if segment.data > 0 {
                connection.answered.get_or_insert(packet.time);
            }
        }
    }

    /// The index of the connection that a SYN opens, or that its first transmission opened.
    fn open(&mut self, ends: (SocketAddr, SocketAddr), packet: &Packet, segment: &Segment) -> usize {
        let Segment { from: client, to: server, sequence: isn, .. } = *segment;
        let index = self.connections.len();
        match self.opened.entry((client, server, isn)) {
            Entry::Occupied(known) => {
                self.connections[*known.get()].syn_retransmissions += 1;
                return *known.get();
            }
            Entry::Vacant(new) => new.insert(index),
        };
        self.latest.insert(ends, index);
        self.connections.push(Connection {
            client,
            server,
            syn: packet.time,
            isn,
            syn_retransmissions: 0,
            syn_data: segment.data,
            mss: None,
            first_flight: 0,
            fast_open: segment.fast_open().map(|cookie| match cookie.len() {
                0 => FastOpen::Request,
                len => FastOpen::Cookie(len),
            }),
            answered: None,
            to_server: Traffic::default(),
            to_client: Traffic::default(),
        });
        index
    }
}
