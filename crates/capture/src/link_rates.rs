//! The rates of an emulated link, in the captures that its emulator writes.
//!
//! No reader can infer that a link has no limit: packets always have some spacing, that of programs and machines. So the
//! emulator says it, in a comment on the interface (`opt_comment`), which other programs show and ignore. pcapng's own
//! `if_txspeed` and `if_rxspeed` are those of the network card, which is rarely the bottleneck, and cannot say "no limit".

use std::fmt;

/// The first word of the comment.
const SCHEMA: &str = "longhaul.link/1";

/// The rates of a link in bits per second, counting whole IP packets; none where it has no limit. They are fixed for as
/// long as the capture lasts, and apply to all of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRates {
    /// Of the packets that left the end at which they were captured.
    pub outbound: Option<u64>,
    /// Of those that arrived there.
    pub inbound: Option<u64>,
}

impl fmt::Display for LinkRates {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |rate: Option<u64>| rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
        write!(to, "{SCHEMA} outbound={} inbound={}", text(self.outbound), text(self.inbound))
    }
}

impl LinkRates {
    /// Reads a comment; none if it is another one.
    pub(crate) fn of_comment(comment: &str) -> Option<Self> {
        let rates = comment.strip_prefix(SCHEMA)?.strip_prefix(" outbound=")?;
        let (outbound, inbound) = rates.split_once(" inbound=")?;
        let rate = |text: &str| if text == "none" { Some(None) } else { text.parse().ok().map(Some) };
        Some(Self { outbound: rate(outbound)?, inbound: rate(inbound)? })
    }
}

#[cfg(test)]
mod tests {
    use super::LinkRates;

    #[test]
    fn comment_is_read_as_it_was_written() {
        let rates = LinkRates { outbound: Some(8_000_000), inbound: None };
        assert_eq!(rates.to_string(), "longhaul.link/1 outbound=8000000 inbound=none");
        assert_eq!(LinkRates::of_comment(&rates.to_string()), Some(rates));
        for other in ["", "a comment", "longhaul.link/2 outbound=1 inbound=1", "longhaul.link/1 outbound=x inbound=1"] {
            assert_eq!(LinkRates::of_comment(other), None, "{other}");
        }
    }
}
