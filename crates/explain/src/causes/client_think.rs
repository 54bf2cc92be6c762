//! `client_think`: the client could have sent its next request, and had not yet.
//!
//! From the arrival of the previous response's last byte, or the end of the handshake, until the request's first byte was
//! sent. The time on the path is `propagation`.

use super::{Cause, Evidence, Fix, Rule, Side, Situation, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ClientThink, avoidable: true, title: "client at work", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Turn { side: Side::Client, .. } | WaitEnd::Tls { .. }).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The client sent its next request {} after it could have: the connection was ready, and the previous response \
         had arrived.",
        ms(evidence.total)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![Fix::new(
        "client software",
        "send independent requests concurrently: several connections, pipelining, HTTP/2",
        "higher peak load on the server",
    )]
}
