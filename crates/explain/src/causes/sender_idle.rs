//! `sender_idle`: the sending program had nothing to send in the middle of a message.
//!
//! The windows had room, there was no loss to repair, and the sender went on by itself, or after the other side had sent
//! data. Zhang et al. (T-RAT, SIGCOMM 2002) and Siekkinen call it the application limit.

use super::{Cause, Evidence, Fix, Rule, Side, Situation, Wait, WaitEnd, ms};
use crate::read::Protocol;

pub(super) const RULE: Rule =
    Rule { cause: Cause::SenderIdle, avoidable: true, title: "sender idle", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(context) = wait.end else { return None };
    let writer = context.writer;
    let is_application_limited =
        writer.is_unprompted || (writer.follows_peer || !writer.is_ack_clocked) && context.room_since.is_some();
    if context.receive_window.is_limiting || !is_application_limited {
        return None;
    }
    // With data at hand, the sender would have sent it as soon as there was room: it was idle the whole time.
    Some((wait.from, wait.to))
}

/// How long curl waits for `100 Continue` (curl(1): `--expect100-timeout`), in nanoseconds, and what a busy machine adds.
const CURL_WAIT: std::ops::Range<u64> = 990_000_000..1_100_000_000;

fn why(evidence: &Evidence) -> String {
    let is_tls_upload = evidence.situation.protocol == Protocol::Tls && evidence.situation.sender == Side::Client;
    let hint = if is_tls_upload && CURL_WAIT.contains(&evidence.longest) {
        " If the client is curl: it waits 1 s for `100 Continue` before a large upload; `curl -H Expect:` does not."
    } else {
        ""
    };
    format!(
        "In the middle of a message, the sending program wrote nothing for {} in total, at most {} at a time. The network \
         was not the limit: the program waited for something else, such as a disk, another server or a lock.{hint}",
        ms(evidence.total),
        ms(evidence.longest)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![Fix::new(
        "sending software",
        "trace it at these times: strace -T -p PID, perf trace, Process Monitor, truss -D",
        "tracing slows the program down",
    )]
}
