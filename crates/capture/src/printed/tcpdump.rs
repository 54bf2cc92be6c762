//! The output of tcpdump (4.0 and later).
//!
//! ```text
//! 02:04:07.150182 IP 10.0.0.1.48100 > 10.0.0.2.80: Flags [.], ack 1, win 64, options [nop,nop,TS val 3 ecr 2], length 0
//! ```
//!
//! - **Times** are times of day by default, since the epoch with `-tt` and `-tttt`, since the packet before with `-ttt`, and
//!   since the first packet with `-ttttt`. The last two look like times of day, but begin at 0. They are taken for times
//!   since the first packet if they do not decrease in at least eight lines.
//! - **Names** of hosts and ports are printed without `-n`. Services other than [`SERVICES`] get a port each, from 1023
//!   downwards, because every system has its own list of them.
//! - **Sequence numbers** are relative without `-S` ([`super::sequence_numbers`]).
//! - **Windows** are unscaled, as in the header. As in any capture, only the handshake has the scale.
//! - With `-v` an IPv4 packet takes two lines; `-e` adds the link-layer header, `-#` a number, and `-i any` an interface and
//!   a direction. All of these are supported.

use std::{
    collections::{HashMap, VecDeque},
    io::Read,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{
    HostNames, Lines, Segment,
    lines::lines_in,
    segment::{Flags, options},
    sequence_numbers::{AbsoluteNumbers, PrintedNumbers, SequenceNumbers},
    timestamps::{Timestamp, timestamp},
};
use crate::{Direction, Error, LinkType, Packet, Source, input::Input};

/// The number of packets that decide what their times mean, and the minimum number of them for times since the first.
const LOOKAHEAD: usize = 64;
const MIN_ELAPSED: usize = 8;

const DAY: Duration = Duration::from_hours(24);

/// The maximum by which packets are out of order. A time of day that goes back further belongs to the next day.
const MAX_DISORDER: Duration = Duration::from_mins(1);

/// The service names of web and file servers.
const SERVICES: [(&str, u16); 18] = [
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("http", 80),
    ("www", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("netbios-ssn", 139),
    ("imap2", 143),
    ("https", 443),
    ("microsoft-ds", 445),
    ("nfs", 2049),
    ("http-alt", 8080),
    ("webcache", 8080),
    ("https-alt", 8443),
];

/// The packets of a printed capture; a few dozen packets and the state of each connection are in memory.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    sequence_numbers: SequenceNumbers,
    /// Packets that were read and not yet returned.
    rows: VecDeque<Row>,
    /// A packet whose second line may follow.
    incomplete: Option<Row>,
    /// How the text ended; returned after all packets.
    end: Option<Result<(), Error>>,
    /// What times of hours and minutes mean, once enough of them have been read.
    clock: Option<Clock>,
    /// The time of the last returned packet.
    time: Duration,
    number: u64,
    packet: Vec<u8>,
}

/// What a time of hours and minutes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// The time of day, on this day of the capture, from 0.
    Day(u32),
    /// The time since the packet before.
    Delta,
    /// The time since the first packet.
    Elapsed,
}

/// A printed packet.
#[derive(Debug)]
struct Row {
    line: u64,
    /// Its printed number.
    number: Option<u64>,
    timestamp: Timestamp,
    direction: Option<Direction>,
    /// `None` if it is not TCP.
    segment: Option<PrintedSegment>,
}

/// A segment as printed: its sequence numbers may be relative.
#[derive(Debug)]
struct PrintedSegment {
    segment: Segment,
    printed: PrintedNumbers,
    /// The options, as a list.
    options: String,
}

/// Parses lines, and keeps the names found in them.
#[derive(Debug, Default)]
struct Parser {
    names: HostNames,
    services: HashMap<String, u16>,
}

impl<R: Read> Reader<R> {
    /// Reads the text `input`, called `file` in errors.
    pub fn new(input: R, file: impl Into<PathBuf>) -> Self {
        Self::from_input(Input::new(input, file))
    }

    pub(crate) fn from_input(input: Input<R>) -> Self {
        Self {
            lines: Lines::new(input),
            parser: Parser::default(),
            sequence_numbers: SequenceNumbers::default(),
            rows: VecDeque::new(),
            incomplete: None,
            end: None,
            clock: None,
            time: Duration::ZERO,
            number: 0,
            packet: Vec::new(),
        }
    }

    /// Reads the next line; returns `false` after the last.
    fn read_line(&mut self) -> Result<bool, Error> {
        let Some(line) = self.lines.next()? else {
            if self.incomplete.is_none() && self.rows.is_empty() && self.number == 0 {
                return Err(Error::Format { file: self.lines.input.file().to_owned(), format: "printed tcpdump" });
            }
            self.rows.extend(self.incomplete.take());
            return Ok(false);
        };
        if let Some(start) = line_start(&line) {
            self.rows.extend(self.incomplete.take());
            let LineStart { number, timestamp, direction } = start;
            self.incomplete = Some(Row { line: self.lines.number, number, timestamp, direction, segment: None });
            self.lines.input.packet += 1;
        }
        if let Some(row) = self.incomplete.as_mut().filter(|row| row.segment.is_none()) {
            match self.parser.segment(&line) {
                Ok(segment) => row.segment = segment,
                Err(what) => {
                    self.incomplete = None;
                    return Err(self.lines.error(self.lines.number, what));
                }
            }
        }
        // A complete packet need not wait for the next line.
        if self.incomplete.as_ref().is_some_and(|row| row.segment.is_some()) {
            self.rows.extend(self.incomplete.take());
        }
        Ok(true)
    }

    /// The next packet, as soon as the meaning of its time is known.
    fn row(&mut self) -> Option<Row> {
        let needed = if self.clock.is_some() { 1 } else { LOOKAHEAD };
        while self.end.is_none() && self.rows.len() < needed {
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => self.end = Some(Ok(())),
                Err(error) => {
                    self.end = Some(Err(error));
                    self.rows.extend(self.incomplete.take());
                }
            }
        }
        if self.clock.is_none() {
            self.clock = Some(infer_clock(self.rows.iter().map(|row| row.timestamp)));
        }
        self.rows.pop_front()
    }

    /// Sets the time to that of a packet with this timestamp.
    fn advance_time(&mut self, timestamp: Timestamp) {
        let clock = self.clock.get_or_insert(Clock::Day(0));
        self.time = match (timestamp, clock) {
            (Timestamp::SinceEpoch(time), _) | (Timestamp::Clock(time), Clock::Elapsed) => time,
            (Timestamp::Clock(delta), Clock::Delta) => self.time.saturating_add(delta),
            (Timestamp::Negative(delta), _) => self.time.saturating_sub(delta),
            (Timestamp::Clock(time), Clock::Day(days)) => {
                // Packets may be slightly out of order, also at midnight.
                let at = DAY * *days + time;
                if self.time > at + MAX_DISORDER {
                    *days = days.saturating_add(1);
                    at + DAY
                } else if at + MAX_DISORDER > self.time + DAY {
                    DAY * days.saturating_sub(1) + time
                } else {
                    at
                }
            }
        };
    }

    fn absolute(&mut self, line: PrintedSegment) -> Result<Segment, &'static str> {
        let PrintedSegment { mut segment, printed, options: list } = line;
        let AbsoluteNumbers { sequence, acknowledgment, base } = self.sequence_numbers.absolute(&printed)?;
        (segment.sequence, segment.acknowledgment) = (sequence, acknowledgment);
        // The edges are relative if the acknowledgment is; they are the reading that is closer to it.
        let distance = |edge: u32| edge.wrapping_sub(acknowledgment).cast_signed().unsigned_abs();
        let edge = |edge: u32| std::cmp::min_by_key(edge.wrapping_add(base), edge, |edge| distance(*edge));
        segment.options = options(&list, edge).ok_or("invalid TCP options")?;
        Ok(segment)
    }
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let (direction, segment) = loop {
            let Some(row) = self.row() else {
                return self.end.replace(Ok(())).unwrap_or(Ok(())).map(|()| None);
            };
            self.advance_time(row.timestamp);
            self.number = row.number.unwrap_or(self.number + 1);
            let Some(line) = row.segment else { continue };
            match self.absolute(line) {
                Ok(segment) => break (row.direction, segment),
                Err(what) => {
                    self.rows.clear();
                    self.end = Some(Ok(()));
                    return Err(self.lines.error(row.line, what));
                }
            }
        };
        let original_len = segment.write(&mut self.packet);
        let (number, time, bytes) = (self.number, self.time, &self.packet[..]);
        Ok(Some(Packet { number, time, interface: 0, link: LinkType::RAW, direction, original_len, bytes }))
    }

    fn name(&self, address: IpAddr) -> Option<&str> {
        self.parser.names.name(address)
    }
}

/// Whether one of the first lines of a text is a packet's.
pub(crate) fn is_printed(text: &[u8]) -> bool {
    lines_in(text).any(|line| line_start(&line).is_some())
}

/// What the first timestamps of a text mean.
fn infer_clock(timestamps: impl ExactSizeIterator<Item = Timestamp> + Clone) -> Clock {
    let is_enough = timestamps.len() >= MIN_ELAPSED;
    let times = timestamps.map_while(|timestamp| match timestamp {
        Timestamp::Clock(time) => Some(time),
        _ => None,
    });
    match times.clone().next() {
        Some(Duration::ZERO) if is_enough && times.is_sorted() => Clock::Elapsed,
        Some(Duration::ZERO) => Clock::Delta,
        _ => Clock::Day(0),
    }
}

/// The beginning of a packet's first line.
struct LineStart {
    number: Option<u64>,
    timestamp: Timestamp,
    direction: Option<Direction>,
}

fn line_start(line: &str) -> Option<LineStart> {
    let mut words = line.split_whitespace();
    let words: [&str; 6] = std::array::from_fn(|_| words.next().unwrap_or_default());
    let numbered = words[0].bytes().all(|byte| byte.is_ascii_digit()).then(|| words[0].parse().ok()).flatten();
    let words = if numbered.is_some() { &words[1..] } else { &words[..] };
    let (timestamp, len) = timestamp(words)?;
    let direction = match words.get(len + 1) {
        Some(&"In") => Some(Direction::Inbound),
        Some(&"Out") => Some(Direction::Outbound),
        _ => None,
    };
    // A protocol, an interface or an address follows the time. Prose may begin with a time as well.
    let is_packet =
        direction.is_some() || matches!(words.get(len), Some(&("IP" | "IP6" | "ARP," | "ARP"))) || line.contains(" > ");
    is_packet.then_some(LineStart { number: numbered, timestamp, direction })
}

impl Parser {
    /// The segment in a line, if there is one.
    fn segment(&mut self, line: &str) -> Result<Option<PrintedSegment>, &'static str> {
        let Some((left, right)) = line.split_once(": Flags [") else { return Ok(None) };
        let mut words = left.split_whitespace().rev();
        let (Some(to), Some(">"), Some(from)) = (words.next(), words.next(), words.next()) else {
            return Err("its addresses cannot be told");
        };
        if right.contains("[|tcp]") {
            return Ok(None); // the capture truncated the TCP header
        }
        let v6 = words.next() == Some("IP6") || left.contains("ethertype IPv6") || left.contains(" IP6 ");
        let (from, to) = (self.end(from, v6)?, self.end(to, v6)?);
        let (flags, right) = right.split_once(']').ok_or("the line ends in the flags")?;
        let flags = self::flags(flags);
        let (fields, options, len) = parts(right).ok_or("the line ends before the length")?;
        let len: u32 = len.parse().map_err(|_| "invalid length")?;
        let (mut sequence, mut acknowledgment, mut window, mut urgent) = (None, None, 0, 0);
        for field in fields.split(", ") {
            let Some((key, value)) = field.split_once(' ') else { continue };
            let number = |value: &str| value.parse::<u32>().map_err(|_| "invalid number");
            let short = || value.parse::<u16>().map_err(|_| "invalid or too large number");
            match key {
                "seq" => {
                    let (first, end) = value.split_once(':').map_or((value, None), |(first, end)| (first, Some(end)));
                    let first = number(first)?;
                    if end.is_some_and(|end| end.parse() != Ok(first.wrapping_add(len))) {
                        return Err("the sequence numbers contradict the length");
                    }
                    sequence = Some(first);
                }
                "ack" => acknowledgment = Some(number(value)?),
                "win" => window = short()?,
                "urg" => urgent = short()?,
                _ => {}
            }
        }
        if flags.ack != acknowledgment.is_some() {
            return Err("the flags contradict the acknowledgment");
        }
        let advance = len.saturating_add(u32::from(flags.syn) + u32::from(flags.fin));
        let printed = PrintedNumbers { from, to, syn: flags.syn, sequence, acknowledgment, len: advance };
        let (sequence, acknowledgment) = (0, 0);
        let segment = Segment { from, to, flags, sequence, acknowledgment, window, urgent, len, options: Vec::new() };
        Ok(Some(PrintedSegment { segment, printed, options: options.to_owned() }))
    }

    /// The end printed as `host.port`.
    fn end(&mut self, text: &str, v6: bool) -> Result<SocketAddr, &'static str> {
        let (host, port) = text.rsplit_once('.').ok_or("one of its addresses has no port")?;
        let address = self.names.address(host, v6)?;
        let port = match port.parse() {
            Ok(port) => port,
            Err(_) => self.service(port)?,
        };
        Ok(SocketAddr::new(address, port))
    }

    /// The port of a service.
    fn service(&mut self, name: &str) -> Result<u16, &'static str> {
        if let Some((_, port)) = SERVICES.iter().find(|(known, _)| *known == name) {
            return Ok(*port);
        }
        if let Some(port) = self.services.get(name) {
            return Ok(*port);
        }
        let port = 1023u16.checked_sub(self.services.len() as u16).filter(|port| *port > 0);
        let port = port.ok_or("more services are named before it than any system knows")?;
        self.services.insert(name.to_owned(), port);
        Ok(port)
    }
}

/// The fields after the flags, the options, and the length.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let (fields, len) = text.split_once(", length ")?;
    let len = len.split(|letter: char| !letter.is_ascii_digit()).next()?;
    match fields.split_once(", options [") {
        Some((fields, options)) => Some((fields, options.strip_suffix(']')?, len)),
        None => Some((fields, "", len)),
    }
}

fn flags(letters: &str) -> Flags {
    let has = |letter| letters.contains(letter);
    Flags {
        syn: has('S'),
        fin: has('F'),
        rst: has('R'),
        psh: has('P'),
        ack: has('.'),
        urg: has('U'),
        ece: has('E'),
        cwr: has('W'),
    }
}
