//! `nagle`: Nagle's algorithm held a small segment until everything before it was acknowledged.
//!
//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4) holds data that fills no segment while other data is unacknowledged. Here
//! the windows had room, the segment is small, and it was sent when everything was acknowledged.
//!
//! Sources of the fixes: tcp(7); nginx's `ngx_http_core_module` (on by default); Apache's `listen.c`; illumos's
//! `tcp_tunables.c` (`_naglim_def`, default 4095 bytes).

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Nagle, avoidable: true, title: "Nagle's algorithm", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(context) = wait.end else { return None };
    let ack = context.released_by?;
    let is_held = context.writer.sent_small_segment
        && ack.acks_all
        && context.room_since.is_some()
        && !context.receive_window.is_limiting;
    is_held.then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The program wrote a message in several pieces. Nagle's algorithm held a small piece until the data before it \
         was acknowledged: {}, {} in total.",
        plural(evidence.count.into(), "time"),
        ms(evidence.total)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "sending software",
            "setsockopt(TCP_NODELAY), and write each message in one call (writev, TCP_CORK)",
            "more packets if the program still writes in small pieces",
        ),
        Fix::new("Apache or nginx server", "nginx: tcp_nodelay on; Apache always sets TCP_NODELAY", ""),
        Fix::new("illumos sender", "ipadm set-prop -p _naglim_def=1 tcp", "more packets from every program"),
    ]
}
