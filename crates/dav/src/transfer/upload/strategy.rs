//! How a file is uploaded: by one PUT, in parts, or in chunks.
//!
//! Most files are best sent by one PUT. For a large file, two servers can do more: Apache's mod_dav_fs writes a part where
//! `Content-Range` says, and a Nextcloud joins chunks. Then an interrupted upload can be resumed, and several connections, or
//! streams, carry one file.
//!
//! Neither is free. Parts go to a temporary name, which must be created, checked and renamed: three extra round trips. So
//! parts are used on Apache if the upload should be resumable, if it is staged anyway, or if the file is many windows long. A
//! connection, or a stream of HTTP/2, carries one window per RTT, whatever the link could do; and a file of that length loses
//! at most a few per cent if the link is the bottleneck. 100 MiB over 200 ms took 8.8 s by one PUT and 6.6 s in parts at 400
//! Mbit/s; 40 MiB at 100 Mbit/s, which one connection fills, took 6.3 s and 6.7 s (Apache 2.4.71, both on one busy machine). A
//! file that ends before one connection's window is open does not gain: 20 MiB took 3.7 s by one PUT and 4.4 s in parts over
//! five connections, which filled the link 0.3 s sooner, overran the queue of the bottleneck (1028 retransmissions) and then
//! waited for the extra round trips. Streams of one connection share its window: only as many of them help as fit into it.
//! Chunks are used for every file larger than one chunk, because a Nextcloud and the servers in front of it limit the size of
//! a request.

use haul_http::Windows;

use crate::{Capabilities, transfer::Options};

/// Minimum size of a large file.
pub(super) const LARGE: u64 = 8 * 1024 * 1024;
/// Maximum number of parts in flight. Resuming an interrupted upload relies on it.
pub(super) const LANES: usize = 8;
/// Length of a file, in windows, from which splitting makes up for its extra round trips.
const WINDOWS: u64 = 32;
/// Default maximum window of a TCP connection: Linux's `net.ipv4.tcp_wmem`.
const TCP: u64 = 4 * 1024 * 1024;
/// Size of a chunk, unless the server limits it. Nextcloud accepts at least 5 MB each, and up to ten thousand.
const CHUNK: u64 = 10 * 1024 * 1024;
const SMALLEST: u64 = 5_000_000;
const MOST: u64 = 10_000;

/// How to upload a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// By one PUT, to its name.
    Whole,
    /// By one PUT to a temporary name, which is renamed.
    Renamed,
    /// In parts to a temporary name, `lanes` at a time.
    Ranges { lanes: usize },
    /// In chunks of this size, `lanes` at a time, which the server joins.
    Chunks { size: u64, lanes: usize },
}

impl Strategy {
    /// The strategy for a file of this length, given the server's capabilities, the windows of HTTP/2 if it is used,
    /// and whether the path is on a Nextcloud.
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

/// Whether a window per RTT may limit a file of this length.
pub(super) fn is_long(length: u64, windows: Option<Windows>) -> bool {
    length / windows.map_or(TCP, |windows| u64::from(windows.stream.max(1))) >= WINDOWS
}

/// How many parts in flight are useful: one connection is left for small files, and streams share a window.
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
    fn parts_are_used_to_resume_to_stage_or_for_many_windows() {
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
    fn chunk_size_is_within_the_servers_limits() {
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
