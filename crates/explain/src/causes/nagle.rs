//! `nagle`: Nagle's algorithm held a small segment until everything before it was acknowledged.
//!
//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4) holds data that fills no segment while other data is unacknowledged; in
//! Minshall's variant (draft-minshall-nagle; Linux's `tcp_minshall_check`) only while another small segment is. Here the
//! segment is small, and it was sent at once when everything before it, or the small segment before it, was acknowledged. A
//! response can be held so by what the server had sent before, such as TLS session tickets.
//!
//! Sources of the fixes: tcp(7); nginx's `ngx_http_core_module` (on by default); Apache's `listen.c`; illumos's
//! `tcp_tunables.c` (`_naglim_def`, default 4095 bytes).

use super::{Cause, Evidence, Fix, Role, Rule, SendContext, Situation, System, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule = Rule {
    cause: Cause::Nagle,
    avoidable: true,
    title: "Nagle's algorithm",
    switch: Some("TCP_NODELAY"),
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    match wait.end {
        WaitEnd::Data(context) => is_held(&context).then_some((wait.from, wait.to)),
        WaitEnd::Turn { held: Some(since), .. } => Some((since.max(wait.from), wait.to)),
        _ => None,
    }
}

/// Whether the algorithm held the segment of this context.
pub(crate) fn is_held(context: &SendContext) -> bool {
    let Some(ack) = context.released_by else { return false };
    // Without a small segment before it, the windows must have had room.
    let is_released = context.writer.follows_small_ack || ack.acks_all && context.room_since.is_some();
    context.writer.sent_small_segment && is_released && !context.receive_window.is_limiting
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The program wrote a message in several pieces. Nagle's algorithm held a small piece until the data before it \
         was acknowledged: {}, {} in total.",
        plural(evidence.count.into(), "time"),
        ms(evidence.total)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "sending software",
            "setsockopt(TCP_NODELAY), and write each message in one call (writev, TCP_CORK)",
            "more packets if the program still writes in small pieces",
        ),
        Fix::new("Apache or nginx server", "nginx: tcp_nodelay on; Apache always sets TCP_NODELAY", ""),
        Fix::on(
            System::Solaris,
            Role::Sender,
            "on illumos: ipadm set-prop -p _naglim_def=1 tcp",
            "more packets from every program",
        ),
    ]
}
