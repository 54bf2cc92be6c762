//! Whether there is still somebody at the other end.
//!
//! A link that has gone dead says nothing. So when bytes are due and none have moved for a third of the stall's bound,
//! a PING asks (RFC 9113 §6.7), and another third is the time to answer. So a dead link is noticed as such before its
//! streams are given up one by one and the next request is sent on it. Bytes that the network still takes count as
//! movement: a PING may stand behind much that is on its way up a slow link.

use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

use h2::{Ping, PingPong};
use tokio::time::Instant;

use super::frame_tap::FrameTap;
use crate::streams::stall_timer::Alarm;

/// Watches over a connection while any of its exchanges is under way.
#[derive(Debug)]
pub(super) struct Liveness {
    ping: Option<PingPong>,
    tap: FrameTap,
    third: Duration,
    /// When the last PING was sent, if nothing came since.
    asked: Option<Instant>,
    alarm: Alarm,
}

impl Liveness {
    pub(super) fn new(ping: Option<PingPong>, tap: FrameTap, stall: Duration) -> Self {
        Self { ping, tap, third: stall / 3, asked: None, alarm: Alarm::new() }
    }

    /// How long nothing has come when the connection is given up.
    pub(super) fn bound(&self) -> Duration {
        self.third * 2
    }

    /// Ready when the other end did not answer.
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
            // The answer to the one before makes way for the next; if there was none, that one still asks.
            let _ = ping.poll_pong(context);
            let _ = ping.send_ping(Ping::opaque());
        }
    }
}
