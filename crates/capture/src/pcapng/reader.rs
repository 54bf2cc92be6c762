//! Reading pcapng.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use pcap_parser::{
    EnhancedPacketBlock, OptionCode,
    pcapng::{
        parse_enhancedpacketblock_be, parse_enhancedpacketblock_le, parse_interfacedescriptionblock_be,
        parse_interfacedescriptionblock_le,
    },
    traits::PcapNGPacketBlock,
};

use super::{
    frame::{
        ENHANCED_PACKET, Frame, HEAD, INTERFACE_DESCRIPTION, OBSOLETE_PACKET, Order, SECTION_HEADER, SIMPLE_PACKET,
    },
    interface::{Interface, option},
};
use crate::{Direction, Error, Packet, Source};

/// How much is read at a time.
const BUFFER: usize = 64 << 10;

/// The most interfaces that a section may describe, so that memory stays bounded on any input.
const MOST_INTERFACES: usize = 1 << 16;

/// The option of a packet that holds its flags, and the flags' bits that tell the direction (§4.3.1).
const FLAGS: OptionCode = OptionCode(2);
const DIRECTION: u32 = 0b11;

/// The packets of a pcapng capture, in the memory of one block at a time.
///
/// Blocks that hold no packet (statistics, names, secrets) are passed over. Packets without a time
/// are refused, not passed over: whoever reads on would take them for lost.
#[derive(Debug)]
pub struct Reader<R> {
    file: PathBuf,
    input: BufReader<R>,
    order: Order,
    interfaces: Vec<Interface>,
    /// The block at which the reader stands.
    block: Vec<u8>,
    /// The packet number to come.
    packet: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Beginning,
    Within,
    Ended,
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
        Self {
            file: file.into(),
            input: BufReader::with_capacity(BUFFER, input),
            order: Order::Little,
            interfaces: Vec::new(),
            block: Vec::new(),
            packet: 1,
            state: State::Beginning,
        }
    }

    /// The interfaces described so far in the section at which the reader stands.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Goes on to the next block that holds a packet; `false` at the end of the file.
    fn advance(&mut self) -> Result<bool, Error> {
        while let Some(kind) = self.read_block()? {
            match kind {
                SECTION_HEADER => self.interfaces.clear(),
                INTERFACE_DESCRIPTION => self.describe().map_err(|what| self.damaged(what))?,
                ENHANCED_PACKET => return Ok(true),
                SIMPLE_PACKET => return Err(self.damaged("it is a simple packet block, which has no time")),
                OBSOLETE_PACKET => return Err(self.damaged("it is a packet block of the obsolete kind")),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Reads the next block whole and tells its kind; `None` at the end of the file.
    fn read_block(&mut self) -> Result<Option<u32>, Error> {
        self.block.clear();
        self.read_to(HEAD)?;
        let first = self.state == State::Beginning;
        self.state = State::Within;
        let Some(head) = self.block.first_chunk() else {
            return match self.block.len() {
                _ if first => Err(Error::Format { file: self.file.clone() }),
                0 => Ok(None),
                _ => Err(Error::Truncated { file: self.file.clone(), packet: self.packet }),
            };
        };
        let frame = Frame::new(*head, &mut self.order);
        if first && !frame.is_ok_and(|frame| frame.kind == SECTION_HEADER) {
            return Err(Error::Format { file: self.file.clone() });
        }
        let frame = frame.map_err(|what| self.damaged(what))?;
        self.read_to(frame.len)?;
        if self.block.len() < frame.len {
            return Err(Error::Truncated { file: self.file.clone(), packet: self.packet });
        }
        if self.block.last_chunk().map(|end| self.order.u32(*end) as usize) != Some(frame.len) {
            return Err(self.damaged("a block's two lengths differ"));
        }
        Ok(Some(frame.kind))
    }

    /// Reads on until the block has `len` bytes, or as many as there are. A length that lies takes
    /// no more memory than the file has bytes.
    fn read_to(&mut self, len: usize) -> Result<(), Error> {
        let missing = len.saturating_sub(self.block.len()) as u64;
        let read = (&mut self.input).take(missing).read_to_end(&mut self.block);
        read.map(drop).map_err(|source: io::Error| Error::Read { file: self.file.clone(), packet: self.packet, source })
    }

    /// Takes in the interface that the block describes.
    fn describe(&mut self) -> Result<(), &'static str> {
        let parse = match self.order {
            Order::Little => parse_interfacedescriptionblock_le,
            Order::Big => parse_interfacedescriptionblock_be,
        };
        let (_, block) = parse(&self.block).map_err(|_| "the description of its interface contradicts itself")?;
        if self.interfaces.len() == MOST_INTERFACES {
            return Err("more interfaces are described before it than any capture has");
        }
        self.interfaces.push(Interface::new(&block, self.order)?);
        Ok(())
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { file: self.file.clone(), packet: self.packet, what }
    }
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        if self.state == State::Ended {
            return Ok(None);
        }
        let more = self.advance();
        if !matches!(more, Ok(true)) {
            self.state = State::Ended;
            return more.map(|_| None);
        }
        match packet(self.packet, &self.block, self.order, &self.interfaces) {
            Ok(packet) => {
                self.packet += 1;
                Ok(Some(packet))
            }
            Err(what) => {
                self.state = State::Ended;
                Err(self.damaged(what))
            }
        }
    }
}

/// The packet that an enhanced packet block holds (§4.3).
fn packet<'a>(
    number: u64,
    block: &'a [u8],
    order: Order,
    interfaces: &[Interface],
) -> Result<Packet<'a>, &'static str> {
    let parse = match order {
        Order::Little => parse_enhancedpacketblock_le,
        Order::Big => parse_enhancedpacketblock_be,
    };
    let (_, block) = parse(block).map_err(|_| "its block contradicts its own length")?;
    let interface = interfaces.get(block.if_id as usize).ok_or("the file does not describe its interface")?;
    Ok(Packet {
        number,
        time: interface.time(block.ts_high, block.ts_low).ok_or("its time is out of range")?,
        interface: block.if_id,
        link: interface.link,
        direction: direction(&block, order),
        original_len: block.origlen,
        bytes: bytes(&block),
    })
}

/// The bytes without their padding, borrowed from the file's block and not from the parsed one.
fn bytes<'a>(block: &EnhancedPacketBlock<'a>) -> &'a [u8] {
    &block.data[..block.packet_data().len()]
}

fn direction(block: &EnhancedPacketBlock, order: Order) -> Option<Direction> {
    let flags = option(&block.options, FLAGS)?.try_into().ok()?;
    match order.u32(flags) & DIRECTION {
        0b01 => Some(Direction::Inbound),
        0b10 => Some(Direction::Outbound),
        _ => None,
    }
}
