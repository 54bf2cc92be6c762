//! The settings of a network's server: of its TCP, which turn today's kernel into a server of 2011, and of its quirks.
//!
//! The sender decides how fast a response arrives, but the parameters of a link do not include the sender. So an
//! experiment sets the server's TCP beside the network: the name of a network stands for the link and the machine at
//! its end. A server that computes for each response, or that ends each connection after one, belongs to the same machine.
//! Only the embedded server can imitate these habits, so that it serves such a network whatever the run's server is.

use std::{collections::BTreeMap, fmt, time::Duration};

use link::host::{Host, HostError};
use serde::{Deserialize, Serialize};
use serve::Quirks;
use units::Span;

/// The greatest think time: clients give up soon after.
const MOST_THINK_TIME: Duration = Duration::from_secs(10);

/// The settings of a server and its host that differ from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stack {
    /// The initial window in segments: `initcwnd` of its routes; 10 by default (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Its sysctls, such as `net.ipv4.tcp_slow_start_after_idle`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// How long it computes for each response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think_time: Option<Span>,
    /// Whether connections of HTTP/1.1 stay open after a response; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<bool>,
    /// Whether it responds to uploads and locks as Apache does; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like_apache: Option<bool>,
}

impl Stack {
    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The habits of another server, if it has any.
    pub fn quirks(&self) -> Option<Quirks> {
        let quirks = Quirks {
            think_time: self.think_time.map_or(Duration::ZERO, Duration::from),
            closes_connections: self.keep_alive == Some(false),
            is_like_apache: self.like_apache == Some(true),
        };
        (quirks != Quirks::default()).then_some(quirks)
    }

    /// Applies the settings of TCP to a host, whose cables must exist.
    pub fn apply(&self, host: &Host) -> Result<(), HostError> {
        for (name, value) in &self.sysctls {
            host.sysctl(name, value)?;
        }
        self.initial_window.map_or(Ok(()), |segments| host.initial_window(segments))
    }

    /// A setting that no host accepts, if any.
    pub(super) fn complaint(&self) -> Option<String> {
        if self.initial_window.is_some_and(|segments| !(1..=1000).contains(&segments)) {
            return Some("`initial_window` must be 1 to 1000 segments".to_owned());
        }
        if self.think_time.is_some_and(|time| Duration::from(time) > MOST_THINK_TIME) {
            return Some(format!("`think_time` must be at most {}", Span(MOST_THINK_TIME)));
        }
        let wrong = |name: &&String| !name.starts_with("net.") || name.contains("..") || name.contains('/');
        let wrong = self.sysctls.keys().find(wrong);
        wrong.map(|name| format!("sysctl `{name}` does not belong to a network namespace; only `net.…` can be set"))
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.initial_window.map(|segments| format!("initial window {segments}"));
        let sysctls = self.sysctls.iter().map(|(name, value)| {
            let short = name.strip_prefix("net.ipv4.").unwrap_or(name);
            format!("{short} {value}")
        });
        let thinks = self.think_time.map(|time| format!("think time {time}"));
        let closes = (self.keep_alive == Some(false)).then(|| "no keep-alive".to_owned());
        let name = if self.like_apache == Some(true) { "embedded, like Apache" } else { "embedded" };
        let embedded = self.quirks().map(|_| name.to_owned());
        let parts = embedded.into_iter().chain(window).chain(sysctls).chain(thinks).chain(closes);
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}
