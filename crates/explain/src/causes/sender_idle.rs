//! `sender_idle`: the sending program had nothing to send in the midst of a message.
//!
//! The windows had room, nothing was to be repaired, and it went on at a time of its own, or when the other side had
//! said something: T-RAT's and Siekkinen's application limit.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::SenderIdle, avoidable: true, title: "a sender with nothing to send", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(data) = wait.end else { return None };
    let own_time = data.idle || (data.answers || !data.answers_acks) && data.room.is_some();
    if data.window || !own_time {
        return None;
    }
    // Had it had anything to send before there was room, it would have sent it then: it was idle all the time.
    Some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "In the midst of a message the sending program wrote nothing for {} in all, the longest time {}. It waited for \
         something itself: a disk, another server, a lock.",
        ms(evidence.total),
        ms(evidence.longest)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![Fix::new(
        "sending software",
        "look at what it does in these times: strace -T -p PID, perf trace, Process Monitor, truss -D",
        "tracing slows a program down",
    )]
}
