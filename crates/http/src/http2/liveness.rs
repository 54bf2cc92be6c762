//! Detecting a dead connection.
//!
//! A dead link is silent. So when data is due and no byte has moved for a third of the stall timeout, a PING is sent
//! (RFC 9113 §6.7), and must be answered within another third. So a dead link is detected before its streams time out
//! one by one and the next request is sent on it. Written bytes count as progress too: a PING may wait behind much data
//! on a slow link.

use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

use h2::{Ping, PingPong};
use tokio::time::Instant;

use super::frame_tap::FrameTap;
use crate::streams::stall_timer::Alarm;

/// Watches a connection while any exchange is in flight.
#[derive(Debug)]
pub(super) struct Liveness {
    ping: Option<PingPong>,
    tap: FrameTap,
    third: Duration,
    /// When the last PING was sent, if nothing was received since.
    asked: Option<Instant>,
    alarm: Alarm,
}

impl Liveness {
    pub(super) fn new(ping: Option<PingPong>, tap: FrameTap, stall: Duration) -> Self {
        Self { ping, tap, third: stall / 3, asked: None, alarm: Alarm::new() }
    }

    /// The silence after which the connection is aborted.
    pub(super) fn bound(&self) -> Duration {
        self.third * 2
    }

    /// Ready when a PING was not answered in time.
    pub(super) fn poll_dead(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let (read, written) = self.tap.with(|observed| (observed.read, observed.written));
            if let Some(asked) = self.asked.filter(|asked| *asked > read) {
                return self.alarm.poll_at(asked.max(written) + self.third, context);
            }
            ready!(self.alarm.poll_at(read.max(written) + self.third, context));
            self.ask(context);
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        self.asked = Some(Instant::now());
        if let Some(ping) = &mut self.ping {
            // Takes the previous PONG, if it came; otherwise the previous PING is still pending.
            let _ = ping.poll_pong(context);
            let _ = ping.send_ping(Ping::opaque());
        }
    }
}
