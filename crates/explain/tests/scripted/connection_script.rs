//! Scripted connections: packets with exact times, and captures at either end.

use std::time::Duration;

use capture::{Error, LinkType, Packet, Source};
use etherparse::{PacketBuilder, TcpOptionElement};
use explain::Explanation;

pub(crate) const MSS: u64 = 1160;

/// The options of Linux's SYN, without timestamps: a maximum segment size of [`MSS`], SACK, and a window scale of 7.
pub(crate) const LINUX_OPTIONS: [u8; 12] = [2, 4, 4, 136, 1, 1, 4, 2, 1, 3, 3, 7];

/// An end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

use End::{Client, Server};

/// A packet that was sent.
#[derive(Debug, Clone)]
struct Sent {
    from: End,
    left: f64,
    /// `None` if it was lost.
    arrived: Option<f64>,
    bytes: Vec<u8>,
    /// The offset of the byte after its last.
    end: u64,
}

/// A scripted connection. Times are in milliseconds; methods return the time at which a packet arrives.
#[derive(Debug, Clone)]
pub(crate) struct ScriptedConnection {
    port: u16,
    rtt: f64,
    sent: Vec<Sent>,
    /// An additional delay of the next packet.
    pub(crate) extra_delay: f64,
    pub(crate) window: u16,
    /// The identifications of the next packets of client and server, if they run Linux, which counts.
    pub(crate) identification: Option<[u16; 2]>,
}

impl ScriptedConnection {
    pub(crate) fn new(port: u16, rtt: f64) -> Self {
        Self { port, rtt, sent: Vec::new(), extra_delay: 0.0, window: 500, identification: None }
    }

    /// Numbers a packet, if its end counts.
    fn number(&mut self, from: End, bytes: &mut [u8]) {
        if let Some(next) = self.identification.as_mut().map(|next| &mut next[usize::from(from == Server)]) {
            bytes[4..6].copy_from_slice(&next.to_be_bytes());
            *next = next.wrapping_add(1);
        }
    }

    /// The handshake; returns when the client can send.
    pub(crate) fn open(&mut self, at: f64) -> f64 {
        let syn = self.packet(Client, at, Kind::Syn, false);
        let syn_ack = self.packet(Server, syn, Kind::SynAck, false);
        // The delay of a kernel.
        self.packet(Client, syn_ack + 0.15, Kind::Ack, false);
        syn_ack + 0.15
    }

    /// A SYN alone.
    pub(crate) fn syn(&mut self, at: f64) -> f64 {
        self.packet(Client, at, Kind::Syn, false)
    }

    /// The answer to it.
    pub(crate) fn syn_ack(&mut self, at: f64) -> f64 {
        self.packet(Server, at, Kind::SynAck, false)
    }

    /// A SYN that is lost.
    pub(crate) fn lost_syn(&mut self, at: f64) {
        self.packet(Client, at, Kind::Syn, true);
    }

    /// The hop limit with which the last packet was sent.
    pub(crate) fn set_hop_limit(&mut self, hop_limit: u8) {
        if let Some(last) = self.sent.last_mut() {
            last.bytes[8] = hop_limit;
        }
    }

    /// The end of a connection at once.
    pub(crate) fn reset(&mut self, from: End, at: f64) -> f64 {
        self.packet(from, at, Kind::Reset, false)
    }

    /// The end of an end's stream.
    pub(crate) fn fin(&mut self, from: End, at: f64) -> f64 {
        let arrived = self.packet(from, at, Kind::Ack, false);
        if let Some(last) = self.sent.last_mut() {
            last.bytes[33] |= 1;
        }
        arrived
    }

    /// One packet of data.
    pub(crate) fn data(&mut self, from: End, at: f64, payload: &[u8]) -> f64 {
        self.packet(from, at, Kind::Data(payload), false)
    }

    /// Data in full segments, sent back to back; returns when the last arrives.
    pub(crate) fn bulk(&mut self, from: End, at: f64, bytes: u64) -> f64 {
        let (mut left, mut arrives) = (bytes, at);
        while left > 0 {
            let now = left.min(MSS);
            // The spacing of a bottleneck of 93 Mbit/s.
            self.extra_delay = (arrives - at - self.rtt / 2.0).max(0.0) + 0.1;
            arrives = self.packet(from, at, Kind::Data(&vec![b'.'; now as usize]), false);
            left -= now;
        }
        arrives
    }

    /// An acknowledgement of everything that has arrived.
    pub(crate) fn ack(&mut self, from: End, at: f64) -> f64 {
        self.packet(from, at, Kind::Ack, false)
    }

    /// An acknowledgement that is lost.
    pub(crate) fn lose_ack(&mut self, from: End, at: f64) {
        self.packet(from, at, Kind::Ack, true);
    }

    /// A keep-alive: an empty segment with a number that is acknowledged already.
    pub(crate) fn keep_alive(&mut self, from: End, at: f64) -> f64 {
        let arrived = self.packet(from, at, Kind::Ack, false);
        if let Some(last) = self.sent.last_mut() {
            let number = u32::from_be_bytes([last.bytes[24], last.bytes[25], last.bytes[26], last.bytes[27]]);
            last.bytes[24..28].copy_from_slice(&number.wrapping_sub(1).to_be_bytes());
        }
        arrived
    }

    /// Data that is lost.
    pub(crate) fn lose(&mut self, from: End, at: f64, payload: &[u8]) {
        self.packet(from, at, Kind::Data(payload), true);
    }

    /// Retransmits the last data of an end, which is lost again.
    pub(crate) fn lose_again(&mut self, from: End, at: f64) {
        self.retransmit(from, at);
        if let Some(last) = self.sent.last_mut() {
            last.arrived = None;
        }
    }

    /// Retransmits the last data of an end.
    pub(crate) fn retransmit(&mut self, from: End, at: f64) -> f64 {
        let data = |sent: &&Sent| sent.from == from && sent.bytes.len() > 40;
        let mut last = self.sent.iter().rev().find(data).expect("there was data").clone();
        self.number(from, &mut last.bytes);
        let arrived = at + self.rtt / 2.0;
        self.sent.push(Sent { left: at, arrived: Some(arrived), ..last });
        arrived
    }

    fn packet(&mut self, from: End, at: f64, kind: Kind, lost: bool) -> f64 {
        let offset = self.sent.iter().filter(|sent| sent.from == from).map(|sent| sent.end).max().unwrap_or(0);
        let ends = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let (way, ports) = match from {
            Client => (0, [self.port, 80]),
            Server => (1, [80, self.port]),
        };
        let isn = |end: End| if end == Client { 1_000_000 } else { 2_000_000 };
        let builder = PacketBuilder::ipv4(ends[way], ends[1 - way], 64);
        // A SYN's window is not scaled (RFC 7323 §2.2).
        let window = if matches!(kind, Kind::Syn | Kind::SynAck) { 64_000 } else { self.window };
        let tcp = |syn: u32| builder.tcp(ports[0], ports[1], isn(from) + syn + offset as u32, window);
        let other = if from == Client { Server } else { Client };
        let ack = isn(other) + 1 + self.received(other, at) as u32;
        let (builder, payload) = match kind {
            Kind::Syn | Kind::SynAck => {
                let options = [
                    TcpOptionElement::MaximumSegmentSize(MSS as u16),
                    TcpOptionElement::WindowScale(7),
                    TcpOptionElement::SelectiveAcknowledgementPermitted,
                ];
                let tcp = tcp(0).syn().options(&options).expect("options that fit");
                (if matches!(kind, Kind::Syn) { tcp } else { tcp.ack(isn(other) + 1) }, &[][..])
            }
            Kind::Ack => (tcp(1).ack(ack), &[][..]),
            Kind::Reset => (tcp(1).rst().ack(ack), &[][..]),
            Kind::Data(payload) => (tcp(1).ack(ack).psh(), payload),
        };
        let mut bytes = Vec::new();
        builder.write(&mut bytes, payload).expect("memory takes all");
        if self.identification.is_some() && matches!(kind, Kind::Syn | Kind::SynAck) {
            bytes[40..52].copy_from_slice(&LINUX_OPTIONS);
        }
        // A SYN-ACK is sent before there is a socket, and a reset when there is none any more.
        if !matches!(kind, Kind::SynAck | Kind::Reset) {
            self.number(from, &mut bytes);
        }
        let arrived = at + self.rtt / 2.0 + std::mem::take(&mut self.extra_delay);
        let end = offset + payload.len() as u64;
        self.sent.push(Sent { from, left: at, arrived: (!lost).then_some(arrived), bytes, end });
        arrived
    }

    /// The bytes of an end that have arrived without a gap.
    fn received(&self, from: End, at: f64) -> u64 {
        let arrived = self.sent.iter().filter(|sent| sent.from == from && sent.arrived.is_some_and(|time| time <= at));
        let arrived = arrived.map(|sent| sent.end).max().unwrap_or(0);
        let lost = self.sent.iter().filter(|sent| sent.from == from && sent.end <= arrived && sent.arrived.is_none());
        let is_repaired = |lost: &Sent| {
            self.sent.iter().any(|sent| sent.end == lost.end && sent.arrived.is_some_and(|time| time <= at))
        };
        let gap = lost.filter(|lost| !is_repaired(lost)).map(|lost| lost.end).min();
        let Some(gap) = gap else { return arrived };
        self.sent.iter().filter(|sent| sent.from == from && sent.end < gap).map(|sent| sent.end).max().unwrap_or(0)
    }
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Syn,
    SynAck,
    Ack,
    Reset,
    Data(&'a [u8]),
}

/// A capture of scripted connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Captured {
    pub(crate) packets: Vec<(u64, Vec<u8>)>,
    /// The maximum number of captured bytes of a packet.
    pub(crate) snaplen: Option<usize>,
    next: usize,
}

impl Captured {
    /// A capture at one end, with a clock that is ahead by a number of milliseconds.
    pub(crate) fn at(connections: &[ScriptedConnection], end: End, ahead: f64) -> Self {
        let captured = |sent: &Sent| if sent.from == end { Some(sent.left) } else { sent.arrived };
        let mut packets: Vec<(f64, Vec<u8>)> = Vec::new();
        for sent in connections.iter().flat_map(|connection| &connection.sent) {
            packets.extend(captured(sent).map(|time| (time, sent.bytes.clone())));
        }
        packets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let nanos = |time: f64| 1_700_000_000_000_000_000 + ((time + ahead) * 1e6) as u64;
        Self { packets: packets.into_iter().map(|(time, bytes)| (nanos(time), bytes)).collect(), ..Self::default() }
    }

    pub(crate) fn explained(mut self) -> Explanation {
        let (explanation, broken) = explain::explain(&mut self);
        assert!(broken.is_none());
        for transfer in explanation.connections.iter().flat_map(|connection| &connection.transfers) {
            assert_eq!(u128::from(transfer.times.sum()), transfer.duration.as_nanos());
        }
        explanation
    }
}

impl Source for Captured {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        self.next += 1;
        Ok(self.packets.get(self.next - 1).map(|(time, bytes)| Packet {
            number: self.next as u64,
            time: Duration::from_nanos(*time),
            interface: 0,
            link: LinkType::RAW,
            direction: None,
            original_len: bytes.len() as u32,
            bytes: &bytes[..bytes.len().min(self.snaplen.unwrap_or(usize::MAX))],
        }))
    }
}
