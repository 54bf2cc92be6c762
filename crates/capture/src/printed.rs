//! Captures that were printed.
//!
//! Of an old problem, often the printed lines are all that is left: pasted into a report, reordered by
//! hand, with prose between them. They say less than a capture, but of TCP nearly all that matters. So
//! a printed reader **makes packets**: from each line it writes an IP and a TCP header, as the line
//! tells it, and cuts the data off as a capture of headers does. Whoever looks at packets sees no
//! difference, and no second way through the program is needed.
//!
//! - [`snoop`] reads the summary lines of Solaris's snoop, [`tcpdump`] those of tcpdump.
//! - What a line does not tell is 0 in its packet: addresses of links, checksums, the IP packet's
//!   identification. Windows are printed as they stand in the header, so they stay unscaled.
//! - A host that is printed by name gets an address from a range that no real capture holds:
//!   240.0.0.0/4, reserved since RFC 1112 §4, and of IPv6 the discard prefix 100::/64 (RFC 6666).
//!   [`Source::name`](crate::Source::name) tells the name again.
//! - Lines about anything but TCP count as packets and pass their time, but no packet is made of them.
//!   Lines that are none at all are passed over.
//! - Both write times without a zone, so these are taken for UTC, and times of day without a date for
//!   those of 1 January 1970.

mod conversations;
mod lines;
mod names;
mod segment;
pub mod snoop;
pub mod tcpdump;
mod times;

use lines::Lines;
use names::Names;
use segment::Segment;
