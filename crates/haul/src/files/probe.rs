//! `haul probe`: what a server and a path offer, and what Longhaul makes of it.
//!
//! It looks and changes nothing: two connections, one after the other, for TLS and its resumption, and up to three for
//! TCP Fast Open; then OPTIONS and
//! PROPFIND, a few of them in a pipeline; and one byte of a file, if there is one. What is learned of the server's
//! pipelining is remembered as from any other command.

mod advice;
mod early;
mod examine;
mod tell;

use haul_http::Origin;
use serde::Serialize;

use super::{
    Outcome,
    options::{self, Manner, Way},
    place::remote,
    report::Report,
    session::Session,
    settings::Settings,
};
use crate::usage;

/// Find out what a server and a path offer, and how Longhaul will use it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder, or a file
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    way: Way,
}

/// What was found. What is null is not known.
#[derive(Debug, Clone, Default, Serialize)]
struct Found {
    url: String,
    server: Option<String>,
    family: String,
    /// Who we are to the server, if it was told.
    user: Option<String>,
    connection: Connection,
    http: Http,
    dav: Dav,
    files: Files,
    /// What Longhaul will do, one sentence each.
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
    fast_open: Option<early::InSyn>,
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
    /// `1.1` and `2`, as far as the server speaks them.
    versions: Vec<&'static str>,
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
    /// It was not tried, since HTTP/2 was asked for, or no pipelining.
    #[default]
    Untried,
    /// All of a pipeline was answered, in order.
    Works,
    /// The server ended the pipeline, or did worse.
    Fails,
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
    let report = Report::new("probe", args.way.json.as_deref());
    let chosen = Settings::of(&remote.origin, &args.way, &Manner::default())?;
    // One connection, on which a pipeline is seen.
    let way = Way { connections: Some(1), http: Some(args.way.http.unwrap_or(options::Http::One)), ..args.way };
    let session = Session::open(&remote, &way, &Manner::default()).await?;
    let mut found = Found { url: session.url(&remote.path), user: session.user.clone(), ..Found::default() };
    examine::examine(&session, &remote.path, &mut found).await?;
    found.settings = advice::settings(&found, &chosen);
    report.print(&tell::text(&found))?;
    report.finish(found)
}

/// The origin of a session.
fn origin(session: &Session) -> &Origin {
    session.dav.requests().origin()
}
