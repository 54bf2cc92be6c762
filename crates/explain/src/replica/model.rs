//! What a transfer is made of: everything that decided how long it took, and nothing else.
//!
//! All of it is inferred from packets, so each field says where it is seen, and its default is what to take where
//! it is not. Positions are offsets into the transfer's bytes, not packet numbers or times: after a what-if the
//! packets are others and come at other times, but the byte after which the program paused is the same.

use std::{ops::Range, time::Duration};

use units::{Rate, Size};

use super::ReplayError;

/// The most packets and writes that a replay is worth.
const MOST_PACKETS: u64 = 20_000_000;
/// How often something is repeated at the most when a transfer is scaled.
const MOST_REPEATS: u64 = 100_000;
/// Longer than anybody waits: so that times add up.
const LONGEST: Duration = Duration::from_secs(1_000_000);

/// One transfer in one direction over one connection.
///
/// [`Model::new`] is a healthy one, from a Linux host to another; set what was inferred.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Payload bytes that are sent.
    pub bytes: Size,
    /// What happens before the first byte can be sent.
    pub before: Before,
    /// What ends it.
    pub until: Until,
    /// What is between sender and receiver.
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
    /// Time that is no travelling: looking up the name, computing keys, thinking of the answer.
    pub time: Duration,
}

/// What ends a transfer; seen where the capture was taken, and from what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The last byte is at the receiver: a download, seen by the client.
    Delivered,
    /// The acknowledgement of the last byte is at the sender.
    Acknowledged,
    /// The first byte of the answer is at the sender: an upload, seen by the client. The answer is sent after so
    /// much time at the receiver.
    Answered(Duration),
}

/// What is between sender and receiver. The way of the acknowledgements has a length, but is never busy.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Round-trip time of a small packet when nothing waits: propagation, both ways. Half of it is each way.
    pub rtt: Duration,
    /// The narrowest link's rate, counting whole IP packets; none: too fast to be seen.
    pub rate: Option<Rate>,
    /// What may wait in front of the narrowest link, as whole IP packets, before packets are dropped; none: no
    /// drop was seen, so there was room.
    pub queue: Option<Size>,
    /// Headers of each packet, IP and TCP: 40, with timestamps 52; IPv6 20 more.
    pub headers: Size,
    /// Packets that get lost whatever is sent beside them.
    pub losses: Vec<Loss>,
}

/// A loss: the packets that begin in a range of bytes are lost the first few times that they are sent.
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
    /// How much the program writes at once; none: everything, as far as its socket takes it.
    pub chunk: Option<Size>,
    /// How many writes may be unacknowledged before the program is held in the next one; none: as many as fit the
    /// buffer. 1 is Winsock with a send buffer no larger than the chunk (KB 823764).
    pub in_flight: Option<u32>,
    /// How many bytes the socket holds, unacknowledged or not yet sent; none: it grows as needed. Linux' own size
    /// of a fixed `SO_SNDBUF` counts overhead too; what counts here are the payload bytes seen to be outstanding.
    pub send_buffer: Option<Size>,
    /// How much of the buffer must be free before a program that waits for room goes on: Linux 1/3 of it
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
    /// For so long…
    pub time: Duration,
    /// …since this.
    pub since: Since,
}

/// What a pause began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Every byte before was sent: the program had something else to do.
    Sent,
    /// Every byte before was acknowledged: the program waited for the other end.
    Acknowledged,
}

/// The program read nothing for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// After it had read all bytes before this offset.
    pub at: u64,
    /// For so long since the byte at this offset was there.
    pub time: Duration,
}

/// The sending TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct Sender {
    /// Payload of a full segment: the MSS less the TCP options of each packet (1448 of 1460 with timestamps).
    pub mss: Size,
    /// Initial window, in full segments (RFC 6928: 10).
    pub initial_window: u32,
    /// How the congestion window grows.
    pub congestion: Congestion,
    /// Where slow start ended, if it did without a loss (a cached threshold); in payload bytes.
    pub slow_start_threshold: Option<Size>,
    /// The window above which it was never seen to grow (`snd_cwnd_clamp`); in payload bytes.
    pub largest_window: Option<Size>,
    /// Which small segments wait.
    pub nagle: Nagle,
    /// Whether the window is reset after an idle RTO (RFC 5681 §4.1; Linux: `tcp_slow_start_after_idle`).
    pub restart_after_idle: bool,
    /// The least retransmission timeout: Linux 200 ms, RFC 6298 1 s, Windows 300 ms.
    pub min_rto: Duration,
    /// Selective acknowledgements (RFC 2018), with loss recovery by them (RFC 6675, 8985).
    pub sack: bool,
    /// Tail loss probes (RFC 8985 §7).
    pub tail_loss_probe: bool,
}

/// How a congestion window grows. All begin with slow start, by the bytes that were acknowledged (RFC 3465), so
/// that a receiver that defers acknowledgements does not slow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681: one segment per round trip, half after a loss.
    Reno,
    /// RFC 9438, leaving slow start when the delay rises (`HyStart`, as in Linux): Linux, Windows, macOS.
    Cubic,
    /// BBR version 1, as in Linux: paces by the measured rate, not by losses.
    Bbr,
}

/// Which small segments wait for acknowledgements.
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
    /// The window in its first acknowledgement of data; none: never a limit.
    pub window: Option<Size>,
    /// The largest window it ever offered, if it grows with what arrives (Linux: dynamic right-sizing, twice what
    /// a round trip brought); none: it does not grow.
    pub largest_window: Option<Size>,
    /// How fast its program reads; none: at once.
    pub reads: Option<Rate>,
    /// Times at which its program does not read.
    pub stalls: Vec<Stall>,
}

/// When a receiver acknowledges. Whatever its rule, it does at once when segments are missing (RFC 5681 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acks {
    /// How much makes it acknowledge at once.
    pub rule: AckRule,
    /// How long it defers less than that, from the first byte deferred.
    pub timer: Duration,
    /// How many acknowledgements at the start are not deferred (Linux: up to 16).
    pub quick: u32,
    /// Whether the last segment of a burst (PSH) is acknowledged as soon as the program has read it: Linux, when
    /// the program reads promptly and is not in a dialogue.
    pub pushed_at_once: bool,
}

/// How much unacknowledged data makes a receiver acknowledge at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRule {
    /// So many packets of any size: 1 is every packet, 2 is Windows.
    Packets(u32),
    /// So many full segments' worth of bytes: Solaris 2 and more (`tcp_deferred_acks_max`).
    Segments(u32),
    /// More than one full segment's worth of bytes: Linux.
    MoreThanSegment,
    /// So many bytes.
    Bytes(Size),
}

impl Model {
    /// A healthy transfer of so many bytes over a path of this round-trip time, between Linux hosts: the sender's
    /// first byte at zero, until its last is acknowledged.
    pub fn new(bytes: Size, rtt: Duration) -> Self {
        Self {
            bytes,
            before: Before::default(),
            until: Until::Acknowledged,
            path: Path { rtt, rate: None, queue: None, headers: Size(52), losses: Vec::new() },
            writes: Writes { chunk: None, in_flight: None, send_buffer: None, low_water: Size(0), pauses: Vec::new() },
            sender: Sender {
                mss: Size(1448),
                initial_window: 10,
                congestion: Congestion::Cubic,
                slow_start_threshold: None,
                largest_window: None,
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

    /// The same transfer with more or fewer bytes: losses, pauses and stalls happen again as often per byte. What
    /// was before the first byte is not repeated.
    #[must_use]
    pub fn scaled(&self, bytes: Size) -> Self {
        let period = self.bytes.0.max(1);
        let mut model = Self { bytes, ..self.clone() };
        let again = |at: u64| {
            let last = if at == 0 { 0 } else { bytes.0.saturating_sub(at) / period };
            (0..=last.min(MOST_REPEATS)).map(move |n| n * period).filter(move |shift| at + shift <= bytes.0)
        };
        let losses = self.path.losses.iter().flat_map(|loss| {
            let Range { start, end } = loss.bytes;
            again(start).map(move |shift| Loss { bytes: start + shift..end.saturating_add(shift), times: loss.times })
        });
        model.path.losses = losses.collect();
        let pauses = self.writes.pauses.iter();
        model.writes.pauses =
            pauses.flat_map(|pause| again(pause.at).map(|shift| Pause { at: pause.at + shift, ..*pause })).collect();
        let stalls = self.receiver.stalls.iter();
        model.receiver.stalls =
            stalls.flat_map(|stall| again(stall.at).map(|shift| Stall { at: stall.at + shift, ..*stall })).collect();
        model
    }

    /// Whether such a transfer can be.
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        let (sender, path, writes, receiver) = (&self.sender, &self.path, &self.writes, &self.receiver);
        let sizes = [
            ("the MSS", Some(sender.mss.0), 1, 1 << 20),
            ("the initial window", Some(sender.initial_window.into()), 1, 1 << 20),
            ("the slow-start threshold", sender.slow_start_threshold.map(|bytes| bytes.0), 1, 1 << 40),
            ("the largest congestion window", sender.largest_window.map(|bytes| bytes.0), 1, 1 << 40),
            ("the number of bytes", Some(self.bytes.0), 0, sender.mss.0.saturating_mul(MOST_PACKETS)),
            ("the headers' size", Some(path.headers.0), 0, 1 << 16),
            ("the rate in bits per second", path.rate.map(Rate::as_bits_per_second), 1, 1 << 50),
            ("the chunk of a write", writes.chunk.map(|chunk| chunk.0), 1 + self.bytes.0 / MOST_PACKETS, u64::MAX),
            ("the number of writes in flight", writes.in_flight.map(u64::from), 1, u64::MAX),
            ("the send buffer", writes.send_buffer.map(|bytes| bytes.0), 1 + self.bytes.0 / MOST_PACKETS, u64::MAX),
            ("the receive window", receiver.window.map(|bytes| bytes.0), 1 + self.bytes.0 / MOST_PACKETS, 1 << 40),
            ("the largest receive window", receiver.largest_window.map(|bytes| bytes.0), 1, 1 << 40),
            ("the reader's rate in bits per second", receiver.reads.map(Rate::as_bits_per_second), 1, 1 << 50),
            ("the number of losses", path.losses.iter().map(|loss| loss.times.into()).max(), 0, 15),
            ("the number of trips before", Some(self.before.trips.into()), 0, 1000),
        ];
        for (what, value, least, most) in sizes {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                let must = if value < least { format!("at least {least}") } else { format!("at most {most}") };
                return Err(ReplayError::Absurd { what, value: value.to_string(), must });
            }
        }
        let pauses = writes.pauses.iter().map(|pause| pause.time).chain(receiver.stalls.iter().map(|stall| stall.time));
        let thought = if let Until::Answered(thought) = self.until { thought } else { Duration::ZERO };
        let times = [
            ("the RTT", path.rtt),
            ("the time before", self.before.time),
            ("the time of the answer", thought),
            ("a pause", pauses.max().unwrap_or_default()),
            ("the ACK timer", receiver.acks.timer),
            ("the least RTO", sender.min_rto),
        ];
        for (what, time) in times {
            if time > LONGEST {
                let (value, must) = (format!("{} s", time.as_secs()), format!("at most {} s", LONGEST.as_secs()));
                return Err(ReplayError::Absurd { what, value, must });
            }
        }
        Ok(())
    }
}
