//! Packets from arbitrary bytes, for the fuzzer and for property tests, and the invariants of every explanation.

use std::{io, net::Ipv4Addr, time::Duration};

use capture::{Direction, Error, LinkType, Packet, Source};
use etherparse::PacketBuilder;
use explain::{
    Explanation, pair_captures,
    render::{PredictionRequest, ReadCapture, json, text},
};

/// The number of bytes that describe a packet.
pub(crate) const STEP: usize = 10;

/// Beginnings of data, so that every reader is reached.
const PREFIXES: [&[u8]; 16] = [
    b"",
    b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n",
    b"PUT /a HTTP/1.1\r\nContent-Length: 9000\r\n\r\n",
    b"HEAD /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
    b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    b"\0\0\x04\x08\0\0\0\0\x01\0\0\xff\xff",
    b"\0\x10\0\x01\x05\0\0\0\x01",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    b"\x17\x03\x03\x40\0",
];

/// Packets of four connections, described by bytes.
pub(crate) struct Script<'a> {
    bytes: &'a [u8],
    number: u64,
    now: Duration,
    /// The next sequence number of each side of each connection.
    next: [[u32; 2]; 4],
    packet: Vec<u8>,
}

impl<'a> Script<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            number: 0,
            now: Duration::from_secs(1_000),
            next: [[u32::MAX - 20_000; 2]; 4],
            packet: Vec::new(),
        }
    }
}

impl Source for Script<'_> {
    // One step of the script; its parts share all bytes of the step.
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let Some((step, rest)) = self.bytes.split_first_chunk::<STEP>() else { return Ok(None) };
        self.bytes = rest;
        self.number += 1;
        let [kind, flags, time, shift, skip, ack, size, window, option, text] = *step;
        // Mostly small steps; the clock also goes back.
        let ahead = Duration::from_nanos(u64::from(time) << (shift & 31));
        self.now = if shift & 0xe0 == 0xe0 { self.now.saturating_sub(ahead) } else { self.now + ahead };
        let (connection, from) = (usize::from(kind & 3), usize::from(kind >> 2 & 1));
        let flags = if flags & 0x80 == 0 { 16 } else { flags & 0x3f };
        let in_order = self.next[connection][from];
        // Mostly in order; otherwise a retransmission, a gap, or outside any window.
        let seq = match skip {
            0..200 => in_order,
            200..250 => in_order.wrapping_add_signed((i32::from(skip) - 225) * 1448),
            _ => in_order.wrapping_add(u32::from(skip - 249) << 28),
        };
        let other = self.next[connection][1 - from];
        let ack = if ack < 200 { other } else { other.wrapping_add_signed((i32::from(ack) - 228) * 724) };
        let payload = PREFIXES[usize::from(text & 15)];
        let claimed = match size {
            0..100 => payload.len(),
            100..200 => 1448,
            _ => usize::from(size - 199) * 1000,
        }
        .max(payload.len());
        let mut options = Vec::new();
        if flags & 2 != 0 {
            options.extend([2, 4, option, time, 3, 3, option & 31, 4, 2, 1, 1, 1]);
        }
        if option & 1 != 0 {
            options.extend([1, 1, 8, 10, 0, 0, 0, time, 0, 0, 0, shift]);
        }
        if option & 2 != 0 {
            options.extend([1, 1, 5, 10]);
            options.extend(ack.wrapping_add(u32::from(option) << 6).to_be_bytes());
            options.extend(ack.wrapping_add(u32::from(option) << 8).to_be_bytes());
        }
        let ends = [Ipv4Addr::new(10, 0, 0, 1).octets(), Ipv4Addr::new(10, 0, 0, 2).octets()];
        let ports = [40_000 + connection as u16, if connection == 3 { 40_000 } else { 80 }];
        let window = u16::from(window) << (option & 8);
        let builder =
            PacketBuilder::ipv4(ends[from], ends[1 - from], 64).tcp(ports[from], ports[1 - from], seq, window);
        let mut head = builder.options_raw(&options).expect("a multiple of four bytes");
        for (bit, flag) in [(1, 'f'), (2, 's'), (4, 'r'), (8, 'p')] {
            head = match flag {
                _ if flags & bit == 0 => head,
                'f' => head.fin(),
                's' => head.syn(),
                'r' => head.rst(),
                _ => head.psh(),
            };
        }
        if flags & 16 != 0 {
            head = head.ack(ack);
        }
        self.packet.clear();
        head.write(&mut self.packet, payload).expect("memory takes all");
        let headers = self.packet.len() - payload.len();
        let whole = (headers + claimed).min(65_535);
        self.packet[2..4].copy_from_slice(&(whole as u16).to_be_bytes());
        let taken = (whole - headers) as u32 + u32::from(flags & 3 != 0);
        self.next[connection][from] = seq.wrapping_add(taken);
        Ok(Some(Packet {
            number: self.number,
            time: self.now,
            interface: 0,
            link: LinkType::RAW,
            direction: match text >> 6 {
                2 => Some(Direction::Inbound),
                3 => Some(Direction::Outbound),
                _ => None,
            },
            original_len: whole as u32,
            bytes: &self.packet,
        }))
    }
}

/// Checks what holds for any explanation: the causes add up, no finding costs more than the transfer took, and text, JSON
/// and predictions can be made.
pub(crate) fn check(explanation: Explanation) {
    for transfer in explanation.connections.iter().flat_map(|connection| &connection.transfers) {
        assert_eq!(u128::from(transfer.times.sum()), transfer.duration.as_nanos(), "of {transfer:?}");
        let largest = transfer.findings.iter().map(|finding| finding.cost).max().unwrap_or_default();
        assert!(largest <= transfer.duration, "of {transfer:?}");
    }
    let packets = explanation.packets;
    let connections = pair_captures([explanation]);
    let change = "rtt=20ms,rate=10mbit,deferred-ack=1ms,no-loss".parse().expect("changes");
    let request = PredictionRequest { what_if: Some(change), bytes: Some(20_000) };
    let captures = [ReadCapture { name: "capture".to_owned(), packets, ..ReadCapture::default() }];
    serde_json::to_writer(io::sink(), &json::document(&captures, &connections, &request)).expect("a document");
    let text = text::render(&connections, packets, &request, &text::Layout { width: 100, colour: true, top: 5 });
    assert!(!text.is_empty());
}
