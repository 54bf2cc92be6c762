//! `haul probe`: what a server and the network path support, and how Longhaul will use it.
//!
//! The probe changes nothing. It opens two connections to test TLS session resumption, up to three to test TCP Fast Open,
//! and one over QUIC; sends OPTIONS and PROPFIND, some of them pipelined; and requests one byte of a file, if there is one.
//! As with any other command, the result of the pipelining test is cached.

mod advice;
mod fast_open;
mod measure;
mod text;

use haul_http::Origin;
use serde::Serialize;
use transport::FastOpen;

use crate::files::{
    Outcome,
    options::{self, ConnectionOptions, TransferOptions},
    results::Results,
    session::Session,
    session::location::remote,
    session::settings::Settings,
};
use crate::usage;

/// Test what a server and the network path support, and show how Longhaul will use it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder or file
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// The results; null means unknown.
#[derive(Debug, Clone, Default, Serialize)]
struct Found {
    url: String,
    server: Option<String>,
    family: String,
    /// The user name sent to the server.
    user: Option<String>,
    connection: Connection,
    http: Http,
    dav: Dav,
    files: Files,
    /// How Longhaul will use the server, one sentence each.
    settings: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Connection {
    address: String,
    proxy: Option<String>,
    look_up_ms: f64,
    tcp_handshake_ms: f64,
    rtt_ms: Option<f64>,
    tls: Option<Tls>,
    /// TCP Fast Open; null if it was not tried.
    fast_open: Option<fast_open::InSyn>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Tls {
    version: String,
    cipher_suite: String,
    handshake_ms: f64,
    /// Whether the second connection resumed the first one's session.
    resumes: bool,
    /// How long its handshake took.
    second_handshake_ms: f64,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Http {
    /// `1.1`, `2` and `3`, as far as the server speaks them.
    versions: Vec<&'static str>,
    /// HTTP/3; null without TLS and through a proxy.
    http3: Option<Http3>,
    pipelining: Pipelining,
    /// `Keep-Alive`, as the server writes it.
    keep_alive: Option<String>,
    /// Whether the server closes each connection after one answer.
    closes: bool,
    http2_stream_window: Option<u32>,
    http2_connection_window: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Pipelining {
    /// Not tested: HTTP/2 or no pipelining was requested.
    #[default]
    Untried,
    /// All pipelined requests were answered in order.
    Works,
    /// The server broke the pipeline.
    Fails,
}

/// What was found of HTTP/3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Http3 {
    /// A QUIC connection was made.
    Works,
    /// It is announced (Alt-Svc), but no QUIC connection could be made.
    Announced,
    /// It is not announced, and the server's port does not answer QUIC.
    None,
}

#[derive(Debug, Clone, Default, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each ability is there or not, whatever the others are")]
struct Dav {
    classes: Vec<String>,
    methods: Vec<String>,
    locks: bool,
    sync_collection: bool,
    guards: Option<bool>,
    content_range_put: bool,
    sets_mtime: bool,
    bulk_upload: bool,
    chunk_largest: Option<u64>,
    chunks_in_parallel: Option<u32>,
    checksums: Vec<String>,
    quota_available: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Files {
    /// The file that was asked for one byte.
    tried: Option<String>,
    /// `strong`, `weak`, `none` or null.
    etags: Option<&'static str>,
    ranges: Option<bool>,
    /// The digests that came, as `FIELD: ALGORITHM`.
    digests: Vec<String>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let remote = remote(&args.url).map_err(usage)?;
    let report = Results::new("probe", args.connection.json.as_deref());
    let chosen = Settings::of(&remote.origin, &args.connection, &TransferOptions::default())?;
    // One connection, so that requests are pipelined. It requests no cookie, so that the probe's own request is the first.
    let connection = ConnectionOptions {
        connections: Some(1),
        tfo: Some(options::Tfo::Off),
        http: Some(args.connection.http.unwrap_or(options::Http::One)),
        ..args.connection
    };
    let session = Session::open(&remote, &connection, &TransferOptions::default()).await?;
    let mut found = Found { url: session.url(&remote.path), user: session.user.clone(), ..Found::default() };
    let uses_tfo = chosen.client.connect.fast_open != FastOpen::Off;
    measure::measure(&session, &remote.path, uses_tfo, &mut found).await?;
    found.settings = advice::settings(&found, &chosen);
    report.print(&text::text(&found))?;
    report.finish(found)
}

/// The origin of a session.
fn origin(session: &Session) -> &Origin {
    session.dav.requests().origin()
}
