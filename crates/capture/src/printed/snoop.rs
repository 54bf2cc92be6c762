//! The summary lines of Solaris's snoop: one for each packet.
//!
//! ```text
//! 416   0.09311 yangtze -> host22 TCP D=1742 S=443     Ack=3921651928 Seq=1746871970 Len=0 Win=9280
//! ```
//!
//! The number is the packet's position in the capture, and the time is the difference to the packet before. Lines may be
//! out of order, so up to 4096 lines are held, sorted by number, and their times added up. If numbers are missing (a
//! filter, or a quotation), the time of the missing packets is unknown and omitted. A number that occurs again (`-V` prints
//! a line for each protocol, and reports quote a line twice) is the same packet.
//!
//! snoop prints the highest protocol it knows: without `-V`, segments with data of some ports (80) have no TCP line. Times
//! of day (`-t a`) and times since the first packet (`-t r`) are not supported.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::Read,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{
    HostNames, Lines, Segment,
    lines::lines_in,
    segment::{Flags, options},
    timestamps::seconds,
};
use crate::{Error, LinkType, Packet, Source, input::Input};

/// Maximum number of lines by which a packet may be late. A page of text has a hundred.
const MAX_DISPLACEMENT: usize = 1 << 12;

/// The packets of a printed capture; up to 4096 are in memory.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    names: HostNames,
    /// The packets that were read and not yet returned, by number.
    held: BTreeMap<u64, Row>,
    /// How the text ended; returned after all held packets.
    end: Option<Result<(), Error>>,
    /// The number and the time of the last returned packet.
    latest: Option<u64>,
    time: Duration,
    packet: Vec<u8>,
}

/// A packet of the text.
#[derive(Debug)]
struct Row {
    /// The time since the packet before.
    delta: Duration,
    /// `None` if it is not TCP.
    segment: Option<Segment>,
}

/// The parts of a packet's line: number, time, two hosts with an arrow, and the fields.
struct Parts<'a> {
    number: u64,
    delta: Duration,
    from: &'a str,
    to: &'a str,
    fields: Vec<&'a str>,
}

impl<R: Read> Reader<R> {
    /// Reads the text `input`, called `file` in errors.
    pub fn new(input: R, file: impl Into<PathBuf>) -> Self {
        Self::from_input(Input::new(input, file))
    }

    pub(crate) fn from_input(input: Input<R>) -> Self {
        Self {
            lines: Lines::new(input),
            names: HostNames::default(),
            held: BTreeMap::new(),
            end: None,
            latest: None,
            time: Duration::ZERO,
            packet: Vec::new(),
        }
    }

    /// Reads the next line; returns `false` after the last.
    fn read_line(&mut self) -> Result<bool, Error> {
        let Some(line) = self.lines.next()? else {
            let is_empty = self.held.is_empty() && self.latest.is_none();
            let format = "printed snoop";
            return if is_empty {
                Err(Error::Format { file: self.lines.input.file().to_owned(), format })
            } else {
                Ok(false)
            };
        };
        let Some(parts) = parts(&line) else { return Ok(true) };
        let error = |what| self.lines.error(self.lines.number, what);
        let new = Row { delta: parts.delta, segment: segment(&parts, &line, &mut self.names).map_err(error)? };
        if self.latest.is_some_and(|latest| parts.number <= latest) {
            return Err(error("its packet is thousands of lines too late"));
        }
        match self.held.entry(parts.number) {
            Entry::Vacant(entry) => {
                entry.insert(new);
                self.lines.input.packet += 1;
            }
            Entry::Occupied(mut known) => match (&known.get().segment, &new.segment) {
                (None, Some(_)) => drop(known.insert(new)),
                (Some(one), Some(other)) if one != other => return Err(error("another line has the same number")),
                _ => {}
            },
        }
        Ok(true)
    }
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let (number, segment) = loop {
            while self.end.is_none() && self.held.len() < MAX_DISPLACEMENT {
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

/// Whether one of the first lines of a text is a packet's.
pub(crate) fn is_printed(text: &[u8]) -> bool {
    lines_in(text).any(|line| parts(&line).is_some())
}

fn parts(line: &str) -> Option<Parts<'_>> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let delta = words.next().filter(|time| time.contains('.')).and_then(seconds)?;
    let (from, "->", to) = (words.next()?, words.next()?, words.next()?) else { return None };
    Some(Parts { number, delta, from, to, fields: words.collect() })
}

/// The segment, if the line is about TCP.
fn segment(packet: &Parts, line: &str, names: &mut HostNames) -> Result<Option<Segment>, &'static str> {
    let Some(at) = packet.fields.windows(2).position(|two| two[0] == "TCP" && two[1].starts_with("D=")) else {
        return Ok(None);
    };
    let (mut ports, mut numbers, mut len, mut window) = ([None; 2], [0; 2], 0, None);
    let (mut flags, mut urgent) = (Flags::default(), 0);
    for field in &packet.fields[at + 1..] {
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
    let v6 = [packet.from, packet.to].iter().any(|host| host.contains(':'));
    Ok(Some(Segment {
        from: SocketAddr::new(names.address(packet.from, v6)?, from),
        to: SocketAddr::new(names.address(packet.to, v6)?, to),
        flags,
        sequence: numbers[0],
        acknowledgment: numbers[1],
        window,
        urgent,
        len,
        options: options(list, |edge| edge).ok_or("invalid TCP options")?,
    }))
}
