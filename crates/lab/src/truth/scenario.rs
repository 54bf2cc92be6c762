//! A scenario: everything that decides how one run of a case goes.
//!
//! A case has two, which differ in the knob alone. Both are stored in the case's `case.json`, so that a person can see
//! what was turned, and repeat it.

use std::collections::BTreeMap;

use link::spec::LinkSpec;
use serde::{Deserialize, Serialize};
use units::{Size, Span};

/// One run: the links, the programs and their settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The links between client and router, and between router and server.
    pub links: [LinkSpec; 2],
    /// The congestion control of client and server.
    pub congestion_control: String,
    /// The server.
    pub server: ServerSide,
    /// The client.
    pub client: ClientSide,
    /// The size of each file.
    pub file: Size,
    /// The number of files that the client transfers, one after another.
    pub count: u32,
    /// Whether the client sends them.
    pub is_upload: bool,
    /// Whether they use HTTP/2.
    #[serde(default)]
    pub is_http2: bool,
    /// Whether they use HTTPS.
    #[serde(default)]
    pub is_tls: bool,
    /// The other transfers over the same links.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub competitor: Option<Competitor>,
}

/// The server's program and settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerSide {
    /// The program.
    pub program: ServerProgram,
    /// The host's sysctls.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// The send buffer, if the program sets one (SO_SNDBUF).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// The maximum pacing rate, if the program sets one (SO_MAX_PACING_RATE), in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Size>,
    /// A shaper on the host's device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<Shaper>,
    /// The receive buffer, if the program sets one (SO_RCVBUF).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// The time before each response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Span>,
    /// The rate at which the program writes, in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_rate: Option<Size>,
    /// The window of HTTP/2 that the program grants to a stream and to the connection, if it sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_window: Option<Size>,
    /// Whether the program turns Nagle's algorithm off (TCP_NODELAY).
    pub nodelay: bool,
    /// The time until the program listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Span>,
}

/// The client's program and settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientSide {
    /// The program.
    pub program: ClientProgram,
    /// The host's sysctls.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// The send buffer, if the program sets one (SO_SNDBUF).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// The maximum pacing rate, if the program sets one (SO_MAX_PACING_RATE), in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Size>,
    /// A shaper on the host's device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<Shaper>,
    /// The receive buffer, if the program sets one (SO_RCVBUF).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// The pause between two requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Span>,
    /// The rate at which the program reads (or writes, in uploads), in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Size>,
    /// The time for which the program stops reading in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Span>,
}

/// A token bucket filter (tc-tbf).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shaper {
    /// Its rate in bytes per second.
    pub rate: Size,
    /// The size of its bucket.
    pub burst: Size,
}

/// A server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerProgram {
    /// `python3 -m http.server`, or a small program on the same module where a knob needs it.
    #[default]
    Python,
    /// nginx.
    Nginx,
    /// Apache.
    Apache,
    /// A small program on node's `http` module.
    Node,
    /// iperf3, which needs iperf3 as its client.
    Iperf3,
}

/// A client program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientProgram {
    /// curl.
    #[default]
    Curl,
    /// wget.
    Wget,
    /// A small program on Python's `http.client`.
    Python,
    /// A small program on node's `http` module.
    Node,
    /// `rclone copyurl`.
    Rclone,
    /// iperf3, which needs iperf3 as its server.
    Iperf3,
}

/// Downloads that share the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Competitor {
    /// How many at a time.
    pub connections: u32,
    /// How long before the measured transfer they begin.
    pub ahead: Span,
    /// Whether iperf3 does them; curl otherwise.
    pub with_iperf3: bool,
    /// Whether the router does them, so that they are in no capture of the client.
    pub is_behind_router: bool,
}

impl Scenario {
    /// The scheme of its URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// The requested paths.
    pub(crate) fn paths(&self) -> Vec<String> {
        (0..self.count).map(|index| format!("/file{index}.bin")).collect()
    }
}
