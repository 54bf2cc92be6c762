//! `pacing`: the sender's own host spaced its packets.
//!
//! Packets leave evenly, by a timer, although both windows have room and the path carries more. The evidence is described in
//! [`crate::infer::pacing`]. A sender may pace below the rate that the window allows because of a rate set on its socket, a
//! shaper or a slow interface. BBR and fq pace as well, but follow the path: that is no limit, and `path_rate` goes first.
//!
//! Sources of the fixes: socket(7) and Linux's `tcp_internal_pacing` (`SO_MAX_PACING_RATE`); tc-fq(8) (`maxrate`); tc-tbf(8);
//! ethtool(8); Microsoft's reference of `New-NetQosPolicy` (`-ThrottleRateActionBitsPerSecond`).

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, bytes, ms, rate_text};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Pacing, avoidable: true, title: "sender pacing", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(context) = wait.end else { return None };
    let is_limit = context.writer.is_paced && context.recovery.is_none() && !context.receive_window.is_limiting;
    is_limit.then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let Some(pacing) = &evidence.properties.pacing else { return String::new() };
    let Situation { sender, systems, .. } = evidence.situation;
    let names =
        |names: &'static str| if systems[sender].is_none_or(|system| system == System::Linux) { names } else { "" };
    let what = if pacing.is_held_in_host {
        format!(
            "TCP had written them earlier, so they waited below it: in a shaper{}, or for a slow interface.",
            names(" (tc)")
        )
    } else {
        format!(
            "That is a rate set for the socket{}, a shaper, or a program that writes full segments at this rate.",
            names(" (SO_MAX_PACING_RATE)")
        )
    };
    let (path, unknown) = match evidence.properties.rate {
        Some(rate) => (format!(", and the path had carried {}", rate_text(rate)), ""),
        None => (String::new(), " How fast the path is does not show, so nothing is predicted."),
    };
    format!(
        "For {}, packets left the sender's host evenly, at {}, by a timer and not when acknowledgements arrived. No window \
         was the limit, with at most {} in flight{path}. {what}{unknown}",
        ms(evidence.total),
        rate_text(pacing.rate),
        bytes(evidence.max_in_flight),
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "sending software",
            "raise or remove its rate limit; on Linux, setsockopt(SO_MAX_PACING_RATE) or iperf3 --fq-rate may set it",
            "bursts that a short queue may drop",
        ),
        Fix::on(
            System::Linux,
            Role::Sender,
            "find the shaper with tc -s qdisc show; raise its rate (tbf, htb) or maxrate (fq)",
            "a shaper may keep a queue out of the next hop",
        ),
        Fix::on(System::Windows, Role::Sender, "Get-NetQosPolicy; Remove-NetQosPolicy one with a ThrottleRate", ""),
        Fix::new(
            "the sender's network card",
            "use a faster interface, or a faster link mode (Linux: ethtool INTERFACE)",
            "",
        ),
    ]
}
