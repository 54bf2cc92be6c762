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
    /// The file has not a single byte.
    #[error("{} is empty; capture again, and look whether whoever writes it has ended", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file does not begin as a capture does, or holds no line that is known.
    #[error("{} is no {format} capture; `editcap -F pcapng` makes one that is read here of most others", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// What it was to be.
        format: &'static str,
    },
    /// The file ends within a packet.
    #[error(
        "{} breaks off at packet {packet}; {}capture again",
        file.display(), rest(*packet)
    )]
    Truncated {
        /// The capture.
        file: PathBuf,
        /// The packet that is missing or not whole.
        packet: u64,
    },
    /// The file contradicts its format, or uses a part of it that cannot be used here.
    #[error(
        "packet {packet} of {} cannot be read: {what}; {}capture again",
        file.display(), rest(*packet)
    )]
    Damaged {
        /// The capture.
        file: PathBuf,
        /// The packet at which, or before which, it happens.
        packet: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A line of a printed capture begins as a packet and goes on as none.
    #[error("line {line} of {} cannot be read: {what}; correct it, or remove it", file.display())]
    Line {
        /// The capture.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// What can be done with the packets before this one.
fn rest(packet: u64) -> String {
    match packet.saturating_sub(1) {
        0 => String::new(),
        1 => "go on with the one before it or ".to_owned(),
        before => format!("go on with the {before} before it or "),
    }
}
