//! Writing pcapng.

use std::{
    borrow::Cow,
    io::{self, Write},
    time::Duration,
};

use pcap_file::{
    DataLink, PcapError,
    pcapng::{
        PcapNgWriter,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};

use crate::{Direction, LinkRates, LinkType};

/// `if_tsresol` for units of 10⁻⁹ s, the only one in which `pcap-file` writes.
const NANOSECONDS: u8 = 9;

/// Maximum length of a name in an option.
const MAX_NAME: usize = u16::MAX as usize;

/// Writes a capture of one section, in the byte order of this machine.
///
/// It makes many small writes, so `output` should be buffered. Every tool reads a capture with one interface of
/// [`LinkType::RAW`]; libpcap 1.10 fails at a second one.
pub struct Writer<W: Write> {
    blocks: PcapNgWriter<W>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture on `output`.
    pub fn new(output: W) -> io::Result<Self> {
        Ok(Self { blocks: PcapNgWriter::new(output).map_err(into_io)? })
    }

    /// Describes an interface and returns its number. The first `snaplen` bytes of each packet are written; `None` and 0
    /// are no limit.
    pub fn interface(&mut self, name: &str, link: LinkType, snaplen: Option<u32>) -> io::Result<u32> {
        self.describe(name, link, snaplen, None)
    }

    /// The same for an end of an emulated link with these rates; [`Source::link_rates`](crate::Source::link_rates) returns
    /// them to readers.
    pub fn emulated_interface(
        &mut self,
        name: &str,
        link: LinkType,
        snaplen: Option<u32>,
        rates: LinkRates,
    ) -> io::Result<u32> {
        self.describe(name, link, snaplen, Some(rates))
    }

    fn describe(
        &mut self,
        name: &str,
        link: LinkType,
        snaplen: Option<u32>,
        rates: Option<LinkRates>,
    ) -> io::Result<u32> {
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        let number = self.blocks.interfaces().len() as u32;
        let mut options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        options.extend(rates.map(|rates| InterfaceDescriptionOption::Comment(Cow::Owned(rates.to_string()))));
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::from(u32::from(link.0)),
            snaplen: snaplen.unwrap_or(0), // no limit
            options,
        };
        self.blocks.write_pcapng_block(block).map_err(into_io)?;
        Ok(number)
    }

    /// Writes a packet that passed `interface` at `time` since the epoch (up to the year 2554: 64 bits of nanoseconds).
    /// An unknown interface is an error of the kind [`io::ErrorKind::InvalidInput`].
    pub fn packet(
        &mut self,
        interface: u32,
        time: Duration,
        direction: Option<Direction>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let snaplen = match self.blocks.interfaces().get(interface as usize) {
            Some(InterfaceDescriptionBlock { snaplen: 0, .. }) => bytes.len(),
            Some(InterfaceDescriptionBlock { snaplen, .. }) => bytes.len().min(*snaplen as usize),
            None => return Err(into_io(PcapError::InvalidInterfaceId(interface))),
        };
        let flags = direction.map(|direction| match direction {
            Direction::Inbound => 0b01,
            Direction::Outbound => 0b10,
        });
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: time,
            original_len: bytes.len() as u32,
            data: Cow::Borrowed(&bytes[..snaplen]),
            options: flags.map(EnhancedPacketOption::Flags).into_iter().collect(),
        };
        self.blocks.write_pcapng_block(block).map_err(into_io)?;
        Ok(())
    }

    /// The output, to flush it or to take what has been written.
    pub fn output(&mut self) -> &mut W {
        self.blocks.get_mut()
    }

    /// Ends the capture and returns the output.
    pub fn into_output(self) -> W {
        self.blocks.into_inner()
    }
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidInput, other),
    }
}
