//! Which way a file goes up.
//!
//! A PUT is one request on one connection, and most files are best sent by it. Two servers can do more with a large
//! file. Apache's mod_dav_fs writes a part where `Content-Range` says, and a Nextcloud takes chunks and joins them: so
//! what an interrupted run has left can be gone on from, and several connections, or several streams, carry one file.
//!
//! Neither is free. Parts go to a temporary name, which must be made, looked at and renamed: three round trips that a
//! PUT does not have. So Apache's parts are used where one of these holds: the file is to be resumable; a temporary
//! name is wanted anyway; or the file is many windows long. A connection, and over HTTP/2 a stream, carries a window
//! per RTT whatever the link could do, and a file that is many of them long loses at most a few per cent if the link is
//! the narrower one: 100 MiB over 200 ms took 8.8 s by one PUT and 6.6 s in parts at 400 Mbit/s, but 40 MiB at 100
//! Mbit/s, which one connection fills, 6.3 s and 6.7 s (Apache 2.4.71, both on one busy machine). Nor does it help a
//! file that ends before one connection's window is open: 20 MiB there took 3.7 s by one PUT and 4.4 s in parts over
//! five connections, which filled the link 0.3 s sooner, overran the queue before it (1028 packets were sent again) and
//! then waited for the round trips above. Streams of one connection share its window, too: so many of them are of use
//! as it has room for, and else one. Chunks are used for whatever is larger than one, since a Nextcloud and the servers
//! before it bound the size of a request.

use haul_http::Windows;

use crate::{Capabilities, transfer::Options};

/// The size from which a file is large.
pub(super) const LARGE: u64 = 8 * 1024 * 1024;
/// How many parts of a file are under way at most. What is to be believed of an interrupted upload depends on it.
pub(super) const LANES: usize = 8;
/// Windows that a file must be long for its being split to make up for the round trips that it costs.
const WINDOWS: u64 = 32;
/// A TCP connection's window at its widest, where nobody has set another: Linux's `net.ipv4.tcp_wmem`.
const TCP: u64 = 4 * 1024 * 1024;
/// A chunk, unless the server wants smaller ones. A Nextcloud takes those of 5 MB and more, and up to ten thousand.
const CHUNK: u64 = 10 * 1024 * 1024;
const SMALLEST: u64 = 5_000_000;
const MOST: u64 = 10_000;

/// A way to upload a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// By one PUT, to its name.
    Whole,
    /// By one PUT to a temporary name, which is renamed.
    Renamed,
    /// In parts to a temporary name, so many at a time.
    Ranges { lanes: usize },
    /// In chunks of this size, so many at a time, of which the server makes the file.
    Chunks { size: u64, lanes: usize },
}

impl Strategy {
    /// The way for a file of this length, given what is known of the server, HTTP/2's windows where it is spoken, and
    /// whether the path is on a Nextcloud.
    pub(super) fn of(
        length: u64,
        options: &Options,
        capabilities: &Capabilities,
        windows: Option<Windows>,
        on_nextcloud: bool,
    ) -> Self {
        let lanes = lanes(options.connections, windows);
        if let Some(chunking) = capabilities.chunking.filter(|_| on_nextcloud) {
            let largest = chunking.largest.unwrap_or(u64::MAX).max(SMALLEST);
            let size = CHUNK.max(length.div_ceil(MOST)).min(largest);
            if length > size && length.div_ceil(size) <= MOST {
                return Self::Chunks { size, lanes: lanes.min(chunking.parallel as usize).max(1) };
            }
        }
        let worth = options.resume || lanes > 1 && (options.temporary || is_long(length, windows));
        match options.temporary {
            _ if capabilities.content_range_put && length >= LARGE && worth => Self::Ranges { lanes },
            true => Self::Renamed,
            false => Self::Whole,
        }
    }
}

/// Whether a window per RTT may hold up a file of this length.
pub(super) fn is_long(length: u64, windows: Option<Windows>) -> bool {
    length / windows.map_or(TCP, |windows| u64::from(windows.stream.max(1))) >= WINDOWS
}

/// How many parts at a time are of use: one connection is left for what is small, and streams share a window.
fn lanes(connections: usize, windows: Option<Windows>) -> usize {
    let most = connections.saturating_sub(1).clamp(1, LANES);
    match windows {
        Some(windows) => most.min((windows.connection / windows.stream.max(1)) as usize).max(1),
        None => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunking;

    const MIB: u64 = 1024 * 1024;

    fn apache() -> Capabilities {
        Capabilities { content_range_put: true, ..Capabilities::default() }
    }

    #[test]
    fn parts_are_for_who_resumes_renames_or_is_many_windows_long() {
        let resume = Options { resume: true, ..Options::default() };
        let temporary = Options { temporary: true, ..Options::default() };
        let lone = Options { connections: 1, ..temporary.clone() };
        let windows = |stream, connection| Some(Windows { stream, connection, ..Windows::default() });
        let way = |length, options: &Options, windows| Strategy::of(length, options, &apache(), windows, false);
        assert_eq!(way(100 * MIB, &Options::default(), None), Strategy::Whole);
        assert_eq!(way(100 * MIB, &resume, None), Strategy::Ranges { lanes: 5 });
        assert_eq!(way(100 * MIB, &temporary, None), Strategy::Ranges { lanes: 5 });
        assert_eq!(way(100 * MIB, &lone, None), Strategy::Renamed);
        assert_eq!(way(MIB, &resume, None), Strategy::Whole);
        assert_eq!(way(128 * MIB, &Options::default(), None), Strategy::Ranges { lanes: 5 });
        // A second stream is of use only beside the first one's window.
        assert_eq!(way(100 * MIB, &Options::default(), windows(65_535, 65_535)), Strategy::Whole);
        assert_eq!(way(100 * MIB, &Options::default(), windows(65_535, 262_140)), Strategy::Ranges { lanes: 4 });
        assert_eq!(way(100 * MIB, &Options::default(), windows(16_000_000, 64_000_000)), Strategy::Whole);
        assert_eq!(Strategy::of(100 * MIB, &resume, &Capabilities::default(), None, false), Strategy::Whole);
    }

    #[test]
    fn chunks_are_as_large_as_they_must_and_may_be() {
        let nextcloud =
            |largest| Capabilities { chunking: Some(Chunking { largest, parallel: 3 }), ..Capabilities::default() };
        let way = |length, largest| Strategy::of(length, &Options::default(), &nextcloud(largest), None, true);
        assert_eq!(way(10 * MIB, None), Strategy::Whole);
        assert_eq!(way(30 * MIB, None), Strategy::Chunks { size: 10 * MIB, lanes: 3 });
        assert_eq!(way(30 * MIB, Some(6_000_000)), Strategy::Chunks { size: 6_000_000, lanes: 3 });
        assert_eq!(way(30 * MIB, Some(1000)), Strategy::Chunks { size: SMALLEST, lanes: 3 });
        assert_eq!(way(200_000 * MIB, None), Strategy::Chunks { size: 20 * MIB, lanes: 3 });
        // Beyond what its chunks can hold.
        assert_eq!(way(200_000 * MIB, Some(6_000_000)), Strategy::Whole);
        assert_eq!(Strategy::of(30 * MIB, &Options::default(), &nextcloud(None), None, false), Strategy::Whole);
    }
}
