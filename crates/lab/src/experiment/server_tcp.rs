//! The TCP settings of a network's server, which turn today's kernel into a server of 2011.
//!
//! The sender decides how fast a response arrives, but the parameters of a link do not include the sender. So an
//! experiment sets the server's TCP beside the network: the name of a network stands for the link and the machine at
//! its end.

use std::{collections::BTreeMap, fmt};

use link::host::{Host, HostError};
use serde::{Deserialize, Serialize};

/// The settings of a server's host that differ from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stack {
    /// The initial window in segments: `initcwnd` of its routes; 10 by default (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Its sysctls, such as `net.ipv4.tcp_slow_start_after_idle`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

impl Stack {
    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the settings to a host, whose cables must exist.
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
        f.write_str(&window.into_iter().chain(sysctls).collect::<Vec<_>>().join(", "))
    }
}
