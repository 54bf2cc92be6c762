//! The settings that Longhaul will choose, and why, one sentence each.

use ::dav::{LockPolicy, transfer::Verify};
use haul_http::{Pipelining as Mode, Versions};

use super::{
    super::{settings::Settings, show},
    Found, Pipelining,
};

/// Nextcloud's chunks, as `dav` makes them of most files.
const CHUNK: u64 = 10 * 1024 * 1024;
const SMALLEST_CHUNK: u64 = 5_000_000;

/// The sentences.
pub(super) fn settings(found: &Found, settings: &Settings) -> Vec<String> {
    let mut said = vec![protocol(found, settings)];
    said.extend(window(found));
    said.push(guards(found).to_owned());
    said.push(match settings.lock {
        LockPolicy::Never => "No file is locked before it is written.".to_owned(),
        _ if !found.dav.locks => "Locks are asked for, but the server offers none.".to_owned(),
        LockPolicy::OnEdit => {
            "Files that are there already are locked while they are written, two round trips each.".to_owned()
        }
        LockPolicy::Always => "Every file is locked while it is written, two round trips each.".to_owned(),
    });
    said.push(match found.files.ranges {
        Some(true) if found.files.etags == Some("strong") => {
            let connections = settings.client.connections;
            format!("Files from 8 MiB on are downloaded in parts, over up to {connections} connections.")
        }
        Some(true) => {
            "Files are downloaded in one piece: without strong entity tags, parts might be of two versions.".to_owned()
        }
        Some(false) => "Files are downloaded in one piece: the server does not send parts.".to_owned(),
        None => "Whether files can be downloaded in parts is found out with the first large one.".to_owned(),
    });
    said.extend(abilities(found));
    said.push(verify(found, settings).to_owned());
    said.push(
        if found.dav.sets_mtime {
            "Files keep their times (X-OC-Mtime)."
        } else {
            "An uploaded file's time is that of its upload: this server sets no other."
        }
        .to_owned(),
    );
    said
}

/// What this server can do beyond the usual, and when that is used.
fn abilities(found: &Found) -> Vec<String> {
    let mut said = Vec::new();
    if found.dav.content_range_put {
        said.push(
            "Files from 128 MiB on, or with --resume or --temporary from 8 MiB on, are uploaded in parts, over several \
             connections."
                .to_owned(),
        );
    }
    if let Some(parallel) = found.dav.chunks_in_parallel {
        let largest = found.dav.chunk_largest.map_or(CHUNK, |largest| largest.clamp(SMALLEST_CHUNK, CHUNK));
        let size = show::size(largest);
        said.push(format!("Files above {size} are uploaded in chunks, up to {parallel} at a time (below dav/files)."));
    }
    if found.dav.bulk_upload {
        said.push("Files up to 128 KiB for a new folder are uploaded many to a request (below dav/files).".to_owned());
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
            "HTTP/2 is asked for, and the server does not speak it: nothing will be done.".to_owned()
        }
        (Versions::Http2, _) => "HTTP/2 is spoken, as asked for.".to_owned(),
        (Versions::Http3, _) => "HTTP/3 is spoken, as asked for, unless UDP does not get through.".to_owned(),
        (Versions::Auto, _) if banned && http.versions.contains(&"2") => {
            "HTTP/2 is spoken, as pipelining over HTTP/1.1 goes wrong.".to_owned()
        }
        (_, Mode::Off) => {
            format!("HTTP/1.1 is spoken over {connections}, one request at a time on each, as asked for.")
        }
        (_, Mode::Safe) if banned => {
            format!("HTTP/1.1 is spoken over {connections}, one request at a time on each, as pipelining goes wrong.")
        }
        _ => format!("HTTP/1.1 is spoken over {connections}, with requests sent before earlier ones are answered."),
    }
}

/// What HTTP/2's window would mean on this link (RFC 9113 §5.2); on a short one it means nothing.
fn window(found: &Found) -> Option<String> {
    const SHORT: f64 = 0.001;
    let (window, rtt) = (found.http.http2_stream_window?, found.connection.rtt_ms? / 1000.0);
    let rate = (rtt >= SHORT).then(|| f64::from(window) / rtt)?;
    Some(format!(
        "Over HTTP/2 one upload could carry {}/s at most: the server's window of {} per RTT.",
        show::size(rate as u64),
        show::size(window.into())
    ))
}

fn guards(found: &Found) -> &'static str {
    match (found.dav.guards, found.files.etags) {
        (Some(false), _) => "Uploads replace what is there unseen: this server does not mind conditions.",
        (None, _) => {
            "Uploads are sent with conditions (If-None-Match, If-Match); whether this server minds them is not known: some \
             replace what is there unseen."
        }
        (Some(true), Some("weak" | "none")) => {
            "Uploads of new files keep others' of the same name, and uploads over files replace them unseen: without strong \
             entity tags, versions cannot be told apart."
        }
        (Some(true), _) => {
            "Uploads are conditional (If-None-Match, If-Match), so that nobody's newer version is overwritten unseen."
        }
    }
}

fn verify(found: &Found, settings: &Settings) -> &'static str {
    match settings.verify {
        Verify::None => "What was moved is not compared, as asked for.",
        Verify::Size => "What was moved is compared in length.",
        Verify::Digest if found.dav.checksums.is_empty() && found.files.digests.is_empty() => {
            "What was uploaded is read back and compared, as the server gives no digests."
        }
        Verify::Digest => "What was moved is compared by the server's digests.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Connection, Dav, Files, Http};
    use super::*;

    #[test]
    fn a_narrow_window_is_told_as_the_rate_that_it_is() {
        let found = Found {
            connection: Connection { rtt_ms: Some(100.0), ..Connection::default() },
            http: Http { http2_stream_window: Some(65_535), ..Http::default() },
            ..Found::default()
        };
        assert!(window(&found).unwrap().contains("640.0 KiB/s"), "{:?}", window(&found));
        assert_eq!(window(&Found::default()), None);
    }

    #[test]
    fn what_a_server_can_do_is_told_with_its_measure() {
        assert!(abilities(&Found::default()).is_empty());
        let dav =
            Dav { chunks_in_parallel: Some(3), chunk_largest: Some(6_291_456), bulk_upload: true, ..Dav::default() };
        let said = abilities(&Found { dav, ..Found::default() });
        assert_eq!(said.len(), 2);
        assert!(said[0].contains("above 6.0 MiB") && said[0].contains("up to 3"), "{said:?}");
    }

    #[test]
    fn what_guards_nothing_is_not_called_safe() {
        let with = |guards, etags| {
            super::guards(&Found {
                dav: Dav { guards, ..Dav::default() },
                files: Files { etags, ..Files::default() },
                ..Found::default()
            })
        };
        assert!(with(Some(false), Some("strong")).contains("unseen:"));
        assert!(with(Some(true), Some("weak")).contains("cannot be told apart"));
        assert!(with(Some(true), Some("strong")).contains("nobody's newer version"));
        assert!(with(None, Some("strong")).contains("is not known"));
    }
}
