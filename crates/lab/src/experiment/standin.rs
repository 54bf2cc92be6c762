//! The network description until `link` has its own.

use std::fmt;

use link::units::{Rate, Span, UnitError};
use serde::{Deserialize, Serialize};

/// What a cable does to packets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The round-trip time it adds, half of it each way.
    #[serde(default)]
    pub rtt: Span,
    /// How fast the link is; none is no limit.
    pub rate: Option<RateSpec>,
}

/// The rates of both directions: `100mbit` for both, or `20mbit/100mbit` for up and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RateSpec {
    /// From the client to the server.
    pub up: Rate,
    /// From the server to the client.
    pub down: Rate,
}

impl TryFrom<String> for RateSpec {
    type Error = UnitError;
    fn try_from(text: String) -> Result<Self, UnitError> {
        let (up, down) = text.split_once('/').unwrap_or((&text, &text));
        Ok(Self { up: up.parse()?, down: down.parse()? })
    }
}

impl From<RateSpec> for String {
    fn from(rate: RateSpec) -> Self {
        rate.to_string()
    }
}

impl fmt::Display for RateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.up == self.down { self.up.fmt(f) } else { write!(f, "{}/{}", self.up, self.down) }
    }
}
