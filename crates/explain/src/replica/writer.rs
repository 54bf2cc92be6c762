//! The sending program: when it writes how much.
//!
//! It does one write at a time, and TCP may send between two: that is why a program that writes 2072 bytes at once
//! is seen to send 1460 and 612, although its next write is only microseconds behind.

use std::collections::VecDeque;

use super::{
    Model, Pause, Since,
    clock::{Nanos, nanos},
};

#[derive(Debug)]
pub(super) struct Writer {
    total: u64,
    chunk: u64,
    in_flight: u64,
    buffer: u64,
    low_water: u64,
    pauses: VecDeque<Pause>,
    /// What TCP has taken.
    written: u64,
    /// The program waits for room in the buffer.
    blocked: bool,
    /// The end of a pause that has begun.
    until: Option<Nanos>,
}

impl Writer {
    pub(super) fn new(model: &Model) -> Self {
        let (total, writes) = (model.bytes.0, &model.writes);
        let buffer = writes.send_buffer.map_or(u64::MAX, |buffer| buffer.0);
        let mut pauses = writes.pauses.clone();
        pauses.sort_by_key(|pause| pause.at);
        Self {
            total,
            chunk: writes.chunk.map_or(total, |chunk| chunk.0).max(1),
            in_flight: writes.in_flight.map_or(u64::MAX, u64::from),
            buffer,
            low_water: writes.low_water.0.min(buffer),
            pauses: pauses.into(),
            written: 0,
            blocked: false,
            until: None,
        }
    }

    /// Writes once if it can; says up to where TCP has been given bytes, if that changed.
    pub(super) fn write(&mut self, acknowledged: u64, sent: u64, now: Nanos) -> Option<u64> {
        if self.written == self.total || self.until.is_some_and(|until| now < until) {
            return None;
        }
        let begins = self.written.is_multiple_of(self.chunk);
        if begins && self.written / self.chunk - acknowledged / self.chunk >= self.in_flight {
            return None;
        }
        let room = self.buffer.saturating_sub(self.written - acknowledged);
        if room == 0 || (self.blocked && room < self.low_water) {
            self.blocked = true;
            return None;
        }
        self.blocked = false;
        if self.until.take().is_none()
            && let Some(pause) = self.pauses.front().filter(|pause| pause.at <= self.written)
        {
            let begun = match pause.since {
                Since::Sent => sent == self.written,
                Since::Acknowledged => acknowledged == self.written,
            };
            if !begun {
                return None;
            }
            self.until = Some(now.saturating_add(nanos(pause.time)));
            self.pauses.pop_front();
            return self.write(acknowledged, sent, now);
        }
        let pause = self.pauses.front().map_or(u64::MAX, |pause| pause.at.max(self.written + 1));
        let end = self.written - self.written % self.chunk + self.chunk;
        self.written = end.min(self.total).min(pause).min(self.written.saturating_add(room));
        Some(self.written)
    }

    /// When the program goes on by itself.
    pub(super) fn wake(&self) -> Option<Nanos> {
        self.until
    }

    /// Whether TCP has been given all.
    pub(super) fn is_done(&self) -> bool {
        self.written == self.total
    }
}
