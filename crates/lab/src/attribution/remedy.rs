//! Advice for a cause, in a few words. `haul explain` of the cell's capture gives the details and the predicted gain.

use std::collections::BTreeMap;

use super::{IDLE, MACHINE};

/// The remedy of the largest of these causes.
pub(crate) fn of(seconds: &BTreeMap<String, f64>) -> Option<&'static str> {
    let (largest, _) = seconds.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    remedy(largest)
}

/// The remedy of a cause; none for an unknown name.
pub(crate) fn remedy(cause: &str) -> Option<&'static str> {
    Some(match cause {
        IDLE => "the client's own work between requests: nothing was in flight during that time",
        MACHINE => "a quiet machine: client, server or emulator waited for a processor",
        "name_lookup" => "look the name up once and keep the answer",
        "connect_retry" => "find out why connection attempts are lost or ignored",
        "connect" => "keep connections open and reuse them; TCP Fast Open",
        "tls" => "keep connections open and reuse them; TLS 1.3 and session tickets",
        "expect_continue" => "no `Expect: 100-continue` (curl: `-H Expect:`), or a server that answers it",
        "propagation" => {
            "fewer round trips, or several at once: no locks, pipelining or HTTP/2, more requests in flight"
        }
        "queueing" => "short queues at the bottleneck (CAKE, FQ-CoDel), or less in flight",
        "shared_link" => "fewer transfers at the same time, or a faster link",
        "path_rate" => "fewer bytes or a faster link: this one is saturated",
        "retransmission_timeout" | "fast_recovery" => "less loss on the path; SACK and RACK-TLP loss recovery",
        "slow_start" => "a larger initial window; connections that stay open and warm",
        "congestion_window" => "another congestion control, such as BBR; less loss",
        "receive_window" | "receiver_stalled" => "larger receive buffers, and a receiver that reads at once",
        "http_flow_control" => "larger HTTP/2 flow-control windows, for the stream and the connection",
        "delayed_ack" => "writes that fill segments, and a receiver that acknowledges at once",
        "nagle" => "TCP_NODELAY, and fewer small writes",
        "pacing" => "a higher pacing rate or shaper rate in the sender's host, or a faster interface",
        "send_buffer" => "a larger send buffer, and writes that do not wait for acknowledgements",
        "server_think" => "the server's own work: its disk, its handlers, its configuration",
        "sender_idle" | "client_think" => "the sending program, which had nothing ready to send",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_is_for_the_largest_cause() {
        let seconds = [("connect", 0.1), ("propagation", 3.0), ("unheard_of", 0.5)];
        let seconds = seconds.map(|(cause, seconds)| (cause.to_owned(), seconds)).into();
        assert_eq!(of(&seconds), remedy("propagation"));
        assert_eq!(remedy("unheard_of"), None);
        let known = explain::Cause::all().filter(|cause| remedy(cause.name()).is_some());
        assert!(known.count() == explain::Cause::all().count(), "a cause goes by another name than explain's");
    }
}
