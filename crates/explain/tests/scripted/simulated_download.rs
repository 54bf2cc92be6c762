//! A download whose sender is a closure: a small simulation of two hosts and a link, in steps of 10 µs.

use std::collections::VecDeque;

use etherparse::{
    PacketBuilder,
    TcpOptionElement::{self, MaximumSegmentSize, Timestamp, WindowScale},
};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
};

/// The bytes of a full segment, and of its packet.
pub(crate) const SEGMENT: u64 = 1448;
const PACKET: u64 = 1500;

const STEP: u64 = 10;
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 8000);

/// Two hosts and what is between them. Times are in microseconds, rates in megabits per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Download {
    pub(crate) rtt: u64,
    /// The rate of the bottleneck, in front of which nothing is dropped.
    pub(crate) link: f64,
    /// A shaper in the sender's host, below TCP, which holds three packets.
    pub(crate) shaper: Option<f64>,
    /// The number of segments that the receiver acknowledges at once.
    pub(crate) ack_every: u64,
    pub(crate) segments: u64,
    /// The bytes of the first segments; the others are full.
    pub(crate) first: &'static [u64],
    /// Whether each segment is pushed: a program writes them one by one.
    pub(crate) is_pushed: bool,
}

impl Default for Download {
    fn default() -> Self {
        Self { rtt: 30_000, link: 100.0, shaper: None, ack_every: 2, segments: 1500, first: &[], is_pushed: false }
    }
}

/// What the sender knows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct View {
    /// Since it began.
    pub(crate) now: u64,
    /// Segments sent, and acknowledged.
    pub(crate) sent: u64,
    pub(crate) acked: u64,
}

struct Simulation {
    download: Download,
    packets: Vec<(End, u64, u64, Vec<u8>)>,
    /// When the shaper and the bottleneck are free.
    free: [f64; 2],
    /// The timestamp of the latest acknowledgement that arrived at the server.
    echo: u32,
}

/// The time that a packet takes at a rate.
pub(crate) fn takes(rate: f64) -> f64 {
    PACKET as f64 * 8.0 / rate
}

fn tick(time: u64, end: End) -> u32 {
    (time / 1000) as u32 + if end == Client { 5000 } else { 90_000 }
}

impl Simulation {
    fn packet(&mut self, end: End, left: u64, arrived: u64, make: impl FnOnce() -> Vec<u8>) {
        self.packets.push((end, left, arrived, make()));
    }

    fn sent(end: End, numbers: (u32, u32), options: &[TcpOptionElement], flags: &str, payload: &[u8]) -> Vec<u8> {
        let ((from, from_port), (to, to_port)) = if end == Client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let mut tcp = PacketBuilder::ipv4(from, to, 64).tcp(from_port, to_port, numbers.0, 60_000);
        tcp = if flags.contains('S') { tcp.syn() } else { tcp };
        tcp = if flags.contains('A') { tcp.ack(numbers.1) } else { tcp };
        tcp = if flags.contains('P') { tcp.psh() } else { tcp };
        let mut bytes = Vec::new();
        tcp.options(options).expect("options that fit").write(&mut bytes, payload).expect("memory takes all");
        bytes
    }

    /// The handshake and the request; returns when the server has it.
    fn open(&mut self) -> u64 {
        let way = self.download.rtt / 2;
        let syn = |time: u64, echo: u32, end: End| {
            [MaximumSegmentSize(1460), WindowScale(7), Timestamp(tick(time, end), echo)]
        };
        let ts = |time: u64, end: End, echo: u32| [Timestamp(tick(time, end), echo)];
        self.packet(Client, 0, way, || Self::sent(Client, (0, 0), &syn(0, 0, Client), "S", &[]));
        let echo = tick(0, Client);
        self.packet(Server, way, 2 * way, || Self::sent(Server, (0, 1), &syn(way, echo, Server), "SA", &[]));
        let (at, echo) = (2 * way, tick(way, Server));
        self.packet(Client, at, at + way, || Self::sent(Client, (1, 1), &ts(at, Client, echo), "A", &[]));
        let request = b"GET /file HTTP/1.1\r\n\r\n";
        self.packet(Client, at + 50, at + 50 + way, || {
            Self::sent(Client, (1, 1), &ts(at, Client, echo), "AP", request)
        });
        self.echo = tick(at, Client);
        at + 50 + way
    }

    /// Hands a segment to the shaper, if any, and the link; returns when it arrives.
    fn send(&mut self, number: u64, now: u64) -> u64 {
        let [seq, end] = [number, number + 1].map(|number| self.download.sent_by(number));
        let payload = vec![b'.'; (end - seq) as usize];
        let takes = |rate| takes(rate) * (PACKET - SEGMENT + end - seq) as f64 / PACKET as f64;
        let left = match self.download.shaper {
            Some(rate) => {
                self.free[0] = self.free[0].max(now as f64) + takes(rate);
                self.free[0]
            }
            None => now as f64,
        };
        self.free[1] = self.free[1].max(left) + takes(self.download.link);
        let arrived = self.free[1] as u64 + self.download.rtt / 2;
        let (options, is_pushed) = ([Timestamp(tick(now, Server), self.echo)], self.download.is_pushed);
        self.packet(Server, left as u64, arrived, || {
            Self::sent(Server, (1 + seq as u32, 23), &options, if is_pushed { "AP" } else { "A" }, &payload)
        });
        arrived
    }
}

impl Download {
    /// The bytes of this many segments.
    fn sent_by(self, segments: u64) -> u64 {
        let first = self.first.iter().take(segments as usize).sum::<u64>();
        first + segments.saturating_sub(self.first.len() as u64) * SEGMENT
    }

    /// The packets of a sender that sends its next segment when `sends` says so. Each end's capture.
    pub(crate) fn run(self, mut sends: impl FnMut(View) -> bool) -> [Captured; 2] {
        let mut simulation = Simulation { download: self, packets: Vec::new(), free: [0.0; 2], echo: 0 };
        let begin = simulation.open();
        let mut view = View::default();
        // When segments arrive, with their timestamps; and acknowledgements, with what they acknowledge.
        let mut arrivals: VecDeque<(u64, u32)> = VecDeque::new();
        let mut acks: VecDeque<(u64, u64, u32)> = VecDeque::new();
        let (mut received, mut to_echo) = (0, None);
        while view.acked < self.segments {
            view.now += STEP;
            let now = begin + view.now;
            while let Some((_, acked, stamp)) = acks.pop_front_if(|(at, ..)| *at <= now) {
                (view.acked, simulation.echo) = (acked, stamp);
            }
            while let Some((at, stamp)) = arrivals.pop_front_if(|(at, _)| *at <= now) {
                received += 1;
                // The timestamp of the first segment that is not acknowledged (RFC 7323 §4.3).
                let echo = *to_echo.get_or_insert(stamp);
                if received % self.ack_every == 0 || received == self.segments {
                    to_echo = None;
                    let (arrived, options) = (at + self.rtt / 2, [Timestamp(tick(at, Client), echo)]);
                    simulation.packet(Client, at, arrived, || {
                        Simulation::sent(Client, (23, 1 + self.sent_by(received) as u32), &options, "A", &[])
                    });
                    acks.push_back((arrived, received, tick(at, Client)));
                }
            }
            let has_room = |simulation: &Simulation| {
                let queued = simulation.free[0] - now as f64;
                self.shaper.is_none_or(|rate| queued < 3.0 * takes(rate))
            };
            while view.sent < self.segments && has_room(&simulation) && sends(view) {
                arrivals.push_back((simulation.send(view.sent, now), tick(now, Server)));
                view.sent += 1;
            }
        }
        [Client, Server].map(|at| {
            let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
            for (end, left, arrived, bytes) in &simulation.packets {
                packets.push((if *end == at { *left } else { *arrived }, bytes.clone()));
            }
            packets.sort_by_key(|(time, _)| *time);
            let nanos = |time: u64| 1_700_000_000_000_000_000 + time * 1000;
            let mut captured = Captured::default();
            captured.packets = packets.into_iter().map(|(time, bytes)| (nanos(time), bytes)).collect();
            captured
        })
    }
}
