//! What Solaris's snoop prints: a line for each packet.
//!
//! ```text
//! 416   0.09311 yangtze -> host22 TCP D=1742 S=443     Ack=3921651928 Seq=1746871970 Len=0 Win=9280
//! ```
//!
//! The number gives the order of capture, whatever order the lines stand in, and the time is that since
//! the packet with the number before. So lines are held back until those that stand up to 4096 lines
//! too late have been seen, and then added up. A gap in the numbers (snoop prints
//! what a filter lets through, people paste what they think matters) hides the time that passed in it,
//! but for that of the line behind it. A number that stands there again (snoop `-V` prints a line for each protocol,
//! and reports quote a line twice) is the same packet.
//!
//! snoop prints the name of the highest protocol it knows, so that of some ports (HTTP's 80) the lines
//! with data are no TCP lines unless it was called with `-V`. Times of day and times since the first
//! packet (`-t a`, `-t r`) are not read.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::Read,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{
    Lines, Names, Segment,
    lines::whole,
    segment::{Flags, options},
    times::seconds,
};
use crate::{Error, LinkType, Packet, Source, input::Input};

/// How many lines a packet may stand too late. A page of text has a hundred.
const DISPLACED: usize = 1 << 12;

/// The packets of a printed capture, in the memory of 4096 lines.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    names: Names,
    /// The packets seen and not yet given, by number.
    held: BTreeMap<u64, Row>,
    /// What ended the reading; told once all that is held has been given.
    end: Option<Result<(), Error>>,
    /// The number of the latest packet given, and when it passed.
    latest: Option<u64>,
    time: Duration,
    packet: Vec<u8>,
}

/// What a line tells.
#[derive(Debug)]
struct Row {
    /// The time since the packet with the number before.
    delta: Duration,
    /// `None` if it is no TCP.
    segment: Option<Segment>,
}

/// The parts of a line.
struct Parts<'a> {
    number: u64,
    delta: Duration,
    from: &'a str,
    to: &'a str,
    rest: Vec<&'a str>,
}

impl<R: Read> Reader<R> {
    /// Reads the text `input`, called `file` in errors.
    pub fn new(input: R, file: impl Into<PathBuf>) -> Self {
        Self::from_input(Input::new(input, file))
    }

    pub(crate) fn from_input(input: Input<R>) -> Self {
        Self {
            lines: Lines::new(input),
            names: Names::default(),
            held: BTreeMap::new(),
            end: None,
            latest: None,
            time: Duration::ZERO,
            packet: Vec::new(),
        }
    }

    /// Takes in the next line; `false` after the last.
    fn read_line(&mut self) -> Result<bool, Error> {
        let Some(line) = self.lines.next()? else {
            let none = self.held.is_empty() && self.latest.is_none();
            let format = "printed snoop";
            return if none {
                Err(Error::Format { file: self.lines.input.file().to_owned(), format })
            } else {
                Ok(false)
            };
        };
        let Some(parts) = parts(&line) else { return Ok(true) };
        let wrong = |what| self.lines.wrong(self.lines.number, what);
        let new = Row { delta: parts.delta, segment: segment(&parts, &line, &mut self.names).map_err(wrong)? };
        if self.latest.is_some_and(|latest| parts.number <= latest) {
            return Err(wrong("its packet is thousands of lines too late"));
        }
        match self.held.entry(parts.number) {
            Entry::Vacant(place) => {
                place.insert(new);
                self.lines.input.packet += 1;
            }
            Entry::Occupied(mut known) => match (&known.get().segment, &new.segment) {
                (None, Some(_)) => drop(known.insert(new)),
                (Some(one), Some(other)) if one != other => return Err(wrong("another line has the same number")),
                _ => {}
            },
        }
        Ok(true)
    }
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let (number, segment) = loop {
            while self.end.is_none() && self.held.len() < DISPLACED {
                match self.read_line() {
                    Ok(true) => {}
                    Ok(false) => self.end = Some(Ok(())),
                    Err(error) => self.end = Some(Err(error)),
                }
            }
            let Some((number, row)) = self.held.pop_first() else {
                return self.end.replace(Ok(())).unwrap_or(Ok(())).map(|()| None);
            };
            self.latest = Some(number);
            self.time = self.time.saturating_add(row.delta);
            if let Some(segment) = row.segment {
                break (number, segment);
            }
        };
        let original_len = segment.write(&mut self.packet);
        let (time, bytes) = (self.time, &self.packet[..]);
        Ok(Some(Packet { number, time, interface: 0, link: LinkType::RAW, direction: None, original_len, bytes }))
    }

    fn name(&self, address: IpAddr) -> Option<&str> {
        self.names.name(address)
    }
}

/// Whether one of the lines that a text begins with is a packet's.
pub(crate) fn is_printed(text: &[u8]) -> bool {
    whole(text).any(|line| parts(&line).is_some())
}

/// The parts of a packet's line: number, time, two hosts with an arrow, and what is said of it.
fn parts(line: &str) -> Option<Parts<'_>> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let delta = words.next().filter(|time| time.contains('.')).and_then(seconds)?;
    let (from, "->", to) = (words.next()?, words.next()?, words.next()?) else { return None };
    Some(Parts { number, delta, from, to, rest: words.collect() })
}

/// The segment of the line, if it is one's.
fn segment(of: &Parts, line: &str, names: &mut Names) -> Result<Option<Segment>, &'static str> {
    let Some(at) = of.rest.windows(2).position(|two| two[0] == "TCP" && two[1].starts_with("D=")) else {
        return Ok(None);
    };
    let (mut ports, mut numbers, mut len, mut window) = ([None; 2], [0; 2], 0, None);
    let (mut flags, mut urgent) = (Flags::default(), 0);
    for field in &of.rest[at + 1..] {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        let number = || value.parse::<u32>().map_err(|_| "invalid number");
        let short = || value.parse::<u16>().map_err(|_| "invalid or too large number");
        match key {
            "D" => ports[1] = Some(short()?),
            "S" => ports[0] = Some(short()?),
            "Syn" => flags.syn = true,
            "Fin" => flags.fin = true,
            "Rst" => flags.rst = true,
            "Push" => flags.psh = true,
            "ECE" => flags.ece = true,
            "CWR" => flags.cwr = true,
            "Urg" => (flags.urg, urgent) = (true, short()?),
            "Ack" => (flags.ack, numbers[1]) = (true, number()?),
            "Seq" => numbers[0] = number()?,
            "Len" => len = number()?,
            "Win" => window = Some(short()?),
            "Options" => break,
            _ => {}
        }
    }
    let ([Some(from), Some(to)], Some(window)) = (ports, window) else {
        return Err("the line ends before the window");
    };
    let list = line.split_once("Options=<").map_or("", |(_, list)| list.split('>').next().unwrap_or(list));
    let v6 = [of.from, of.to].iter().any(|host| host.contains(':'));
    Ok(Some(Segment {
        from: SocketAddr::new(names.address(of.from, v6)?, from),
        to: SocketAddr::new(names.address(of.to, v6)?, to),
        flags,
        sequence: numbers[0],
        acknowledgment: numbers[1],
        window,
        urgent,
        len,
        options: options(list, |edge| edge).ok_or("invalid TCP options")?,
    }))
}
