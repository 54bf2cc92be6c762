//! Reading pcapng.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    block::{
        BlockHeader, ENHANCED_PACKET, HEADER_LEN, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, OBSOLETE_PACKET,
        SECTION_HEADER, SIMPLE_PACKET,
    },
    drop_counters::{self, DropCounters},
    interface::{Interface, options},
};
use crate::{
    Direction, Drops, Error, LinkRates, LinkType, Packet, Source, byte_order::ByteOrder, input::Input, link_layer,
};

/// Maximum number of interfaces in a section: it bounds memory for any input.
const MAX_INTERFACES: usize = 1 << 16;

/// Offset of a packet's bytes in its block: with a time (§4.3, §B.1), and in a simple packet block (§4.4).
const DATA: usize = 28;
const SIMPLE_DATA: usize = 12;

/// The size of the length at a block's end.
const TRAILER_LEN: usize = 4;

/// Options of a packet (§4.3.1): its flags (`epb_flags`) with the direction in them, and how many packets were lost before
/// it (`epb_dropcount`).
const FLAGS: u16 = 2;
const DIRECTION: u32 = 0b11;
const DROP_COUNT: u16 = 4;

/// The packets of a pcapng capture; one block of the file is in memory.
///
/// Of blocks without a packet, only statistics are read; names and secrets are skipped. A simple packet block has no time: its packet gets that
/// of the packet before.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    order: ByteOrder,
    interfaces: Vec<Interface>,
    drops: DropCounters,
    /// The time of the last packet.
    time: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Beginning,
    Within,
    Ended,
}

/// A packet's block.
struct Record {
    time: Duration,
    interface: u32,
    link: LinkType,
    direction: Option<Direction>,
    /// Packets that were lost before it.
    dropped: u64,
    original_len: u32,
    /// The length of the block, and the position of the packet's bytes in it.
    block: usize,
    begin: usize,
    kept: usize,
}

impl Reader<File> {
    /// Opens the capture at `path`.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match File::open(path) {
            Ok(file) => Ok(Self::new(file, path)),
            Err(source) => Err(Error::Open { file: path.to_owned(), source }),
        }
    }
}

impl<R: Read> Reader<R> {
    /// Reads the capture `input`, called `file` in errors.
    pub fn new(input: R, file: impl Into<PathBuf>) -> Self {
        Self::from_input(Input::new(input, file))
    }

    pub(crate) fn from_input(input: Input<R>) -> Self {
        Self {
            input,
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            drops: DropCounters::default(),
            time: Duration::ZERO,
            state: State::Beginning,
        }
    }

    /// The interfaces described so far in the current section.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Consumes the blocks up to the next packet; `None` at the end of the file.
    fn advance(&mut self) -> Result<Option<Record>, Error> {
        if self.state == State::Ended {
            return Ok(None);
        }
        while let Some(header) = self.header()? {
            let block = self.input.record(header.len)?;
            if self.order.words(&block[header.len - TRAILER_LEN..]) != Some([header.len as u32]) {
                return Err(self.input.damaged("the two lengths of a block differ"));
            }
            let (order, interfaces) = (self.order, &self.interfaces);
            let record = match header.kind {
                ENHANCED_PACKET => record(block, order, interfaces).map(Some),
                OBSOLETE_PACKET => obsolete(block, order, interfaces).map(Some),
                SIMPLE_PACKET => simple(block, order, interfaces, self.time).map(Some),
                INTERFACE_DESCRIPTION if interfaces.len() == MAX_INTERFACES => {
                    Err("the file describes too many interfaces")
                }
                INTERFACE_DESCRIPTION => Interface::new(block, order).map(|new| {
                    self.interfaces.push(new);
                    None
                }),
                INTERFACE_STATISTICS => {
                    self.drops.read(block, order, interfaces.len());
                    Ok(None)
                }
                SECTION_HEADER => {
                    self.drops.end_section();
                    self.interfaces.clear();
                    Ok(None)
                }
                _ => Ok(None),
            };
            let record = record.map_err(|what| self.input.damaged(what))?;
            self.input.pass(header.len);
            if let Some(record) = record {
                self.input.packet += 1;
                self.time = record.time;
                self.drops.add_at_packet(record.dropped);
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The header of the next block; `None` at the end of the file.
    fn header(&mut self) -> Result<Option<BlockHeader>, Error> {
        let bytes = if self.state == State::Beginning {
            let bytes = self.input.beginning("pcapng")?;
            if !begins(&bytes) {
                return Err(Error::Format { file: self.input.file().to_owned(), format: "pcapng" });
            }
            self.state = State::Within;
            bytes
        } else {
            if self.input.ready(HEADER_LEN)?.is_empty() {
                return Ok(None);
            }
            let bytes = self.input.ready(HEADER_LEN)?.first_chunk().copied();
            bytes.ok_or_else(|| self.input.truncated())?
        };
        BlockHeader::new(bytes, &mut self.order).map(Some).map_err(|what| self.input.damaged(what))
    }
}

/// Whether a file that begins with `bytes` is pcapng.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&SECTION_HEADER.to_be_bytes())
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let record = self.advance();
        if !matches!(record, Ok(Some(_))) {
            self.state = State::Ended;
        }
        let Some(record) = record? else { return Ok(None) };
        let Record { time, interface, link, direction, original_len, block, begin, kept, dropped: _ } = record;
        let bytes = &self.input.passed(block)[begin..begin + kept];
        let direction = direction.or_else(|| link_layer::direction(link, bytes));
        Ok(Some(Packet { number: self.input.packet - 1, time, interface, link, direction, original_len, bytes }))
    }

    fn drops(&self) -> Drops {
        self.drops.total()
    }

    fn link_rates(&self) -> Option<LinkRates> {
        // Of several interfaces, each has its own link.
        let [interface] = &self.interfaces[..] else { return None };
        interface.link_rates
    }
}

/// The packet of an enhanced packet block (§4.3).
fn record(block: &[u8], order: ByteOrder, interfaces: &[Interface]) -> Result<Record, &'static str> {
    let [_, _, number] = order.words(block).ok_or("its block is too short")?;
    packet(block, order, number, interfaces)
}

/// The packet of an obsolete packet block (§B.1): its interface's number has 16 bits; the other 16 count the packets that
/// were lost before it, all bits set if that is unknown.
fn obsolete(block: &[u8], order: ByteOrder, interfaces: &[Interface]) -> Result<Record, &'static str> {
    let half = |at: usize| block.get(at..at + 2).and_then(|half| half.try_into().ok()).map(|half| order.u16(half));
    let (Some(number), Some(dropped)) = (half(8), half(10)) else { return Err("its block is too short") };
    let dropped = if dropped == u16::MAX { 0 } else { dropped.into() };
    Ok(Record { dropped, ..packet(block, order, number.into(), interfaces)? })
}

/// The fields that are the same in enhanced and obsolete packet blocks.
fn packet(block: &[u8], order: ByteOrder, number: u32, interfaces: &[Interface]) -> Result<Record, &'static str> {
    let [_, _, _, high, low, kept, original_len] = order.words(block).ok_or("its block is too short")?;
    let interface = interfaces.get(number as usize).ok_or("the file does not describe its interface")?;
    let end = DATA.saturating_add(kept as usize);
    if end > block.len() - TRAILER_LEN {
        return Err("its length is larger than its block");
    }
    let end = end.next_multiple_of(4).min(block.len() - TRAILER_LEN);
    let (mut direction, mut dropped) = (None, 0);
    for (code, value) in options(&block[end..block.len() - TRAILER_LEN], order) {
        match code {
            FLAGS => direction = direction.or_else(|| self::direction(value, order)),
            DROP_COUNT => dropped = drop_counters::count(value, order),
            _ => {}
        }
    }
    Ok(Record {
        time: interface.time(high, low).ok_or("its time is out of range")?,
        interface: number,
        link: interface.link,
        direction,
        dropped,
        original_len: original_len.max(kept),
        block: block.len(),
        begin: DATA,
        kept: kept as usize,
    })
}

/// The packet of a simple packet block (§4.4), which belongs to the first interface and has no time.
fn simple(block: &[u8], order: ByteOrder, interfaces: &[Interface], time: Duration) -> Result<Record, &'static str> {
    let interface = interfaces.first().ok_or("the file does not describe its interface")?;
    let [_, _, original_len] = order.words(block).ok_or("its block is too short")?;
    let room = block.len().checked_sub(SIMPLE_DATA + TRAILER_LEN).ok_or("its block is too short")?;
    let kept = original_len.min(interface.snaplen.unwrap_or(u32::MAX)) as usize;
    if kept > room {
        return Err("its length is larger than its block");
    }
    let link = interface.link;
    let begin = SIMPLE_DATA;
    let block = block.len();
    Ok(Record { time, interface: 0, link, direction: None, dropped: 0, original_len, block, begin, kept })
}

/// The direction in a packet's flags.
fn direction(flags: &[u8], order: ByteOrder) -> Option<Direction> {
    match order.u32(flags.try_into().ok()?) & DIRECTION {
        0b01 => Some(Direction::Inbound),
        0b10 => Some(Direction::Outbound),
        _ => None,
    }
}
