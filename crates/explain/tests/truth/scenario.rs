//! A scenario: what happens between two hosts, and the expected conclusion.
//!
//! A file is one TOML table. Each `[[after]]` in it is the other half of a what-if pair: a what-if expression, and the
//! settings with which it becomes real, which override those of the file.

use std::{collections::BTreeMap, fs, path::Path};

use link::spec::LinkSpec;
use serde::Deserialize;
use toml::{Table, Value};
use units::{Rate, Size, Span};

/// What happens, and the expected conclusion; its fields are the keys of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// A description in one sentence.
    pub(crate) says: String,
    /// The cable.
    #[serde(default)]
    pub(crate) path: LinkSpec,
    /// Whether the hosts use IPv6.
    #[serde(default)]
    pub(crate) ipv6: bool,
    /// The MTU of both hosts' devices.
    #[serde(default = "ethernet")]
    pub(crate) mtu: u16,
    /// The share of the path's delay between the client and the capture in the middle.
    #[serde(default = "half")]
    pub(crate) middle: f64,
    /// Packets that are lost.
    #[serde(default)]
    pub(crate) lose: Vec<Lose>,
    /// Maximum number of packets of each side that it sends again although nothing was lost.
    #[serde(default)]
    pub(crate) needless: u32,
    /// The DNS lookup of the server's address.
    pub(crate) lookup: Option<Lookup>,
    #[serde(default)]
    pub(crate) protocol: Protocol,
    /// The server's delay in the TLS handshake.
    #[serde(default)]
    pub(crate) handshake_takes: Span,
    /// Whether all requests are sent before the first response is read.
    #[serde(default)]
    pub(crate) pipelined: bool,
    #[serde(default)]
    pub(crate) client: End,
    #[serde(default)]
    pub(crate) server: End,
    /// The requests with their responses, one after another on one connection.
    pub(crate) exchange: Vec<Exchange>,
    pub(crate) expect: Expect,
}

impl Scenario {
    /// The bytes of all request bodies and of all response bodies.
    pub(crate) fn sizes(&self) -> [u64; 2] {
        let sum = |size: fn(&Exchange) -> Size| self.exchange.iter().map(|exchange| size(exchange).as_bytes()).sum();
        [sum(|exchange| exchange.request), sum(|exchange| exchange.response)]
    }
}

/// A packet whose first transmissions are lost.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lose {
    pub(crate) way: Way,
    pub(crate) packet: Which,
    #[serde(default = "once")]
    pub(crate) times: u32,
    /// Whether it is lost between the client and the capture in the middle; otherwise between there and the server.
    #[serde(default)]
    pub(crate) near: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    Up,
    Down,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Which {
    Syn,
    Udp,
    /// The packet with the byte at this offset of the stream.
    At(Size),
}

/// A DNS lookup; the name server is on the server's host.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lookup {
    /// The name server's delay.
    #[serde(default)]
    pub(crate) takes: Span,
    /// The time after which the client queries again.
    pub(crate) retry: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Protocol {
    /// HTTP/1.1 over plain TCP.
    #[default]
    Http,
    /// Bodies only, without HTTP.
    Raw,
    /// HTTP/1.1 over TLS 1.3.
    Tls13,
    /// HTTP/1.1 over TLS 1.2.
    Tls12,
    /// HTTP/2 over plain TCP, with prior knowledge (RFC 9113 §3.3).
    Http2,
    /// HTTP/2 over TLS 1.3.
    Http2Tls,
}

/// A host and the program on it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct End {
    pub(crate) sysctl: BTreeMap<String, String>,
    pub(crate) initial_window: Option<u32>,
    /// SO_SNDBUF and SO_RCVBUF; the kernel doubles them.
    pub(crate) send_buffer: Option<Size>,
    pub(crate) receive_buffer: Option<Size>,
    /// Maximum pacing rate (SO_MAX_PACING_RATE).
    pub(crate) pacing: Option<Rate>,
    /// Whether the program leaves Nagle's algorithm on.
    pub(crate) nagle: bool,
    /// HTTP/2's flow-control windows (RFC 9113 §6.9).
    pub(crate) stream_window: Option<Size>,
    pub(crate) connection_window: Option<Size>,
    pub(crate) writes: Writes,
    pub(crate) reads: Reads,
}

/// How a program writes a message.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Writes {
    /// The size of a write.
    pub(crate) chunk: Option<Size>,
    /// Maximum number of unacknowledged writes.
    pub(crate) in_flight: Option<u32>,
    /// A pause between two writes.
    pub(crate) pause: Span,
    /// One pause, after this number of bytes.
    pub(crate) rests_at: Option<Size>,
    pub(crate) rests_for: Span,
    /// Whether the head is a write of its own.
    pub(crate) head_apart: bool,
}

/// How a program reads a message.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reads {
    /// Maximum size of a read.
    pub(crate) chunk: Option<Size>,
    /// A pause after each read.
    pub(crate) pause: Span,
    /// One pause, after this number of bytes.
    pub(crate) stops_at: Option<Size>,
    pub(crate) stops_for: Span,
}

/// A request and its response; sizes are those of the bodies.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Exchange {
    pub(crate) client_think: Span,
    pub(crate) request: Size,
    /// The client sends `Expect: 100-continue`, and waits this long for the answer before it sends the body.
    pub(crate) expects_for: Option<Span>,
    /// Whether the server ignores that.
    pub(crate) ignores_expect: bool,
    pub(crate) server_think: Span,
    pub(crate) response: Size,
}

/// The expected conclusion.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// The largest avoidable cause, or `propagation` if there is none.
    pub(crate) cause: String,
    /// The minimum and maximum share of causes in the transfer's time.
    #[serde(default)]
    pub(crate) share: BTreeMap<String, [f64; 2]>,
    /// The index of the exchange; by default the last.
    pub(crate) exchange: Option<usize>,
    /// A different conclusion at some vantage points: a packet that was lost before a tap is not in its capture.
    #[serde(default)]
    pub(crate) at: BTreeMap<String, Expect>,
}

/// The second scenario of a what-if pair.
#[derive(Debug, Clone)]
pub(crate) struct After {
    /// An expression for `haul explain --what-if`.
    pub(crate) what_if: String,
    pub(crate) scenario: Scenario,
}

fn ethernet() -> u16 {
    link::cable::DEFAULT_MTU
}

fn half() -> f64 {
    0.5
}

fn once() -> u32 {
    1
}

/// Reads a scenario and its what-if pairs.
pub(crate) fn read(path: &Path) -> Result<(Scenario, Vec<After>), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let mut table: Table = text.parse().map_err(|error| wrong(&error))?;
    let afters = table.remove("after");
    let scenario = table.clone().try_into().map_err(|error| wrong(&error))?;
    let afters = afters.iter().filter_map(|afters| afters.as_array()).flatten();
    let after = |after: &Value| {
        let mut change = after.as_table().cloned().ok_or("an `after` is a table")?;
        let Some(Value::String(what_if)) = change.remove("what_if") else { return Err("an `after` needs a `what_if`") };
        let mut whole = table.clone();
        merge(&mut whole, change);
        Ok((what_if, whole))
    };
    let afters = afters.map(|one| {
        let (what_if, table) = after(one).map_err(|error| wrong(&error))?;
        Ok(After { what_if, scenario: table.try_into().map_err(|error| wrong(&error))? })
    });
    Ok((scenario, afters.collect::<Result<_, String>>()?))
}

/// Merges a table into another: nested tables are merged, other values replaced.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}
