//! `shared_link`: the link was full with the packets of other connections.
//!
//! Together with the others of its client, the connection filled the link while its sender waited
//! ([`crate::infer::shared_link`]). The time of its own bytes is `path_rate`; the rest of the wait went to the others'.
//!
//! Sources of the fixes: tc-cake(8); the Bufferbloat project; RFC 6817 (LEDBAT).

use super::{Cause, Evidence, Fix, Rule, Situation, Wait, WaitEnd, rate_text};

pub(super) const RULE: Rule =
    Rule { cause: Cause::SharedLink, avoidable: true, title: "link shared", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let is_waiting = matches!(wait.end, WaitEnd::Data(context) if context.receive_window.closed.is_none())
        || matches!(wait.end, WaitEnd::Retransmission(_));
    (wait.is_shared && is_waiting).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let link = &evidence.properties.shared_link;
    let (rate, others) = link.as_ref().map_or((0.0, 0.0), |link| (link.rate, link.others));
    format!(
        "Several connections filled one link together, at {} in total; {:.0} % of that belonged to the others. Neither \
         window nor sender was the limit.",
        rate_text(rate),
        100.0 * others
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "the programs",
            "run bulk transfers at another time, or limit them: --bwlimit of rclone and haul, --limit-rate of curl",
            "they take longer",
        ),
        Fix::new(
            "router at the bottleneck",
            "share by host and flow: tc qdisc replace dev IF root cake bandwidth RATE",
            "RATE a little below the link's, or the queue stays in the modem",
        ),
    ]
}
