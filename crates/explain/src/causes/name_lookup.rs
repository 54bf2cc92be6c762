//! `name_lookup`: the name server's answer was waited for.
//!
//! From the first question for the name to the answer with the address that the client then connected to (RFC 1035
//! §4.1). A question that was asked again counts from its first time, though an answer to it passed before: it was lost
//! further on.
//!
//! Fixes: resolvectl(1); Microsoft's reference of the module `DnsClient`; scutil(8) and networksetup(8).

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::NameLookup, avoidable: true, title: "waiting for the name server", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Lookup).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "Before it could connect, the client asked a name server for the address, and waited {} for the answer.",
        ms(evidence.total)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Linux client",
            "resolvectl statistics; systemctl enable --now systemd-resolved",
            "answers are kept for their TTL: a changed address is seen later",
        ),
        Fix::new(
            "Windows client",
            "Get-DnsClientCache; Set-DnsClientServerAddress -InterfaceAlias Ethernet -ServerAddresses NEARER",
            "all programs ask the nearer server",
        ),
        Fix::new(
            "macOS client",
            "scutil --dns; networksetup -setdnsservers Wi-Fi NEARER",
            "all programs ask the nearer server",
        ),
    ]
}
