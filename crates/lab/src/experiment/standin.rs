//! The network description until `link` has its own.

use link::units::{Rate, Span};
use serde::{Deserialize, Serialize};

/// What a cable does to packets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The round-trip time it adds, half of it each way.
    #[serde(default)]
    pub rtt: Span,
    /// The rate of each direction; none is no limit.
    pub rate: Option<Rate>,
}
