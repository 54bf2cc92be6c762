//! `queueing`: packets waited in a queue on the path.
//!
//! What a round trip takes longer than the shortest one between the same hosts, while nothing of this transfer kept the
//! path busy. Other connections measure it at the same time: handshakes, and acknowledgements of bulk data, which TCP
//! answers at once ([`crate::surroundings`]).
//!
//! Sources of the fixes: Gettys and Nichols, "Bufferbloat", CACM 2012; RFC 8290 (FQ-CoDel); tc-cake(8); Linux's
//! `ip-sysctl` (`tcp_notsent_lowat`).

use super::{Cause, Evidence, Fix, Rule, Situation, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Queueing, avoidable: true, title: "queues on the path", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    if wait.queued == 0 {
        return None;
    }
    let begin = match wait.end {
        // The rest is the round trip, and what the ends took.
        WaitEnd::Connect => wait.to.saturating_sub(wait.queued),
        WaitEnd::Turn { travel, .. } | WaitEnd::Tls { travel, .. } => wait.busy_until + travel,
        // The queue was its own as much as others'.
        WaitEnd::Data(_) if wait.is_shared => return None,
        // The receiver, not the path, delayed an acknowledgement.
        WaitEnd::Data(context) if context.released_by.is_some_and(|ack| ack.held > 0) => return None,
        WaitEnd::Data(context) if !context.flight.fills_path && context.recovery.is_none() => {
            wait.busy_until.max(wait.to.saturating_sub(wait.queued))
        }
        WaitEnd::Arrival => wait.busy_until.max(wait.to.saturating_sub(wait.queued)),
        _ => return None,
    };
    Some((begin.max(wait.from), (begin + wait.queued).min(wait.to)))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "Packets waited {} in queues, beyond the path's round trip of {}. Something else filled the link, and its queue is \
         long.",
        ms(evidence.total),
        ms(evidence.rtt)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "router at the bottleneck",
            "short queues: tc qdisc replace dev IF root cake bandwidth RATE; or fq_codel",
            "RATE a little below the link's, or the queue stays in the modem",
        ),
        Fix::new(
            "the bulk sender",
            "pace it or keep less in flight: tcp_congestion_control=bbr with default_qdisc=fq, or a rate limit",
            "its own transfer may take longer",
        ),
        Fix::new(
            "the bulk receiver",
            "a smaller window for background work: SO_RCVBUF, or --limit-rate of the program",
            "slower on long paths",
        ),
    ]
}
