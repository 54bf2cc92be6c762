//! `nagle`: a small segment waited until all before it was acknowledged.
//!
//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4): what fills no segment is held while anything is unacknowledged.
//! Windows had room, the segment is small, and it went when the acknowledgement of everything came.
//!
//! Fixes: tcp(7); nginx's `ngx_http_core_module` (on unless told); Apache's `listen.c`; illumos' `tcp_tunables.c`
//! (`_naglim_def`, 4095 bytes unless told).

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::Nagle, avoidable: true, title: "Nagle's algorithm", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(data) = wait.end else { return None };
    let release = data.released?;
    (data.small && release.all && data.room.is_some() && !data.window).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The program wrote a message in pieces, and Nagle's algorithm held a small piece until what came before it was \
         acknowledged: {}, {} in all.",
        plural(evidence.count.into(), "time"),
        ms(evidence.total)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "sending software",
            "setsockopt(TCP_NODELAY), and write each message whole (writev, TCP_CORK)",
            "more packets if it goes on writing little by little",
        ),
        Fix::new("Apache or nginx server", "tcp_nodelay on (nginx); Apache sets it", ""),
        Fix::new("illumos sender", "ipadm set-prop -p _naglim_def=1 tcp", "more packets from every program"),
    ]
}
