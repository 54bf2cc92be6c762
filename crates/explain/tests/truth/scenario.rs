//! A scenario: what happens between two hosts, and the expected conclusion.
//!
//! A file is one TOML table. Each `[[after]]` in it is the other half of a what-if pair: a what-if expression, and the
//! settings with which it becomes real, which override those of the file.

use std::{collections::BTreeMap, fs, path::Path};

use link::spec::LinkSpec;
use serde::Deserialize;
use toml::{Table, Value};
use units::{Rate, Size, Span};

/// What happens, and what must come out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// One sentence for people.
    pub(crate) says: String,
    /// The cable.
    #[serde(default)]
    pub(crate) path: LinkSpec,
    /// Whether they speak IPv6.
    #[serde(default)]
    pub(crate) ipv6: bool,
    /// The MTU of both hosts' devices.
    #[serde(default = "ethernet")]
    pub(crate) mtu: u16,
    /// Which part of the path's delay lies between the client and the capture in the middle.
    #[serde(default = "half")]
    pub(crate) middle: f64,
    /// Single packets that are lost.
    #[serde(default)]
    pub(crate) lose: Vec<Lose>,
    /// What the client asks for the server's address.
    pub(crate) lookup: Option<Lookup>,
    #[serde(default)]
    pub(crate) protocol: Protocol,
    /// How long the server takes for its part of the TLS handshake.
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
    /// The bytes of all bodies that go up, and that come down.
    pub(crate) fn sizes(&self) -> [u64; 2] {
        let sum = |size: fn(&Exchange) -> Size| self.exchange.iter().map(|exchange| size(exchange).as_bytes()).sum();
        [sum(|exchange| exchange.request), sum(|exchange| exchange.response)]
    }
}

/// A packet that is lost, the first so many times it comes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lose {
    pub(crate) way: Way,
    pub(crate) packet: Which,
    #[serde(default = "once")]
    pub(crate) times: u32,
    /// Whether it is lost between the client and the capture in the middle, and not behind.
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
    /// The one that carries the byte this far into the stream.
    At(Size),
}

/// A question to a name server, on the server's host.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lookup {
    /// How long the name server takes.
    #[serde(default)]
    pub(crate) takes: Span,
    /// When the client asks again.
    pub(crate) retry: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Protocol {
    /// HTTP/1.1 over plain TCP.
    #[default]
    Http,
    /// The bodies alone.
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
    /// SO_SNDBUF, SO_RCVBUF; the kernel doubles them.
    pub(crate) send_buffer: Option<Size>,
    pub(crate) receive_buffer: Option<Size>,
    /// The rate at which the kernel spreads what is sent (SO_MAX_PACING_RATE).
    pub(crate) pacing: Option<Rate>,
    /// Whether the program leaves Nagle's algorithm on.
    pub(crate) nagle: bool,
    /// HTTP/2's window for a stream, and for the connection (RFC 9113 §6.9).
    pub(crate) stream_window: Option<Size>,
    pub(crate) connection_window: Option<Size>,
    pub(crate) writes: Writes,
    pub(crate) reads: Reads,
}

/// How a program writes a message.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Writes {
    /// In writes of this size.
    pub(crate) chunk: Option<Size>,
    /// Before each write it waits until fewer than so many are unacknowledged.
    pub(crate) in_flight: Option<u32>,
    /// It rests between two writes.
    pub(crate) pause: Span,
    /// It rests once, when so much is written.
    pub(crate) rests_at: Option<Size>,
    pub(crate) rests_for: Span,
    /// The head goes in a write of its own.
    pub(crate) head_apart: bool,
}

/// How a program reads a message.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reads {
    /// In reads of this size at most.
    pub(crate) chunk: Option<Size>,
    /// It rests after each read.
    pub(crate) pause: Span,
    /// It rests once, when so much is read.
    pub(crate) stops_at: Option<Size>,
    pub(crate) stops_for: Span,
}

/// A request and its response; the sizes are those of the bodies.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Exchange {
    pub(crate) client_think: Span,
    pub(crate) request: Size,
    pub(crate) server_think: Span,
    pub(crate) response: Size,
}

/// What must be concluded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// The largest avoidable cause, or `propagation` where nothing is worth avoiding.
    pub(crate) cause: String,
    /// Which shares of the transfer's time causes must have: least and most.
    #[serde(default)]
    pub(crate) share: BTreeMap<String, [f64; 2]>,
    /// Which exchange it is about, counted from 0; the last unless said.
    pub(crate) exchange: Option<usize>,
    /// What must be concluded instead at a place from which less is seen: a packet that was lost before it came
    /// there never was, to who looks from there.
    #[serde(default)]
    pub(crate) at: BTreeMap<String, Expect>,
}

/// The other half of a pair.
#[derive(Debug, Clone)]
pub(crate) struct After {
    /// As `haul explain --what-if` takes it.
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

/// Reads a scenario and what comes after it.
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
        lay_over(&mut whole, change);
        Ok((what_if, whole))
    };
    let afters = afters.map(|one| {
        let (what_if, table) = after(one).map_err(|error| wrong(&error))?;
        Ok(After { what_if, scenario: table.try_into().map_err(|error| wrong(&error))? })
    });
    Ok((scenario, afters.collect::<Result<_, String>>()?))
}

/// Lays one table over another: tables are joined, all else is replaced.
fn lay_over(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => lay_over(base, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}
