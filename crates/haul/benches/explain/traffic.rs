//! Synthetic traffic, as captured at a busy client.
//!
//! The work of an analyser depends on the traffic: connections that open and close, uploads and downloads, slow start,
//! losses with duplicate acknowledgements and retransmissions. Each connection here is a sender that advances round trip
//! by round trip; the packets of all connections are merged by time. The file is a pcap with Ethernet headers and
//! microseconds, because every analyser reads that.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{self, Write},
};

/// The payload of segments.
static ZEROS: [u8; SEGMENT as usize] = [0; SEGMENT as usize];

const SEGMENT: u64 = 1448;
/// The time between two segments of a burst, in microseconds: 1 Gbit/s.
const GAP: u64 = 12;
/// The largest window, in segments.
const WINDOW: u64 = 200;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// The parameters of the traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    /// The number of connections.
    pub(crate) connections: u32,
    /// The number of simultaneous connections.
    pub(crate) simultaneous: u32,
    /// The minimum and maximum bytes of a connection, log-uniformly distributed.
    pub(crate) bytes: (u64, u64),
    /// The size of the capture in bytes; no connection begins after it is reached.
    pub(crate) size: u64,
}

/// A random number generator (SplitMix64) with a fixed seed: the same traffic every time.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }
}

/// A packet to be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    at: u64,
    flow: u32,
    from_client: bool,
    flags: u8,
    seq: u32,
    ack: u32,
    sack: Option<(u32, u32)>,
    len: u64,
    /// The beginning of the payload; the rest is zeros.
    text: String,
}

/// An open connection.
struct Flow {
    number: u32,
    upload: bool,
    bytes: u64,
    /// The acknowledged bytes of the body.
    done: u64,
    rtt: u64,
    window: u64,
    threshold: u64,
    /// The next sequence numbers of client and server.
    next: [u32; 2],
}

impl Flow {
    fn new(number: u32, traffic: Traffic, rng: &mut Rng) -> Self {
        let (least, most) = traffic.bytes;
        let bytes = least as f64 * (most as f64 / least as f64).powf(rng.unit());
        Self {
            number,
            upload: rng.next().is_multiple_of(2),
            bytes: bytes as u64,
            done: 0,
            rtt: 5_000 + rng.next() % 100_000,
            window: 10,
            threshold: WINDOW,
            next: [rng.next() as u32, rng.next() as u32],
        }
    }

    /// A packet of the client or the server; advances its sequence number.
    fn packet(&mut self, at: u64, from_client: bool, flags: u8, text: &str) -> Packet {
        let [client, server] = self.next;
        let (seq, ack) = if from_client { (client, server) } else { (server, client) };
        let len = text.len() as u64;
        let own = &mut self.next[usize::from(!from_client)];
        *own = own.wrapping_add(len as u32 + u32::from(flags & (SYN | FIN) != 0));
        Packet { at, flow: self.number, from_client, flags, seq, ack, sack: None, len, text: text.to_owned() }
    }

    fn open(&mut self, now: u64, out: &mut Vec<Packet>) -> u64 {
        let (number, bytes) = (self.number, self.bytes);
        let there = now + self.rtt;
        let (method, length) =
            if self.upload { ("PUT", format!("Content-Length: {bytes}\r\n")) } else { ("GET", String::new()) };
        let request = format!("{method} /files/{number}.bin HTTP/1.1\r\nHost: files.example\r\n{length}\r\n");
        out.push(self.packet(now, true, SYN, ""));
        out.push(self.packet(there, false, SYN | ACK, ""));
        out.push(self.packet(there + 20, true, ACK, ""));
        out.push(self.packet(there + 40, true, ACK | PSH, &request));
        if self.upload {
            return there + 60;
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        out.push(self.packet(there + self.rtt + 500, false, ACK | PSH, &head));
        there + self.rtt + 520
    }

    /// Sends a round of the body; returns when the next one begins.
    fn round(&mut self, now: u64, rng: &mut Rng, out: &mut Vec<Packet>) -> u64 {
        let segments = (self.bytes - self.done).div_ceil(SEGMENT).min(self.window);
        // At most one segment of a round is lost, and one of 2000 in total.
        let lost = rng.next() % 2000;
        let lost = (lost + 3 < segments).then_some(lost);
        let sender = usize::from(!self.upload);
        let (first, other) = (self.next[sender], self.next[1 - sender]);
        let place = |segment: u64| first.wrapping_add((segment * SEGMENT) as u32);
        let length = |segment: u64| (self.bytes - self.done - segment * SEGMENT).min(SEGMENT);
        let data = |segment: u64, at: u64| Packet {
            at,
            flow: self.number,
            from_client: self.upload,
            flags: ACK,
            seq: place(segment),
            ack: other,
            sack: None,
            len: length(segment),
            text: String::new(),
        };
        let acknowledge = |to: u32, sack: Option<(u32, u32)>, at: u64| Packet {
            at,
            flow: self.number,
            from_client: !self.upload,
            flags: ACK,
            seq: other,
            ack: to,
            sack,
            len: 0,
            text: String::new(),
        };
        // At the client, an upload's acknowledgements arrive a round trip later, a download's are sent at once.
        let answer = if self.upload { self.rtt } else { 30 };
        let behind = |segment: u64| place(segment).wrapping_add(length(segment) as u32);
        for segment in 0..segments {
            let at = now + segment * GAP;
            if lost != Some(segment) || self.upload {
                out.push(data(segment, at));
            }
            match lost {
                Some(lost) if segment > lost => {
                    let block = (place(lost + 1), behind(segment));
                    out.push(acknowledge(place(lost), Some(block), at + answer));
                }
                Some(lost) if segment == lost => {}
                _ if segment % 2 == 1 || segment + 1 == segments => {
                    out.push(acknowledge(behind(segment), None, at + answer));
                }
                _ => {}
            }
        }
        let mut end = now + self.rtt.max(segments * GAP);
        if let Some(lost) = lost {
            let again = now + self.rtt + (lost + 3) * GAP;
            out.push(data(lost, again.max(end)));
            out.push(acknowledge(behind(segments - 1), None, again.max(end) + answer));
            end = again.max(end) + self.rtt;
            self.threshold = (self.window / 2).max(2);
            self.window = self.threshold;
        } else if self.window < self.threshold {
            self.window = (2 * self.window).min(WINDOW);
        } else {
            self.window = (self.window + 1).min(WINDOW);
        }
        let sent = (segments * SEGMENT).min(self.bytes - self.done);
        self.done += sent;
        self.next[sender] = first.wrapping_add(sent as u32);
        end
    }

    fn close(&mut self, now: u64, out: &mut Vec<Packet>) -> u64 {
        let now = now + 50;
        if self.upload {
            out.push(self.packet(now, false, ACK | PSH, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"));
        }
        out.push(self.packet(now + 100, true, ACK | FIN, ""));
        out.push(self.packet(now + 100 + self.rtt, false, ACK | FIN, ""));
        out.push(self.packet(now + 120 + self.rtt, true, ACK, ""));
        now + 140 + self.rtt
    }
}

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    Body,
    Over,
}

/// Writes a capture; returns the numbers of packets and connections.
pub(crate) fn write(traffic: Traffic, mut to: impl Write) -> io::Result<(u64, u32)> {
    for word in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 1u32] {
        to.write_all(&word.to_le_bytes())?;
    }
    let mut rng = Rng(7);
    let (mut flows, mut packets) = (Vec::new(), BinaryHeap::new());
    // The next step of each connection.
    let mut steps = BinaryHeap::new();
    let (mut begun, mut count, mut size) = (0, 0, 0);
    for place in 0..traffic.simultaneous.min(traffic.connections) {
        flows.push(Flow::new(begun, traffic, &mut rng));
        steps.push(Reverse((u64::from(begun) * 997, Stage::Open, place)));
        begun += 1;
    }
    let mut out = Vec::new();
    while let Some(Reverse((now, stage, place))) = steps.pop() {
        while packets.peek().is_some_and(|Reverse(packet): &Reverse<Packet>| packet.at <= now) {
            let Some(Reverse(packet)) = packets.pop() else { break };
            size += put(&packet, &mut to)?;
            count += 1;
        }
        let flow = &mut flows[place as usize];
        let (end, next) = match stage {
            Stage::Open => (flow.open(now, &mut out), Stage::Body),
            Stage::Body => {
                let end = flow.round(now, &mut rng, &mut out);
                if flow.done < flow.bytes { (end, Stage::Body) } else { (flow.close(end, &mut out), Stage::Over) }
            }
            Stage::Over if begun < traffic.connections && size < traffic.size => {
                *flow = Flow::new(begun, traffic, &mut rng);
                begun += 1;
                (now + 1000, Stage::Open)
            }
            Stage::Over => continue,
        };
        packets.extend(out.drain(..).map(Reverse));
        steps.push(Reverse((end, next, place)));
    }
    while let Some(Reverse(packet)) = packets.pop() {
        put(&packet, &mut to)?;
        count += 1;
    }
    to.flush()?;
    Ok((count, begun))
}

/// Writes a packet; returns the length of its record. Checksums are zero, as in a sender's capture with offloading.
fn put(packet: &Packet, to: &mut impl Write) -> io::Result<u64> {
    let mut record = [0; 16 + 14 + 20 + 60];
    let mut len = 16;
    let mut add = |bytes: &[u8]| {
        record[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    let mut options = vec![];
    if packet.flags & SYN != 0 {
        options.extend([2, 4, 0x05, 0xB4, 4, 2, 3, 3, 9, 1, 1, 1]);
    }
    let clock = (packet.at / 1000) as u32;
    options.extend([1, 1, 8, 10]);
    options.extend(clock.to_be_bytes());
    options.extend(clock.saturating_sub(1).to_be_bytes());
    if let Some((from, until)) = packet.sack {
        options.extend([1, 1, 5, 10]);
        options.extend(from.to_be_bytes());
        options.extend(until.to_be_bytes());
    }
    let [_, _, high, low] = packet.flow.to_be_bytes();
    let client = [10, (packet.flow >> 16) as u8, high, low];
    let (server, port) = ([192, 0, 2, 1], (10_000 + packet.flow % 50_000) as u16);
    let (from, until, ports) =
        if packet.from_client { (client, server, [port, 80]) } else { (server, client, [80, port]) };
    let total = 20 + 20 + options.len() as u64 + packet.len;
    add(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    add(&[0x45, 0]);
    add(&(total as u16).to_be_bytes());
    add(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
    add(&from);
    add(&until);
    for port in ports {
        add(&port.to_be_bytes());
    }
    add(&packet.seq.to_be_bytes());
    add(&(if packet.flags & ACK == 0 { 0 } else { packet.ack }).to_be_bytes());
    add(&[(5 + options.len() as u8 / 4) << 4, packet.flags, 0x10, 0, 0, 0, 0, 0]);
    add(&options);
    let kept = (total + 14) as u32;
    let time = 1_700_000_000_000_000 + packet.at;
    let words = [(time / 1_000_000) as u32, (time % 1_000_000) as u32, kept, kept];
    for (place, word) in record.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    to.write_all(&record[..len])?;
    to.write_all(packet.text.as_bytes())?;
    to.write_all(&ZEROS[..packet.len as usize - packet.text.len()])?;
    Ok(16 + u64::from(kept))
}
