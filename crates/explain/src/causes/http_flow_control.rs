//! `http_flow_control`: an HTTP/2 flow-control window was closed.
//!
//! The sender had room in TCP, and went on when the receiver enlarged the window of a stream or of the connection (RFC 9113
//! §5.2, §6.9). The default window of 65,535 bytes allows that much per round trip. Without TLS, the frames are visible;
//! inside TLS, the evidence is a sender that stops after the same number of bytes again and again
//! ([`crate::infer::control_frames`]). Where windows stopped a sender repeatedly, they are also what it waits for
//! while TCP has room, and what keeps its flight the same for many round trips.
//!
//! Sources of the fixes: nginx's `ngx_http_v2_module` (default 64k); Apache's `mod_http2` (default 65,535 bytes); curl's
//! issues 1102, 11162 and pull requests 11167 (10 MiB), 14326.

use super::{Cause, Evidence, Fix, Rule, Situation, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule = Rule {
    cause: Cause::HttpFlowControl,
    avoidable: true,
    title: "HTTP/2 window full",
    switch: None,
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(context) = wait.end else { return None };
    let (flight, is_released) = (context.flight, context.writer.is_ack_clocked || context.released_by.is_some());
    let has_room = flight.is_steady || context.room_since.is_some();
    let has_full_window = flight.is_flow_controlled && has_room && is_released;
    let is_other = context.receive_window.is_limiting || context.writer.is_unprompted || context.writer.follows_peer;
    (context.flow_control_opened || has_full_window && !is_other).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let inferred = match evidence.properties.http2_window {
        Some(window) => {
            format!(" The frames cannot be read, but the sender stopped repeatedly after {window} bytes.")
        }
        None => String::new(),
    };
    format!(
        "The sender waited {} for the receiver to open the HTTP/2 flow-control window; each wait costs at least one RTT \
         ({}).{inferred}",
        plural(evidence.count.into(), "time"),
        ms(evidence.rtt)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new("Apache server (uploads)", "H2WindowSize 1048576", "memory per stream"),
        Fix::new("nginx server (uploads)", "http2_body_preread_size 1m;", "memory per stream"),
        Fix::new(
            "curl client (downloads)",
            "curl 8.1.1 or newer, without --limit-rate: a window of 10 MiB (8.1.0 has less)",
            "memory per stream",
        ),
        Fix::new("client software", "set SETTINGS_INITIAL_WINDOW_SIZE to twice rate × RTT", "memory per stream"),
    ]
}
