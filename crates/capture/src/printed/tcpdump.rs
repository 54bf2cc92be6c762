//! What tcpdump prints (4.0 and later).
//!
//! ```text
//! 02:04:07.150182 IP 10.0.0.1.48100 > 10.0.0.2.80: Flags [.], ack 1, win 64, options [nop,nop,TS val 3 ecr 2], length 0
//! ```
//!
//! - **Times** are of a day by default, since 1970 with `-tt` and `-tttt`, since the line before with
//!   `-ttt`, and since the first with `-ttttt`. The last two look like the first, but begin at 0; of
//!   these two, times that never decrease over eight lines or more are since the first.
//! - **Names** stand for hosts without `-n`, and for ports too. The port of a service that is not among
//!   the few known here cannot be known, as every system has its own list: each gets one of its own, from
//!   1023 downwards.
//! - **Sequence numbers** are relative without `-S`, and made absolute again.
//! - **Windows** are printed as they stand in the header: tcpdump does not scale them. Whoever reads a
//!   text without the handshake can no more know the scale than with a capture.
//! - With `-v` an IPv4 packet takes two lines, `-e` puts the link's header in between, `-#` a number in
//!   front, and `-i any` an interface and a direction; all are read.

use std::{
    collections::{HashMap, VecDeque},
    io::Read,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{
    Lines, Names, Segment,
    conversations::{self, Conversations, Printed},
    lines::whole,
    segment::{Flags, options},
    times::{Stamp, stamp},
};
use crate::{Direction, Error, LinkType, Packet, Source, input::Input};

/// How many packets are looked at before it is decided what their times mean, and how many it takes to
/// believe that times which never decrease are no differences.
const LOOKED_AT: usize = 64;
const BELIEVED: usize = 8;

const DAY: Duration = Duration::from_hours(24);

/// How far back a time may go before it is taken for the next day's.
const DISORDER: Duration = Duration::from_mins(1);

/// The services that web and file servers are printed with.
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

/// The packets of a printed capture, in the memory of a few dozen lines and of its connections' numbers.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    conversations: Conversations,
    /// Packets seen and not yet given.
    rows: VecDeque<Row>,
    /// A packet whose second line may follow.
    open: Option<Row>,
    end: Option<Result<(), Error>>,
    /// What times of hours and minutes mean, once enough of them have been seen.
    clock: Option<Clock>,
    /// When the latest packet passed.
    time: Duration,
    number: u64,
    packet: Vec<u8>,
}

/// What a time of hours and minutes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// The time of a day, of which as many have passed as this.
    Day(u32),
    /// The time since the packet before.
    Delta,
    /// The time since the first packet.
    Elapsed,
}

/// A packet that was printed.
#[derive(Debug)]
struct Row {
    line: u64,
    /// Its printed number.
    number: Option<u64>,
    stamp: Stamp,
    direction: Option<Direction>,
    /// `None` if it is no TCP.
    segment: Option<Line>,
}

/// What a line tells of a segment.
#[derive(Debug)]
struct Line {
    segment: Segment,
    printed: Printed,
    /// The options, as a list.
    options: String,
}

/// What is known of the names in a text.
#[derive(Debug, Default)]
struct Parser {
    names: Names,
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
            conversations: Conversations::default(),
            rows: VecDeque::new(),
            open: None,
            end: None,
            clock: None,
            time: Duration::ZERO,
            number: 0,
            packet: Vec::new(),
        }
    }

    /// Takes in the next line; `false` after the last.
    fn read_line(&mut self) -> Result<bool, Error> {
        let Some(line) = self.lines.next()? else {
            if self.open.is_none() && self.rows.is_empty() && self.number == 0 {
                return Err(Error::Format { file: self.lines.input.file().to_owned(), format: "printed tcpdump" });
            }
            self.rows.extend(self.open.take());
            return Ok(false);
        };
        if let Some(head) = head(&line) {
            self.rows.extend(self.open.take());
            let Head { number, stamp, direction } = head;
            self.open = Some(Row { line: self.lines.number, number, stamp, direction, segment: None });
            self.lines.input.packet += 1;
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.segment.is_none()) {
            match self.parser.segment(&line) {
                Ok(segment) => open.segment = segment,
                Err(what) => {
                    self.open = None;
                    return Err(self.lines.wrong(self.lines.number, what));
                }
            }
        }
        // A packet that is whole need not wait for what follows.
        if self.open.as_ref().is_some_and(|open| open.segment.is_some()) {
            self.rows.extend(self.open.take());
        }
        Ok(true)
    }

    /// The next packet, held back until the meaning of its time is clear.
    fn row(&mut self) -> Option<Row> {
        let looked_at = if self.clock.is_some() { 1 } else { LOOKED_AT };
        while self.end.is_none() && self.rows.len() < looked_at {
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => self.end = Some(Ok(())),
                Err(error) => {
                    self.end = Some(Err(error));
                    self.rows.extend(self.open.take());
                }
            }
        }
        if self.clock.is_none() {
            self.clock = Some(meaning(self.rows.iter().map(|row| row.stamp)));
        }
        self.rows.pop_front()
    }

    /// When a packet with this stamp passed.
    fn pass(&mut self, stamp: Stamp) {
        let clock = self.clock.get_or_insert(Clock::Day(0));
        self.time = match (stamp, clock) {
            (Stamp::Since1970(time), _) | (Stamp::Clock(time), Clock::Elapsed) => time,
            (Stamp::Clock(delta), Clock::Delta) => self.time.saturating_add(delta),
            (Stamp::Back(delta), _) => self.time.saturating_sub(delta),
            (Stamp::Clock(time), Clock::Day(days)) => {
                // Packets are printed a little out of order at times, at midnight too.
                let at = DAY * *days + time;
                if self.time > at + DISORDER {
                    *days = days.saturating_add(1);
                    at + DAY
                } else if at + DISORDER > self.time + DAY {
                    DAY * days.saturating_sub(1) + time
                } else {
                    at
                }
            }
        };
    }

    fn absolute(&mut self, line: Line) -> Result<Segment, &'static str> {
        let Line { mut segment, printed, options: list } = line;
        let conversations::Absolute { sequence, acknowledgment, base } = self.conversations.absolute(&printed)?;
        (segment.sequence, segment.acknowledgment) = (sequence, acknowledgment);
        // The edges are relative or not as the acknowledgment is, and near it.
        let far = |edge: u32| edge.wrapping_sub(acknowledgment).cast_signed().unsigned_abs();
        let edge = |edge: u32| std::cmp::min_by_key(edge.wrapping_add(base), edge, |edge| far(*edge));
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
            self.pass(row.stamp);
            self.number = row.number.unwrap_or(self.number + 1);
            let Some(line) = row.segment else { continue };
            match self.absolute(line) {
                Ok(segment) => break (row.direction, segment),
                Err(what) => {
                    self.rows.clear();
                    self.end = Some(Ok(()));
                    return Err(self.lines.wrong(row.line, what));
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

/// Whether one of the lines that a text begins with is a packet's.
pub(crate) fn is_printed(text: &[u8]) -> bool {
    whole(text).any(|line| head(&line).is_some())
}

/// What the times that a text begins with mean.
fn meaning(stamps: impl ExactSizeIterator<Item = Stamp> + Clone) -> Clock {
    let many = stamps.len() >= BELIEVED;
    let times = stamps.map_while(|stamp| match stamp {
        Stamp::Clock(time) => Some(time),
        _ => None,
    });
    match times.clone().next() {
        Some(Duration::ZERO) if many && times.is_sorted() => Clock::Elapsed,
        Some(Duration::ZERO) => Clock::Delta,
        _ => Clock::Day(0),
    }
}

/// What a packet's first line begins with.
struct Head {
    number: Option<u64>,
    stamp: Stamp,
    direction: Option<Direction>,
}

fn head(line: &str) -> Option<Head> {
    let mut words = line.split_whitespace();
    let words: [&str; 6] = std::array::from_fn(|_| words.next().unwrap_or_default());
    let numbered = words[0].bytes().all(|byte| byte.is_ascii_digit()).then(|| words[0].parse().ok()).flatten();
    let words = if numbered.is_some() { &words[1..] } else { &words[..] };
    let (stamp, len) = stamp(words)?;
    let direction = match words.get(len + 1) {
        Some(&"In") => Some(Direction::Inbound),
        Some(&"Out") => Some(Direction::Outbound),
        _ => None,
    };
    // Behind a time stands a protocol, an interface or an address; prose may begin with a time too.
    let packet =
        direction.is_some() || matches!(words.get(len), Some(&("IP" | "IP6" | "ARP," | "ARP"))) || line.contains(" > ");
    packet.then_some(Head { number: numbered, stamp, direction })
}

impl Parser {
    /// The segment that a line tells of, if it does.
    fn segment(&mut self, line: &str) -> Result<Option<Line>, &'static str> {
        let Some((left, right)) = line.split_once(": Flags [") else { return Ok(None) };
        let mut words = left.split_whitespace().rev();
        let (Some(to), Some(">"), Some(from)) = (words.next(), words.next(), words.next()) else {
            return Err("its addresses cannot be told");
        };
        if right.contains("[|tcp]") {
            return Ok(None); // too little of the packet was captured for tcpdump to tell the rest
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
        let moves = len.saturating_add(u32::from(flags.syn) + u32::from(flags.fin));
        let printed = Printed { from, to, syn: flags.syn, sequence, acknowledgment, len: moves };
        let (sequence, acknowledgment) = (0, 0);
        let segment = Segment { from, to, flags, sequence, acknowledgment, window, urgent, len, options: Vec::new() };
        Ok(Some(Line { segment, printed, options: options.to_owned() }))
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

/// The fields behind the flags, the options and the length.
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
