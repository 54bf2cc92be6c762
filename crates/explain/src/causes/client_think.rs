//! `client_think`: the client could have sent its next request, and had not yet.
//!
//! From when the last answer's last byte had arrived, or the connection was open, until the request's first byte left;
//! the time on the way is `propagation`.

use super::{Cause, Chunk, Evidence, Fix, Rule, Side, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ClientThink, avoidable: true, title: "the client thinking", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Turn { side: Side::Client, .. } | WaitEnd::Tls { .. }).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The client could have asked {} earlier: the answer before was there, or the connection open.",
        ms(evidence.total)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![Fix::new(
        "client software",
        "send requests that do not depend on each other at once: several connections, pipelining, HTTP/2",
        "more load on the server at a time",
    )]
}
