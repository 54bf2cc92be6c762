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

use crate::{Direction, LinkType};

/// `if_tsresol` for units of 10⁻⁹ s, the only one in which `pcap-file` writes.
const NANOSECONDS: u8 = 9;

/// The longest name that an option can hold.
const MAX_NAME: usize = u16::MAX as usize;

/// Writes a capture of one section, in the byte order of this machine.
///
/// It makes many small writes: give it memory or a buffered writer. One interface of
/// [`LinkType::RAW`] is what every tool reads; at a second, libpcap 1.10 stops, mistaking its type for
/// another.
pub struct Writer<W: Write> {
    blocks: PcapNgWriter<W>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture on `output`.
    pub fn new(output: W) -> io::Result<Self> {
        Ok(Self { blocks: PcapNgWriter::new(output).map_err(into_io)? })
    }

    /// Describes an interface and gives its number. Of each of its packets the first `snaplen` bytes
    /// are kept, or all; 0 is all too, as the format has it.
    pub fn interface(&mut self, name: &str, link: LinkType, snaplen: Option<u32>) -> io::Result<u32> {
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        let number = self.blocks.interfaces().len() as u32;
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::from(u32::from(link.0)),
            snaplen: snaplen.unwrap_or(0), // none
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.blocks.write_pcapng_block(block).map_err(into_io)?;
        Ok(number)
    }

    /// Writes a packet that passed `interface` at `time` since the epoch (until the year 2554, when
    /// 64 bits of nanoseconds end). An interface that is not described is an error of the kind
    /// [`io::ErrorKind::InvalidInput`].
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

    /// What the capture is written on, to flush it or to take away what has gathered there.
    pub fn output(&mut self) -> &mut W {
        self.blocks.get_mut()
    }

    /// Ends the capture and gives back what it was written on.
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
