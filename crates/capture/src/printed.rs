//! Printed captures.
//!
//! Often only printed lines are left of an old problem: pasted into a report, reordered by hand, with prose between them.
//! They contain less than a capture, but nearly all that matters of TCP. So a printed reader **creates packets**: from
//! each line it builds an IP and a TCP header, and omits the data like a capture of headers. The rest of the program needs
//! no special case.
//!
//! - [`snoop`] reads the summary lines of Solaris's snoop, [`tcpdump`] those of tcpdump.
//! - Fields that a line lacks are 0 in its packet: link-layer addresses, checksums, the IP identification. Windows are
//!   printed unscaled, as in the header.
//! - A host printed by name gets an address from a range that no real capture uses: 240.0.0.0/4, reserved since RFC 1112
//!   §4, and for IPv6 the discard prefix 100::/64 (RFC 6666). [`Source::name`](crate::Source::name) returns the name.
//! - Lines about other protocols count as packets and advance the time, but create no packet. Other lines are ignored.
//! - Printed times have no zone, so they are read as UTC, and times of day without a date as 1 January 1970.

mod host_names;
mod lines;
mod segment;
mod sequence_numbers;
pub mod snoop;
pub mod tcpdump;
mod timestamps;

use host_names::HostNames;
use lines::Lines;
use segment::Segment;
