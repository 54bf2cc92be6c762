//! What can be wrong with a capture.

use std::{io, path::PathBuf};

/// Why the next packet of a capture cannot be had. Packets are numbered from 1, as Wireshark does.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open the capture {}: {source}; check the path and its permissions", file.display())]
    Open {
        /// The capture.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be read further.
    #[error("cannot read packet {packet} of {}: {source}; check the disk it lies on", file.display())]
    Read {
        /// The capture.
        file: PathBuf,
        /// The packet that was to come.
        packet: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not begin as a capture does.
    #[error("{} is no pcapng capture; `editcap -F pcapng` makes one of most other formats", file.display())]
    Format {
        /// The file.
        file: PathBuf,
    },
    /// The file ends within a block.
    #[error(
        "{} breaks off at packet {packet}; the {} before it are whole, so go on with those or capture again",
        file.display(), packet - 1
    )]
    Truncated {
        /// The capture.
        file: PathBuf,
        /// The packet that is missing or not whole.
        packet: u64,
    },
    /// The file contradicts its format, or uses a part of it that cannot be used here.
    #[error(
        "packet {packet} of {} cannot be read: {what}; go on with the {} before it or capture again",
        file.display(), packet - 1
    )]
    Damaged {
        /// The capture.
        file: PathBuf,
        /// The packet at which, or before which, it happens.
        packet: u64,
        /// What is wrong.
        what: &'static str,
    },
}
