//! `expect_continue`: the client held a body back until the server's `100 Continue`.
//!
//! A client that sends `Expect: 100-continue` waits before it sends the body, so that the server can refuse the request
//! first (RFC 9110 §10.1.1). curl does so for large bodies. That costs a round trip; or the client's own
//! time limit, 1 s for curl, if the server never answers.
//!
//! From the last byte of the head until the first of the body, as either passed the capture point. Where they can be
//! read, header field and interim response show it; inside TLS, the sizes of the records
//! ([`crate::infer::expect_continue`]).
//!
//! Sources of the fixes: curl(1); Microsoft's reference of `HttpRequestHeaders.ExpectContinue`; the reference of Apache
//! HttpClient's `RequestConfig`.

use super::{Cause, Evidence, Fix, Rule, Situation, Wait, WaitEnd, ms};
use crate::read::Protocol;

pub(super) const RULE: Rule = Rule {
    cause: Cause::ExpectContinue,
    avoidable: true,
    title: "waiting for 100 Continue",
    switch: Some("curl -H Expect:"),
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Continue).then_some((wait.from, wait.to))
}

/// Whether the server sent the `100 Continue` for which the client waited.
fn got_continue(situation: &Situation) -> bool {
    situation.held_body.is_some_and(|held| held.got_continue)
}

fn why(evidence: &Evidence) -> String {
    let waited = ms(evidence.total);
    let seen = match (evidence.situation.protocol == Protocol::Tls, got_continue(&evidence.situation)) {
        (true, _) => format!(
            "The client sent the head of its request and held the body back for {waited}, until a TLS record with the size \
             of `100 Continue` arrived."
        ),
        (false, true) => format!(
            "The client sent `Expect: 100-continue`, and held the body back for {waited}, until the server's \
             `100 Continue` arrived."
        ),
        (false, false) => {
            return format!(
                "The client sent `Expect: 100-continue`, and held the body back for {waited}. No `100 Continue` came, so it \
                 waited until its own time limit (RFC 9110 §10.1.1)."
            );
        }
    };
    format!("{seen} A round trip takes {} (RFC 9110 §10.1.1).", ms(evidence.rtt))
}

/// What a client gives up that does not wait.
const LATE_REFUSAL: &str = "a server that refuses the upload does so after the body was sent";

fn fixes(situation: &Situation) -> Vec<Fix> {
    let mut fixes = vec![Fix::new("curl client", "curl -H Expect: …, which sends the body at once", LATE_REFUSAL)];
    if !got_continue(situation) {
        fixes.push(Fix::new("curl client", "curl --expect100-timeout 0.1 …, which waits for less than 1 s", ""));
    }
    fixes.extend([
        Fix::new(".NET client", "httpClient.DefaultRequestHeaders.ExpectContinue = false", LATE_REFUSAL),
        Fix::new("Apache HttpClient (Java)", "RequestConfig.custom().setExpectContinueEnabled(false)", LATE_REFUSAL),
    ]);
    fixes
}
