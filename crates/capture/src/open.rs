//! Opening a capture of any format.
//!
//! The format is detected from the first bytes, not from the name; for a compressed file, from the decompressed bytes.
//! Printed text has no magic number: it is detected by a packet among its first lines.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::{
    Error, Source,
    decompress::Compression,
    input::{BLOCK, Input},
    only_ip::OnlyIp,
    pcap, pcapng, printed,
    read_ahead::ReadAhead,
    snoop,
};

/// The supported formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Written by `tcpdump -w`.
    Pcap,
    /// Written by Wireshark and our taps.
    Pcapng,
    /// Written (RFC 1761) or printed by Solaris's `snoop`.
    Snoop,
    /// Printed by `tcpdump`.
    Tcpdump,
}

/// All formats, in the order of detection.
pub const FORMATS: [Format; 4] = [Format::Pcapng, Format::Pcap, Format::Snoop, Format::Tcpdump];

impl Format {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
            Self::Snoop => "snoop",
            Self::Tcpdump => "tcpdump",
        }
    }

    /// The format of a file that begins with `bytes`.
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            _ if pcapng::begins(bytes) => Some(Self::Pcapng),
            _ if pcap::begins(bytes) => Some(Self::Pcap),
            _ if bytes.starts_with(snoop::MAGIC) || printed::snoop::is_printed(bytes) => Some(Self::Snoop),
            _ if printed::tcpdump::is_printed(bytes) => Some(Self::Tcpdump),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Unknown name of a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown capture format `{0}`; use pcap, pcapng, snoop or tcpdump")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        FORMATS.into_iter().find(|format| format.name() == name).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// Opens the capture at `path`, or standard input for `-`; gzip and zstd are decompressed. Without a `format` it is
/// detected. A thread reads ahead. A capture without a packet that can contain IP ends with [`Error::LinkType`] or
/// [`Error::Encrypted`].
pub fn open(path: &Path, format: Option<Format>) -> Result<Box<dyn Source + Send>, Error> {
    let (source, file): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), PathBuf::from("standard input"))
    } else {
        let unopened = |source| Error::Open { file: path.to_owned(), source };
        let opened = File::open(path).map_err(unopened)?;
        // A directory can be opened, but not read.
        if opened.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(unopened(io::ErrorKind::IsADirectory.into()));
        }
        (Box::new(opened), path.to_owned())
    };
    let plain = plain(Input::new(source, &file))?;
    let ahead = ReadAhead::new(plain).map_err(|source| Error::Open { file: file.clone(), source })?;
    packets(Input::ahead(ahead, file), format)
}

/// Like [`open`], for the capture `source`, called `file` in errors; reads in the caller's thread.
pub fn read<'a>(
    source: impl Read + Send + 'a,
    file: impl Into<PathBuf>,
    format: Option<Format>,
) -> Result<Box<dyn Source + Send + 'a>, Error> {
    packets(plain(Input::new(Box::new(source), file))?, format)
}

/// An input of any kind.
type Anything<'a> = Input<Box<dyn Read + Send + 'a>>;

/// The decompressed file.
fn plain(mut input: Anything<'_>) -> Result<Anything<'_>, Error> {
    let Some(compression) = Compression::of(input.ready(4)?) else { return Ok(input) };
    let file = input.file().to_owned();
    match compression.decompress(input) {
        Ok(plain) => Ok(Input::new(plain, file)),
        Err(source) => Err(Error::Open { file, source }),
    }
}

fn packets(mut input: Anything<'_>, format: Option<Format>) -> Result<Box<dyn Source + Send + '_>, Error> {
    let format = match format {
        Some(format) => format,
        None => detect(&mut input)?,
    };
    let file = input.file().to_owned();
    Ok(match format {
        Format::Pcap => Box::new(OnlyIp::new(pcap::Reader::from_input(input), file)),
        Format::Pcapng => Box::new(OnlyIp::new(pcapng::Reader::from_input(input), file)),
        Format::Snoop if input.ready(snoop::MAGIC.len())?.starts_with(snoop::MAGIC) => {
            Box::new(snoop::Reader::from_input(input))
        }
        Format::Snoop => Box::new(printed::snoop::Reader::from_input(input)),
        Format::Tcpdump => Box::new(printed::tcpdump::Reader::from_input(input)),
    })
}

/// Detects the format from more and more of the file, so that a slow pipe need only deliver its first packet.
fn detect<R: Read>(input: &mut Input<R>) -> Result<Format, Error> {
    let mut len = 16;
    loop {
        let ready = input.ready(len)?;
        if let Some(format) = Format::of(ready) {
            return Ok(format);
        }
        if ready.is_empty() {
            return Err(Error::Empty { file: input.file().to_owned() });
        }
        if ready.len() < len || len == BLOCK {
            let format = "pcap, pcapng, snoop or printed";
            return Err(Error::Format { file: input.file().to_owned(), format });
        }
        len = (2 * ready.len()).min(BLOCK);
    }
}
