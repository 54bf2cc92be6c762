//! Errors of captures.

use std::{io, path::PathBuf};

use crate::LinkType;

/// Why the next packet of a capture cannot be read. Packets are numbered from 1, as in Wireshark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open the capture {}: {source}; check the path and its permissions", file.display())]
    Open {
        /// The capture.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be read further.
    #[error("cannot read packet {packet} of {}: {source}; check the disk", file.display())]
    Read {
        /// The capture.
        file: PathBuf,
        /// The next packet.
        packet: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file is empty.
    #[error("{} is empty; capture again, and check that the capturing program has ended", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file has no known header, or contains no known line.
    #[error("{} is not a {format} capture; `editcap -F pcapng` converts most other formats", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The expected format.
        format: &'static str,
    },
    /// All packets of the file are of link types without IP, or without IP that can be found.
    #[error("{} contains only {}, not IP; {}", file.display(), link.description(), link.advice())]
    LinkType {
        /// The capture.
        file: PathBuf,
        /// The first packet's.
        link: LinkType,
    },
    /// The file contains IEEE 802.11 frames, and all data in them is encrypted.
    #[error(
        "{} contains only encrypted 802.11 frames; decrypt them with `airdecap-ng -e NETWORK -p PASSWORD {0}` \
         (needs each client's handshake), or capture at the client, not in monitor mode",
        file.display()
    )]
    Encrypted {
        /// The capture.
        file: PathBuf,
    },
    /// The file ends in the middle of a packet.
    #[error(
        "{} is truncated at packet {packet}; {}capture again",
        file.display(), rest(*packet)
    )]
    Truncated {
        /// The capture.
        file: PathBuf,
        /// The incomplete packet.
        packet: u64,
    },
    /// The file is damaged, or uses an unsupported feature of its format.
    #[error(
        "cannot read packet {packet} of {}: {what}; {}capture again",
        file.display(), rest(*packet)
    )]
    Damaged {
        /// The capture.
        file: PathBuf,
        /// The damaged packet, or the one after the damage.
        packet: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A line of a printed capture begins like a packet, but the rest is invalid.
    #[error("{}:{line}: {what}; correct or remove the line", file.display())]
    Line {
        /// The capture.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// Advice to use the packets before this one.
fn rest(packet: u64) -> String {
    match packet.saturating_sub(1) {
        0 => String::new(),
        1 => "use the one packet before it, or ".to_owned(),
        before => format!("use the {before} packets before it, or "),
    }
}
