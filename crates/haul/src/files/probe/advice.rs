//! How Longhaul will use the server, and why: one sentence each.

use ::dav::{LockPolicy, transfer::Verify};
use haul_http::{Pipelining as Mode, Versions};

use super::{Found, Http3, Pipelining};
use crate::files::{results::format, session::settings::Settings};

/// Nextcloud's chunks, as `dav` makes them of most files.
const CHUNK: u64 = 10 * 1024 * 1024;
const SMALLEST_CHUNK: u64 = 5_000_000;

/// The sentences.
pub(super) fn settings(found: &Found, settings: &Settings) -> Vec<String> {
    let mut said = vec![protocol(found, settings)];
    said.extend(window(found));
    said.push(guards(found).to_owned());
    said.push(match settings.lock {
        LockPolicy::Never => "Uploads take no locks.".to_owned(),
        _ if !found.dav.locks => "--lock is set, but the server does not support locks.".to_owned(),
        LockPolicy::OnEdit => "Uploads lock existing files: two more round trips each.".to_owned(),
        LockPolicy::Always => "Uploads lock every file: two more round trips each.".to_owned(),
    });
    said.push(match found.files.ranges {
        Some(true) if found.files.etags == Some("strong") => {
            let connections = settings.client.connections;
            format!("Files of 8 MiB and more are downloaded in ranges, over up to {connections} connections.")
        }
        Some(true) => {
            "Files are downloaded in one request: without strong entity tags, ranges could mix two versions.".to_owned()
        }
        Some(false) => "Files are downloaded in one request: the server does not support ranges.".to_owned(),
        None => "The first large download will show whether the server supports ranges.".to_owned(),
    });
    said.extend(capabilities(found));
    said.push(verify(found, settings).to_owned());
    said.push(
        if found.dav.sets_mtime {
            "Uploads keep modification times (X-OC-Mtime)."
        } else {
            "Uploaded files get the time of their upload: the server cannot set modification times."
        }
        .to_owned(),
    );
    said
}

/// Optional capabilities, and when they are used.
fn capabilities(found: &Found) -> Vec<String> {
    let mut said = Vec::new();
    if found.dav.content_range_put {
        said.push(
            "Files of 128 MiB and more, with --resume or --temporary of 8 MiB and more, are uploaded in ranges, over several \
             connections."
                .to_owned(),
        );
    }
    if let Some(parallel) = found.dav.chunks_in_parallel {
        let largest = found.dav.chunk_largest.map_or(CHUNK, |largest| largest.clamp(SMALLEST_CHUNK, CHUNK));
        let size = format::size(largest);
        said.push(format!("Files above {size} are uploaded in chunks, up to {parallel} at a time (under dav/files)."));
    }
    if found.dav.bulk_upload {
        said.push("Files up to 128 KiB for a new folder are uploaded in bulk requests (under dav/files).".to_owned());
    }
    said
}

fn protocol(found: &Found, settings: &Settings) -> String {
    let (http, client) = (&found.http, &settings.client);
    let connections = match client.connections {
        1 => "one connection".to_owned(),
        many => format!("up to {many} connections"),
    };
    let banned = http.pipelining == Pipelining::Fails;
    match (client.versions, client.pipelining) {
        (Versions::Http2, _) if !http.versions.contains(&"2") && found.connection.tls.is_some() => {
            "--http 2 is set, but the server does not support HTTP/2: every command will fail.".to_owned()
        }
        (Versions::Http2, _) => "HTTP/2, as requested.".to_owned(),
        (Versions::Http3, _) if http.http3 != Some(Http3::Works) => {
            "--http 3 is set, but no QUIC connection can be made: every command will use TCP.".to_owned()
        }
        (Versions::Http3, _) => "HTTP/3, as requested; TCP if UDP is blocked.".to_owned(),
        (Versions::Auto, _) if banned && http.versions.contains(&"2") => {
            "HTTP/2, because HTTP/1.1 pipelining fails.".to_owned()
        }
        (_, Mode::Off) => {
            format!("HTTP/1.1 over {connections}, one request at a time on each, as requested.")
        }
        (_, Mode::Safe) if banned => {
            format!("HTTP/1.1 over {connections}, one request at a time on each, because pipelining fails.")
        }
        _ => format!("HTTP/1.1 with pipelining over {connections}."),
    }
}

/// The upload rate that HTTP/2's window allows on this link (RFC 9113 §5.2); irrelevant at short RTTs.
fn window(found: &Found) -> Option<String> {
    const SHORT: f64 = 0.001;
    let (window, rtt) = (found.http.http2_stream_window?, found.connection.rtt_ms? / 1000.0);
    let rate = (rtt >= SHORT).then(|| f64::from(window) / rtt)?;
    Some(format!(
        "Over HTTP/2 one upload could reach at most {}/s: the server's window of {} per RTT.",
        format::size(rate as u64),
        format::size(window.into())
    ))
}

fn guards(found: &Found) -> &'static str {
    match (found.dav.guards, found.files.etags) {
        (Some(false), _) => "Uploads may overwrite other people's changes: the server ignores preconditions.",
        (None, _) => {
            "Uploads have preconditions (If-None-Match, If-Match); it is unknown whether the server honours them."
        }
        (Some(true), Some("weak" | "none")) => {
            "New uploads never overwrite a file, but updates may overwrite other people's changes: the server has no strong \
             entity tags."
        }
        (Some(true), _) => {
            "Uploads have preconditions (If-None-Match, If-Match), which protect other people's changes."
        }
    }
}

fn verify(found: &Found, settings: &Settings) -> &'static str {
    match settings.verify {
        Verify::None => "Transfers are not verified, as requested.",
        Verify::Size => "Transfers are verified by length.",
        Verify::Digest if found.dav.checksums.is_empty() && found.files.digests.is_empty() => {
            "Uploads are verified by reading them back, because the server has no digests."
        }
        Verify::Digest => "Transfers are verified by the server's digests.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Connection, Dav, Files, Http};
    use super::*;

    #[test]
    fn receive_window_is_shown_as_its_rate() {
        let found = Found {
            connection: Connection { rtt_ms: Some(100.0), ..Connection::default() },
            http: Http { http2_stream_window: Some(65_535), ..Http::default() },
            ..Found::default()
        };
        assert!(window(&found).unwrap().contains("640.0 KiB/s"), "{:?}", window(&found));
        assert_eq!(window(&Found::default()), None);
    }

    #[test]
    fn capabilities_are_shown_with_their_limits() {
        assert!(capabilities(&Found::default()).is_empty());
        let dav =
            Dav { chunks_in_parallel: Some(3), chunk_largest: Some(6_291_456), bulk_upload: true, ..Dav::default() };
        let said = capabilities(&Found { dav, ..Found::default() });
        assert_eq!(said.len(), 2);
        assert!(said[0].contains("above 6.0 MiB") && said[0].contains("up to 3"), "{said:?}");
    }

    #[test]
    fn ineffective_preconditions_are_not_called_safe() {
        let with = |guards, etags| {
            super::guards(&Found {
                dav: Dav { guards, ..Dav::default() },
                files: Files { etags, ..Files::default() },
                ..Found::default()
            })
        };
        assert!(with(Some(false), Some("strong")).contains("ignores preconditions"));
        assert!(with(Some(true), Some("weak")).contains("no strong"));
        assert!(with(Some(true), Some("strong")).contains("protect"));
        assert!(with(None, Some("strong")).contains("is unknown"));
    }
}
