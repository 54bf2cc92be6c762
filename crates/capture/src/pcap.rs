//! pcap, the format of `tcpdump -w`.
//!
//! One header, then packets ([draft-ietf-opsawg-pcap]). The first four bytes determine the byte order, and whether times
//! are in micro- or nanoseconds. All packets have the same link type, and no direction except in Linux's cooked headers.
//!
//! [draft-ietf-opsawg-pcap]: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/

use std::{io::Read, path::PathBuf, time::Duration};

use crate::{Error, LinkType, Packet, Source, byte_order::ByteOrder, input::Input, link_layer};

/// Lengths of the file header and of a packet's header.
const HEADER: usize = 24;
const RECORD: usize = 16;

/// Maximum plausible length of a packet.
const MAX_LENGTH: u32 = 16 << 20;

/// Magic numbers in the file's byte order.
const MICROSECONDS: u32 = 0xA1B2_C3D4;
const NANOSECONDS: u32 = 0xA1B2_3C4D;

/// Reads the packets of a pcap capture.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Beginning,
    Within(File),
    Ended,
}

/// The file header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct File {
    order: ByteOrder,
    /// Nanoseconds per unit of a time's second half.
    unit: u32,
    link: LinkType,
}

/// A packet's header.
struct Record {
    time: Duration,
    original_len: u32,
    len: usize,
    link: LinkType,
}

/// Whether `bytes` are the beginning of a pcap file.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|magic| kind(*magic).is_some())
}

/// The byte order and the nanoseconds per unit of time.
fn kind(magic: [u8; 4]) -> Option<(ByteOrder, u32)> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| match order.u32(magic) {
        MICROSECONDS => Some((order, 1000)),
        NANOSECONDS => Some((order, 1)),
        _ => None,
    })
}

impl<R: Read> Reader<R> {
    /// Reads the capture `input`, called `file` in errors.
    pub fn new(input: R, file: impl Into<PathBuf>) -> Self {
        Self::from_input(Input::new(input, file))
    }

    pub(crate) fn from_input(input: Input<R>) -> Self {
        Self { input, state: State::Beginning }
    }

    fn advance(&mut self) -> Result<Option<Record>, Error> {
        let file = match self.state {
            State::Beginning => self.begin()?,
            State::Within(file) => file,
            State::Ended => return Ok(None),
        };
        if self.input.ready(RECORD)?.is_empty() {
            return Ok(None);
        }
        let words = file.order.words(self.input.record(RECORD)?);
        let [seconds, fraction, kept, original_len] = words.ok_or_else(|| self.input.truncated())?;
        if kept > MAX_LENGTH {
            return Err(self.input.damaged("its length is invalid"));
        }
        let nanos = fraction.checked_mul(file.unit).filter(|nanos| *nanos < 1_000_000_000);
        let nanos = nanos.ok_or_else(|| self.input.damaged("its time is invalid"))?;
        let time = Duration::new(u64::from(seconds), nanos);
        let len = kept as usize;
        self.input.record(RECORD + len)?;
        self.input.pass(RECORD + len);
        self.input.packet += 1;
        Ok(Some(Record { time, original_len: original_len.max(kept), len, link: file.link }))
    }

    fn begin(&mut self) -> Result<File, Error> {
        let wrong = Error::Format { file: self.input.file().to_owned(), format: "pcap" };
        let (order, unit) = kind(self.input.beginning("pcap")?).ok_or(wrong)?;
        let header = self.input.record(HEADER)?;
        let [_, _, _, _, _, network] = order.words(header).unwrap_or_default();
        // The upper half tells of a frame check sequence, which the lengths of IP tell as well.
        let file = File { order, unit, link: LinkType(network as u16) };
        self.input.pass(HEADER);
        self.state = State::Within(file);
        Ok(file)
    }
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let record = self.advance();
        if !matches!(record, Ok(Some(_))) {
            self.state = State::Ended;
        }
        let Some(Record { time, original_len, len, link }) = record? else { return Ok(None) };
        let bytes = self.input.passed(len);
        let direction = link_layer::direction(link, bytes);
        Ok(Some(Packet { number: self.input.packet - 1, time, interface: 0, link, direction, original_len, bytes }))
    }
}
