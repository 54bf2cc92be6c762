//! `server_think`: the server had the request and had not begun to respond.
//!
//! From the arrival of the request's last byte until the response's first byte was sent, for any vantage point. The time on
//! the path is `propagation`.
//!
//! Sources of the fixes: Apache's `mod_log_config` (`%D`, in microseconds); nginx's `ngx_http_log_module` and
//! `ngx_http_upstream_module`.

use super::{Cause, Evidence, Fix, Rule, Side, Situation, Wait, WaitEnd, ms};

pub(super) const RULE: Rule =
    Rule { cause: Cause::ServerThink, avoidable: true, title: "server at work", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    matches!(wait.end, WaitEnd::Turn { side: Side::Server, .. }).then_some((wait.from, wait.to))
}

fn why(evidence: &Evidence) -> String {
    format!(
        "After the whole request had arrived, the server took {} to send the first byte of its response.",
        ms(evidence.total)
    )
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "Apache server",
            "CustomLog logs/times.log \"%r %s %D\" (microseconds); mod_status",
            "one log line per request",
        ),
        Fix::new(
            "nginx server",
            "log_format times '$request $status $request_time $upstream_response_time'; access_log logs/times.log times;",
            "one log line per request",
        ),
        Fix::new("server software", "profile this request; check the database's slow query log", ""),
    ]
}
