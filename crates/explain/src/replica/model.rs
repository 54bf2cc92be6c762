//! The model of a transfer: everything that affects how long it takes, and nothing else.
//!
//! All of it is inferred from packets. Positions are offsets into the transfer's bytes, not packet numbers or times: a
//! what-if changes the packets and their times, but not the byte after which the program paused.

use std::{ops::Range, time::Duration};

use units::{Rate, Size};

use super::ReplayError;

/// The maximum number of packets and of writes.
const MAX_PACKETS: u64 = 20_000_000;
/// The maximum number of repetitions of an incident when a transfer is scaled.
const MAX_REPEATS: u64 = 100_000;
/// The maximum of each duration, so that sums do not overflow.
const MAX_TIME: Duration = Duration::from_secs(1_000_000);

/// One transfer in one direction over one connection.
///
/// [`Model::new`] is a healthy transfer between Linux hosts; set what was inferred.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Payload bytes.
    pub bytes: Size,
    /// What happens before the first byte can be sent.
    pub before: Before,
    /// What ends it.
    pub until: Until,
    /// The path between sender and receiver.
    pub path: Path,
    /// The sending program and its socket.
    pub writes: Writes,
    /// The sending TCP.
    pub sender: Sender,
    /// The receiving TCP and the program that reads from it.
    pub receiver: Receiver,
}

/// What happens before the first byte can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Before {
    /// One-way trips. A connect is 2, a full TLS 1.3 handshake 2 more (TLS 1.2: 4), a request whose answer is this
    /// transfer 1.
    pub trips: u32,
    /// Time besides trips: the DNS lookup, TLS computation, the server's think time.
    pub time: Duration,
    /// The one-way trips of the wait for `100 Continue` before the body (RFC 9110 §10.1.1), and its time besides.
    pub held_trips: u32,
    /// See `held_trips`.
    pub held_time: Duration,
}

/// What ends a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The last byte is at the receiver: a download, seen by the client.
    Delivered,
    /// The acknowledgement of the last byte is at the sender.
    Acknowledged,
    /// The first byte of the response is at the sender: an upload, seen by the client. The receiver sends it after this
    /// think time.
    Answered(Duration),
}

/// The path between sender and receiver. Acknowledgements have a propagation delay, but no bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// The base round-trip time: propagation in both directions, half in each.
    pub rtt: Duration,
    /// The bottleneck's rate, counting whole IP packets; none: too fast to be inferred.
    pub rate: Option<Rate>,
    /// The bottleneck's whole rate, if other connections share it and `rate` is only this transfer's part.
    pub unshared_rate: Option<Rate>,
    /// The size of the queue in front of the bottleneck, counting whole IP packets; none: unlimited.
    pub queue: Option<Size>,
    /// IP and TCP header bytes per packet: 40, with timestamps 52; for IPv6 20 more.
    pub headers: Size,
    /// Random losses, as opposed to drops by a full queue.
    pub losses: Vec<Loss>,
}

/// A loss: the packets that begin in a range of bytes are lost the first few times they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Offsets in the transfer.
    pub bytes: Range<u64>,
    /// How often: 1 loses the original, 2 its retransmission too.
    pub times: u32,
}

/// The sending program and its socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Writes {
    /// How much the program writes at a time; none: everything.
    pub chunk: Option<Size>,
    /// The number of unacknowledged writes that block the program; none: as many as fit the buffer. 1 is Winsock with a
    /// send buffer no larger than the chunk (KB 823764).
    pub in_flight: Option<u32>,
    /// The number of unacknowledged or unsent payload bytes that the socket holds; none: it grows as needed. (Linux counts
    /// overhead as part of `SO_SNDBUF`; this does not.)
    pub send_buffer: Option<Size>,
    /// How much of the buffer must be free before a blocked program continues: Linux 1/3 of it
    /// (`sk_stream_is_writeable`); zero: any.
    pub low_water: Size,
    /// Times at which the program had nothing to write.
    pub pauses: Vec<Pause>,
}

/// The program wrote nothing for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Before the byte at this offset.
    pub at: u64,
    /// For this long…
    pub time: Duration,
    /// …since this event.
    pub since: Since,
}

/// The event with which a pause begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Every byte before was sent: the program was busy with something else.
    Sent,
    /// Every byte before was acknowledged: the program waited for that.
    Acknowledged,
}

/// The program read nothing for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// After it had read all bytes before this offset.
    pub at: u64,
    /// For this long since the byte at this offset arrived.
    pub time: Duration,
}

/// The sending TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct Sender {
    /// The payload of a full segment: the MSS less the TCP options of each packet (1448 of 1460 with timestamps).
    pub mss: Size,
    /// Initial window, in full segments (RFC 6928: 10).
    pub initial_window: u32,
    /// How the congestion window grows.
    pub congestion: Congestion,
    /// The initial ssthresh in payload bytes, if slow start ended without a loss (a cached value).
    pub slow_start_threshold: Option<Size>,
    /// The maximum congestion window in payload bytes (Linux: `snd_cwnd_clamp`).
    pub largest_window: Option<Size>,
    /// The rate at which it, or a shaper in its host, sends at most, counting whole IP packets; none: as the congestion
    /// control allows. The initial window is not paced.
    pub pacing: Option<Rate>,
    /// Which small segments Nagle's algorithm holds.
    pub nagle: Nagle,
    /// Whether the window is reduced after an idle period of an RTO (RFC 5681 §4.1; Linux: `tcp_slow_start_after_idle`).
    pub restart_after_idle: bool,
    /// The minimum retransmission timeout: Linux 200 ms, RFC 6298 1 s, Windows 300 ms.
    pub min_rto: Duration,
    /// Selective acknowledgements (RFC 2018), with loss recovery by them (RFC 6675, 8985).
    pub sack: bool,
    /// Tail loss probes (RFC 8985 §7).
    pub tail_loss_probe: bool,
}

/// How the congestion window grows. All begin with slow start by acknowledged bytes (RFC 3465), which delayed ACKs do not
/// slow down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681: one segment more per round trip; half after a loss.
    Reno,
    /// RFC 9438, which leaves slow start when the delay rises (`HyStart`, as in Linux): Linux, Windows, macOS.
    Cubic,
    /// BBR version 1, as in Linux: paces by the measured bandwidth, not by losses.
    Bbr,
}

/// Which small segments wait for acknowledgements (RFC 896).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nagle {
    /// None: `TCP_NODELAY`.
    Off,
    /// Those behind any unacknowledged byte (RFC 1122 §4.2.3.4): Windows, Solaris, BSD.
    Any,
    /// Those behind another unacknowledged small segment (Minshall): Linux.
    Small,
}

/// The receiving TCP and the program that reads from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Receiver {
    /// When it acknowledges.
    pub acks: Acks,
    /// The initial receive window; none: never a limit.
    pub window: Option<Size>,
    /// The maximum window, if it grows with the data that arrives (Linux: dynamic right-sizing); none: it does not grow.
    pub largest_window: Option<Size>,
    /// How fast its program reads; none: at once.
    pub reads: Option<Rate>,
    /// Times at which its program does not read.
    pub stalls: Vec<Stall>,
}

/// When a receiver acknowledges. Independent of its rule, it does at once if segments are missing (RFC 5681 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acks {
    /// How much makes it acknowledge at once.
    pub rule: AckRule,
    /// How long it delays the acknowledgement of less data, since that arrived.
    pub timer: Duration,
    /// How many acknowledgements at the start are not delayed (Linux: up to 16).
    pub quick: u32,
    /// Whether the last segment of a burst (PSH) is acknowledged as soon as the program has read it: Linux, if the
    /// program reads promptly and the connection is not interactive.
    pub pushed_at_once: bool,
}

/// How much unacknowledged data makes a receiver acknowledge at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRule {
    /// This many packets of any size: 1 is every packet, 2 is Windows.
    Packets(u32),
    /// The bytes of this many full segments: Solaris 2 and more (`tcp_deferred_acks_max`).
    Segments(u32),
    /// More bytes than one full segment: Linux.
    MoreThanSegment,
    /// This many bytes.
    Bytes(Size),
}

impl Model {
    /// A healthy transfer between Linux hosts, from the sender's first byte until the last is acknowledged.
    pub fn new(bytes: Size, rtt: Duration) -> Self {
        Self {
            bytes,
            before: Before::default(),
            until: Until::Acknowledged,
            path: Path { rtt, rate: None, unshared_rate: None, queue: None, headers: Size(52), losses: Vec::new() },
            writes: Writes { chunk: None, in_flight: None, send_buffer: None, low_water: Size(0), pauses: Vec::new() },
            sender: Sender {
                mss: Size(1448),
                initial_window: 10,
                congestion: Congestion::Cubic,
                slow_start_threshold: None,
                largest_window: None,
                pacing: None,
                nagle: Nagle::Small,
                restart_after_idle: true,
                min_rto: Duration::from_millis(200),
                sack: true,
                tail_loss_probe: true,
            },
            receiver: Receiver {
                acks: Acks {
                    rule: AckRule::MoreThanSegment,
                    timer: Duration::from_millis(40),
                    quick: 16,
                    pushed_at_once: true,
                },
                window: None,
                largest_window: None,
                reads: None,
                stalls: Vec::new(),
            },
        }
    }

    /// The same transfer with another number of bytes. Losses, pauses and stalls occur equally often per byte; those before
    /// the first byte are not repeated.
    #[must_use]
    pub fn scaled(&self, bytes: Size) -> Self {
        let period = self.bytes.0.max(1);
        let mut model = Self { bytes, ..self.clone() };
        let shifts = |at: u64| {
            let last = if at == 0 { 0 } else { bytes.0.saturating_sub(at) / period };
            (0..=last.min(MAX_REPEATS)).map(move |n| n * period).filter(move |shift| at + shift <= bytes.0)
        };
        let losses = self.path.losses.iter().flat_map(|loss| {
            let Range { start, end } = loss.bytes;
            shifts(start).map(move |shift| Loss { bytes: start + shift..end.saturating_add(shift), times: loss.times })
        });
        model.path.losses = losses.collect();
        let pauses = self.writes.pauses.iter();
        model.writes.pauses =
            pauses.flat_map(|pause| shifts(pause.at).map(|shift| Pause { at: pause.at + shift, ..*pause })).collect();
        let stalls = self.receiver.stalls.iter();
        model.receiver.stalls =
            stalls.flat_map(|stall| shifts(stall.at).map(|shift| Stall { at: stall.at + shift, ..*stall })).collect();
        model
    }

    /// Checks that all values are in range.
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        let (sender, path, writes, receiver) = (&self.sender, &self.path, &self.writes, &self.receiver);
        let sizes = [
            ("the MSS", Some(sender.mss.0), 1, 1 << 20),
            ("the initial window", Some(sender.initial_window.into()), 1, 1 << 20),
            ("the slow-start threshold", sender.slow_start_threshold.map(|bytes| bytes.0), 1, 1 << 40),
            ("the largest congestion window", sender.largest_window.map(|bytes| bytes.0), 1, 1 << 40),
            ("the number of bytes", Some(self.bytes.0), 0, sender.mss.0.saturating_mul(MAX_PACKETS)),
            ("the headers' size", Some(path.headers.0), 0, 1 << 16),
            ("the rate in bits per second", path.rate.map(Rate::as_bits_per_second), 1, 1 << 50),
            ("the pacing rate in bits per second", sender.pacing.map(Rate::as_bits_per_second), 1, 1 << 50),
            ("the chunk of a write", writes.chunk.map(|chunk| chunk.0), 1 + self.bytes.0 / MAX_PACKETS, u64::MAX),
            ("the number of writes in flight", writes.in_flight.map(u64::from), 1, u64::MAX),
            ("the send buffer", writes.send_buffer.map(|bytes| bytes.0), 1 + self.bytes.0 / MAX_PACKETS, u64::MAX),
            ("the receive window", receiver.window.map(|bytes| bytes.0), 1 + self.bytes.0 / MAX_PACKETS, 1 << 40),
            ("the largest receive window", receiver.largest_window.map(|bytes| bytes.0), 1, 1 << 40),
            ("the reader's rate in bits per second", receiver.reads.map(Rate::as_bits_per_second), 1, 1 << 50),
            ("the number of losses", path.losses.iter().map(|loss| loss.times.into()).max(), 0, 15),
            ("the number of trips before the first byte", Some(self.before.trips.into()), 0, 1000),
            ("the number of trips before the body", Some(self.before.held_trips.into()), 0, 1000),
        ];
        for (what, value, min, max) in sizes {
            if let Some(value) = value
                && !(min..=max).contains(&value)
            {
                let must = if value < min { format!("at least {min}") } else { format!("at most {max}") };
                return Err(ReplayError::OutOfRange { what, value: value.to_string(), must });
            }
        }
        let pauses = writes.pauses.iter().map(|pause| pause.time).chain(receiver.stalls.iter().map(|stall| stall.time));
        let think_time = if let Until::Answered(think_time) = self.until { think_time } else { Duration::ZERO };
        let times = [
            ("the RTT", path.rtt),
            ("the time before the first byte", self.before.time),
            ("the time before the body", self.before.held_time),
            ("the think time", think_time),
            ("a pause", pauses.max().unwrap_or_default()),
            ("the ACK timer", receiver.acks.timer),
            ("the minimum RTO", sender.min_rto),
        ];
        for (what, time) in times {
            if time > MAX_TIME {
                let (value, must) = (format!("{} s", time.as_secs()), format!("at most {} s", MAX_TIME.as_secs()));
                return Err(ReplayError::OutOfRange { what, value, must });
            }
        }
        Ok(())
    }
}
