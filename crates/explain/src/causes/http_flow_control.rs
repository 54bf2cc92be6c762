//! `http_flow_control`: HTTP/2's own window was closed.
//!
//! The sender had room in TCP, and went on when the receiver gave it room in a stream or the connection (RFC 9113 §5.2,
//! §6.9). The default of 65,535 bytes is one such window for each round trip. Its frames say so in the clear; inside
//! TLS it is told only by a sender that stops after the same number of bytes again and again ([`crate::infer::control_frames`]).
//!
//! Fixes: nginx's `ngx_http_v2_module` (64k unless told); Apache's `mod_http2` (65,535 bytes unless told); curl's
//! issues 1102, 11162 and pull requests 11167 (10 MiB), 14326.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::HttpFlowControl, avoidable: true, title: "HTTP/2's own window", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Data(data) if data.flow_control).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    let shown = match evidence.facts.stops_at {
        Some(window) => format!(" TLS hides its frames, but it stopped after {window} bytes again and again."),
        None => String::new(),
    };
    format!(
        "The sender waited {} for the receiver to open HTTP/2's window, a round trip of {} each time.{shown}",
        plural(evidence.count.into(), "time"),
        ms(evidence.rtt)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new("Apache server (uploads)", "H2WindowSize 1048576", "memory for each stream"),
        Fix::new("nginx server (uploads)", "http2_body_preread_size 1m;", "memory for each stream"),
        Fix::new(
            "curl client (downloads)",
            "curl 8.1.1 or newer, without --limit-rate: a window of 10 MiB (8.1.0 has less)",
            "memory for each stream",
        ),
        Fix::new("client software", "SETTINGS_INITIAL_WINDOW_SIZE of twice rate × RTT", "memory for each stream"),
    ]
}
