//! Opening a capture of whatever format.
//!
//! What a file is, its first bytes tell; its name tells what somebody believed. A compressed file is
//! looked at twice. Printed text has no magic number: it is one if one of its first lines is a packet.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::{
    Error, Source,
    ahead::Ahead,
    compressed::Compression,
    input::{BLOCK, Input},
    pcap, pcapng, printed, snoop,
};

/// The formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// What `tcpdump -w` writes.
    Pcap,
    /// What Wireshark and our taps write.
    Pcapng,
    /// What Solaris's `snoop` writes (RFC 1761), or what it prints.
    Snoop,
    /// What `tcpdump` prints.
    Tcpdump,
}

/// All of them, in the order in which they are looked for.
pub const FORMATS: [Format; 4] = [Format::Pcapng, Format::Pcap, Format::Snoop, Format::Tcpdump];

impl Format {
    /// Its name, by which it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
            Self::Snoop => "snoop",
            Self::Tcpdump => "tcpdump",
        }
    }

    /// Which format a file has that begins with `bytes`.
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

/// There is no format of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no capture format is called `{0}`; use pcap, pcapng, snoop or tcpdump")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        FORMATS.into_iter().find(|format| format.name() == name).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// Opens the capture at `path`, or on standard input if that is `-`, which may be compressed with gzip
/// or zstd. Without a `format` it is recognised. A thread reads ahead.
pub fn open(path: &Path, format: Option<Format>) -> Result<Box<dyn Source + Send>, Error> {
    let (source, file): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), PathBuf::from("standard input"))
    } else {
        let unopened = |source| Error::Open { file: path.to_owned(), source };
        let opened = File::open(path).map_err(unopened)?;
        // It opens, and cannot be read.
        if opened.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(unopened(io::ErrorKind::IsADirectory.into()));
        }
        (Box::new(opened), path.to_owned())
    };
    let plain = plain(Input::new(source, &file))?;
    let ahead = Ahead::new(plain).map_err(|source| Error::Open { file: file.clone(), source })?;
    packets(Input::ahead(ahead, file), format)
}

/// Reads the capture `source`, called `file` in errors, as [`open`] does, but in the caller's thread.
pub fn read<'a>(
    source: impl Read + Send + 'a,
    file: impl Into<PathBuf>,
    format: Option<Format>,
) -> Result<Box<dyn Source + Send + 'a>, Error> {
    packets(plain(Input::new(Box::new(source), file))?, format)
}

/// A file under way, wherever it comes from.
type Anything<'a> = Input<Box<dyn Read + Send + 'a>>;

/// The file as it was before it was compressed, if it was.
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
        None => recognise(&mut input)?,
    };
    Ok(match format {
        Format::Pcap => Box::new(pcap::Reader::from_input(input)),
        Format::Pcapng => Box::new(pcapng::Reader::from_input(input)),
        Format::Snoop if input.ready(snoop::MAGIC.len())?.starts_with(snoop::MAGIC) => {
            Box::new(snoop::Reader::from_input(input))
        }
        Format::Snoop => Box::new(printed::snoop::Reader::from_input(input)),
        Format::Tcpdump => Box::new(printed::tcpdump::Reader::from_input(input)),
    })
}

/// Looks at more and more of the file, so that one who prints slowly is not waited for longer than
/// his first packet takes.
fn recognise<R: Read>(input: &mut Input<R>) -> Result<Format, Error> {
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
            let format = "pcap, pcapng or snoop capture, nor a printed";
            return Err(Error::Format { file: input.file().to_owned(), format });
        }
        len = (2 * ready.len()).min(BLOCK);
    }
}
