//! The phases of a transfer, as HAR files and WebPageTest name them: blocked, DNS, connect, TLS, send, wait and receive.
//!
//! They describe the same time as the causes, but by what a browser would show: when the response's first byte arrived, and
//! not why it took so long. Lookups and handshakes are those of the causes. The rest is divided by the first and last bytes
//! of the two messages, as they passed the capture point.

use serde::Serialize;

use crate::{
    causes::Cause,
    critical_path::{message_history::ObservedMessage, timeline::Timeline},
    side::PerSide,
};

/// The phases of a transfer, in nanoseconds. They add up to its duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    /// The connection was ready, but the client sent no request.
    pub(crate) blocked: u64,
    pub(crate) dns: u64,
    pub(crate) connect: u64,
    pub(crate) tls: u64,
    /// The request, from its first byte to its last.
    pub(crate) send: u64,
    /// From the request's last byte to the response's first.
    pub(crate) wait: u64,
    pub(crate) receive: u64,
}

/// Phases in seconds: `phases_s` of the JSON.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PhaseSeconds {
    blocked: f64,
    dns: f64,
    connect: f64,
    tls: f64,
    send: f64,
    wait: f64,
    receive: f64,
}

impl Phases {
    /// The phases of a transfer between two times, in nanoseconds since the epoch.
    pub(crate) fn of(timeline: &Timeline, messages: &PerSide<ObservedMessage>, start: u64, end: u64) -> Self {
        let (request, response) = (&messages.client, &messages.server);
        let responded = response.first.unwrap_or(end).clamp(start, end);
        let requested = request.first.unwrap_or(responded).clamp(start, responded);
        // A server may respond before it has the whole request.
        let sent = request.first.map_or(requested, |_| request.last).clamp(requested, responded);
        let mut phases = Self::default();
        phases.add(timeline, start, requested, |phases, cause| match cause {
            Cause::ClientThink | Cause::SenderIdle => &mut phases.blocked,
            _ => &mut phases.send,
        });
        phases.add(timeline, requested, sent, |phases, _| &mut phases.send);
        phases.add(timeline, sent, responded, |phases, _| &mut phases.wait);
        phases.add(timeline, responded, end, |phases, _| &mut phases.receive);
        phases
    }

    /// Adds the time between two times; what is neither lookup nor handshake to the phase that `rest` returns.
    fn add(&mut self, timeline: &Timeline, from: u64, to: u64, rest: fn(&mut Self, Cause) -> &mut u64) {
        for interval in timeline.between(from, to) {
            let phase = match interval.cause {
                Cause::NameLookup => &mut self.dns,
                Cause::Connect | Cause::ConnectRetry => &mut self.connect,
                Cause::Tls => &mut self.tls,
                cause => rest(self, cause),
            };
            *phase += interval.to - interval.from;
        }
    }

    /// In seconds.
    pub(crate) fn seconds(self) -> PhaseSeconds {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        PhaseSeconds {
            blocked: seconds(self.blocked),
            dns: seconds(self.dns),
            connect: seconds(self.connect),
            tls: seconds(self.tls),
            send: seconds(self.send),
            wait: seconds(self.wait),
            receive: seconds(self.receive),
        }
    }
}
