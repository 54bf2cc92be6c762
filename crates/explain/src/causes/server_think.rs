//! `server_think`: the server had the request and had not begun to answer.
//!
//! From when the request's last byte had arrived until the response's first byte left, seen from wherever the capture
//! was taken: the time on the way is `propagation`.
//!
//! Fixes: Apache's `mod_log_config` (`%D`, in microseconds); nginx's `ngx_http_log_module` and
//! `ngx_http_upstream_module`.

use super::{Cause, Chunk, Evidence, Fix, Rule, Side, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ServerThink, avoidable: true, title: "the server thinking", claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Turn { side: Side::Server, .. }).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "The server had the whole request, and took {} before it sent the first byte of its answer.",
        ms(evidence.total)
    )
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "Apache server",
            "CustomLog logs/times.log \"%r %s %D\" (microseconds); mod_status",
            "a line for each request",
        ),
        Fix::new(
            "nginx server",
            "log_format times '$request $status $request_time $upstream_response_time'; access_log logs/times.log times;",
            "a line for each request",
        ),
        Fix::new("server software", "look at what it does for this request: a profiler, the log of its database", ""),
    ]
}
