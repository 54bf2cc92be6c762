//! The probe's results as text.

use std::fmt::Write;

use super::{Found, Http3, Pipelining};
use crate::files::results::format;

/// A table, and the settings below it. Long, because each row takes a few lines.
pub(super) fn text(found: &Found) -> String {
    let mut text = format!("{}\n", found.url);
    let mut row = |what: &str, is: String| {
        let _ = writeln!(text, "  {what:15}{}", format::name(is.as_bytes()));
    };
    let yes = |it: bool| if it { "yes" } else { "no" };
    let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };

    row("server", found.server.clone().unwrap_or_else(|| "unknown".to_owned()));
    if let Some(user) = &found.user {
        row("user", user.clone());
    }
    let connection = &found.connection;
    let proxy = connection.proxy.as_ref().map_or(String::new(), |proxy| format!(", proxy {proxy}"));
    row("address", format!("{}{proxy}", connection.address));
    let rtt = connection.rtt_ms.unwrap_or(connection.tcp_handshake_ms);
    row("RTT", format!("{rtt:.2} ms; DNS {:.1} ms, TCP {:.1} ms", connection.look_up_ms, connection.tcp_handshake_ms));
    match &connection.tls {
        None => row("TLS", "none: readable for anyone on the network path".to_owned()),
        Some(tls) => {
            let again = if tls.resumes { "resumed" } else { "not resumed" };
            row("TLS", format!("{}, {}, {:.1} ms", tls.version, tls.cipher_suite, tls.handshake_ms));
            row("", format!("second connection {again}, {:.1} ms", tls.second_handshake_ms));
        }
    }
    row("TCP Fast Open", super::fast_open::text(connection.fast_open));
    let http = &found.http;
    let blocked =
        if http.http3 == Some(Http3::Announced) { "; HTTP/3 is announced, but UDP gets no answer" } else { "" };
    row("HTTP", format!("{}{blocked}", http.versions.join(", ")));
    let pipelining = match http.pipelining {
        Pipelining::Untried => "not tried",
        Pipelining::Works => "works",
        Pipelining::Fails => "fails",
    };
    row("pipelining", pipelining.to_owned());
    if let (Some(stream), Some(connection)) = (http.http2_stream_window, http.http2_connection_window) {
        let (stream, connection) = (format::size(stream.into()), format::size(connection.into()));
        row("HTTP/2 window", format!("{stream} per upload, {connection} per connection"));
    }
    match (&http.keep_alive, http.closes) {
        (_, true) => row("keep-alive", "none: the server closes each connection after one response".to_owned()),
        (Some(limits), _) => row("keep-alive", limits.clone()),
        (None, _) => row("keep-alive", "no limit announced".to_owned()),
    }
    let dav = &found.dav;
    row("methods", list(&dav.methods));
    row("DAV classes", list(&dav.classes));
    row("locks", yes(dav.locks).to_owned());
    row("sync report", yes(dav.sync_collection).to_owned());
    row("entity tags", found.files.etags.unwrap_or("unknown").to_owned());
    let tried =
        found.files.tried.as_ref().map_or("no file to test with".to_owned(), |file| format!("tested with {file}"));
    row("ranges", found.files.ranges.map_or(tried.clone(), |ranges| format!("{}, {tried}", yes(ranges))));
    row("digests", if found.files.digests.is_empty() { list(&dav.checksums) } else { found.files.digests.join(", ") });
    let chunks = dav.chunks_in_parallel.map(|parallel| match dav.chunk_largest {
        Some(largest) => format!("chunks up to {}, {parallel} in parallel", format::size(largest)),
        None => format!("chunks, {parallel} in parallel"),
    });
    let bulk = dav.bulk_upload.then(|| "bulk requests".to_owned());
    let part = dav.content_range_put.then(|| "ranges (Content-Range)".to_owned());
    row("uploads in", list(&[chunks, bulk, part].into_iter().flatten().collect::<Vec<_>>()));
    if let Some(room) = dav.quota_available {
        row("available", format::size(room));
    }
    text.push('\n');
    for sentence in &found.settings {
        let _ = writeln!(text, "{sentence}");
    }
    text
}
