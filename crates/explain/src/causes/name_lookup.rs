//! `name_lookup`: the client waited for a DNS answer.
//!
//! From the first query for the name to the answer with the address that the client then connected to (RFC 1035 §4.1). A
//! repeated query counts from its first copy, even if the capture contains an answer to that: the answer was lost later.
//!
//! Sources of the fixes: resolvectl(1); Microsoft's reference of the module `DnsClient`; scutil(8) and networksetup(8).

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::NameLookup, avoidable: true, title: "name lookups", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Lookup).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!("The client waited {} for the DNS server's answer before it could connect.", ms(evidence.total))
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::on(
            System::Linux,
            Role::Client,
            "resolvectl statistics; systemctl enable --now systemd-resolved",
            "answers are cached for their TTL, so that a changed address is seen later",
        ),
        Fix::on(
            System::Windows,
            Role::Client,
            "Get-DnsClientCache; Set-DnsClientServerAddress -InterfaceAlias Ethernet -ServerAddresses NEARER",
            "all programs use that server",
        ),
        Fix::on(
            System::Apple,
            Role::Client,
            "scutil --dns; networksetup -setdnsservers Wi-Fi NEARER",
            "all programs use that server",
        ),
    ]
}
