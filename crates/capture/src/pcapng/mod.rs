//! pcapng: what our taps write and most tools of today capture.
//!
//! A file is a row of blocks ([draft-ietf-opsawg-pcapng]): a section header, which tells the byte
//! order; descriptions of the interfaces; then packets, each naming its interface. It is the one
//! common format that keeps what an explanation needs: times in nanoseconds, the direction of each
//! packet, and its length beside the bytes that were kept.
//!
//! What the blocks hold is left to libraries. `pcap-file` writes them. Its packet block counts time
//! in nanoseconds whatever the interface's `if_tsresol` says, which is right exactly when that says
//! 9, as [`Writer`] always does; its reader has the same habit and is therefore not used, since
//! other people's captures mostly count microseconds. `pcap-parser` reads them, but for two things
//! which it gets wrong and which [`Reader`] does itself: resolutions that are powers of two (it
//! takes them for invalid) and numbers in options of big-endian sections (it takes them for
//! little-endian). Its streaming reader is not used either, because it forgets why a read failed
//! and has to be fed by trial; finding where a block ends takes twelve bytes.
//!
//! [draft-ietf-opsawg-pcapng]: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/

mod frame;
mod interface;
mod reader;
mod writer;

pub use frame::{Whole, whole_blocks};
pub use interface::Interface;
pub use reader::Reader;
pub use writer::Writer;
