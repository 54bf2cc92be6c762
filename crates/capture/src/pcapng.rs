//! pcapng: what our taps write and most tools of today capture.
//!
//! A file is a row of blocks ([draft-ietf-opsawg-pcapng]): a section header, which tells the byte
//! order; descriptions of the interfaces; then packets, each naming its interface. It is the one
//! common format that keeps what an explanation needs: times in nanoseconds, the direction of each
//! packet, and its length beside the bytes that were kept.
//!
//! `pcap-file` writes them. Its packet block counts time in nanoseconds whatever the interface's
//! `if_tsresol` says, which is right exactly when that says 9, as [`Writer`] always does; its reader
//! has the same habit, and other people's captures mostly count microseconds.
//!
//! [`Reader`] reads blocks itself. `pcap-parser` did that once, but takes resolutions that are powers
//! of two for invalid and numbers in options of big-endian sections for little-endian, forgets why a
//! read failed, and allocates a list of options for each packet that has a direction, as all of
//! our taps' have. What is left, once these are set right, is where five numbers stand.
//!
//! [draft-ietf-opsawg-pcapng]: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/

mod frame;
mod interface;
mod reader;
mod writer;

pub use frame::{Whole, whole_blocks};
pub use interface::Interface;
pub use reader::Reader;
pub(crate) use reader::begins;
pub use writer::Writer;
