//! pcapng: what our taps write and most tools of today capture.
//!
//! A file is a sequence of blocks ([draft-ietf-opsawg-pcapng]): a section header with the byte order, descriptions of the
//! interfaces, then packets, each with the number of its interface. No other common format has everything that an
//! explanation needs: times in nanoseconds, the direction of each packet, and its length on the link.
//!
//! [`Writer`] uses `pcap-file`, which counts time in nanoseconds whatever `if_tsresol` says; so the writer always sets it
//! to 9. For the same reason its reader is of no use here: most other captures count microseconds.
//!
//! [`Reader`] parses blocks itself. `pcap-parser` rejects resolutions that are powers of two, reads options of big-endian
//! sections as little-endian, loses the reason of a failed read, and allocates for each packet with a direction.
//!
//! [draft-ietf-opsawg-pcapng]: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/

mod block;
mod drop_counters;
mod interface;
mod reader;
mod writer;

pub use block::{WholeBlocks, whole_blocks};
pub use interface::Interface;
pub use reader::Reader;
pub(crate) use reader::begins;
pub use writer::Writer;
