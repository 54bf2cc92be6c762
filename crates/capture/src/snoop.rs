//! snoop, the format of Solaris and illumos (RFC 1761).
//!
//! A header, then packets; all numbers are big-endian and times count microseconds.

use std::{io::Read, path::PathBuf, time::Duration};

use crate::{Drops, Error, LinkType, Packet, Source, byte_order::ByteOrder, input::Input};

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"snoop\0\0\0";

/// The lengths of the file's header and of each packet's.
const HEADER: usize = 16;
const RECORD: usize = 24;

/// The only version.
const VERSION: u32 = 2;

/// Maximum length of a record.
const MAX_LENGTH: u32 = 16 << 20;

/// The packets of a snoop capture; one block of the file is in memory.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    state: State,
    dropped: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Beginning,
    Within(LinkType),
    Ended,
}

/// A packet's header.
struct Record {
    time: Duration,
    original_len: u32,
    kept: usize,
    /// The captured bytes with their padding.
    len: usize,
    link: LinkType,
}

impl<R: Read> Reader<R> {
    /// Reads the capture `input`, called `file` in errors.
    pub fn new(input: R, file: impl Into<PathBuf>) -> Self {
        Self::from_input(Input::new(input, file))
    }

    pub(crate) fn from_input(input: Input<R>) -> Self {
        Self { input, state: State::Beginning, dropped: 0 }
    }

    fn advance(&mut self) -> Result<Option<Record>, Error> {
        let link = match self.state {
            State::Beginning => self.begin()?,
            State::Within(link) => link,
            State::Ended => return Ok(None),
        };
        if self.input.ready(RECORD)?.is_empty() {
            return Ok(None);
        }
        let words = ByteOrder::Big.words(self.input.record(RECORD)?);
        // The fourth counts packets that the machine has dropped so far.
        let [original_len, kept, len, dropped, seconds, micros] = words.ok_or_else(|| self.input.truncated())?;
        if len > MAX_LENGTH || len < RECORD as u32 || len - (RECORD as u32) < kept {
            return Err(self.input.damaged("its lengths are invalid"));
        }
        if micros >= 1_000_000 {
            return Err(self.input.damaged("its time is invalid"));
        }
        let (len, kept, time) = (len as usize, kept as usize, Duration::new(u64::from(seconds), micros * 1000));
        self.input.record(len)?;
        self.input.pass(len);
        self.input.packet += 1;
        self.dropped = dropped;
        Ok(Some(Record { time, original_len: original_len.max(kept as u32), kept, len: len - RECORD, link }))
    }

    fn begin(&mut self) -> Result<LinkType, Error> {
        let magic: [u8; 8] = self.input.beginning("snoop")?;
        if magic != MAGIC {
            return Err(Error::Format { file: self.input.file().to_owned(), format: "snoop" });
        }
        let [_, _, version, datalink] = ByteOrder::Big.words(self.input.record(HEADER)?).unwrap_or_default();
        if version != VERSION {
            return Err(self.input.damaged("the file has a version other than 2"));
        }
        let link = link(datalink).ok_or_else(|| self.input.damaged("its link type is neither Ethernet nor IP"))?;
        self.input.pass(HEADER);
        self.state = State::Within(link);
        Ok(link)
    }
}

/// The link type of a datalink number: RFC 1761 §4 for both forms of Ethernet, and illumos's `sys/dlpi.h` for tunnels,
/// whose packets begin with IP.
fn link(datalink: u32) -> Option<LinkType> {
    match datalink {
        0 | 4 => Some(LinkType::ETHERNET),
        0x8000_0001 => Some(LinkType::IPV4),
        0x8000_0002 => Some(LinkType::IPV6),
        _ => None,
    }
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let record = self.advance();
        if !matches!(record, Ok(Some(_))) {
            self.state = State::Ended;
        }
        let Some(Record { time, original_len, kept, len, link }) = record? else { return Ok(None) };
        let bytes = &self.input.passed(len)[..kept];
        let number = self.input.packet - 1;
        Ok(Some(Packet { number, time, interface: 0, link, direction: None, original_len, bytes }))
    }

    fn drops(&self) -> Drops {
        Drops { by_system: self.dropped.into(), ..Drops::default() }
    }
}
