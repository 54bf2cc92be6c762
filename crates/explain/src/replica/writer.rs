//! The sending program: when it writes how much.
//!
//! It makes one write at a time, and TCP may send between two writes: that is why a program that writes 2072 bytes at a
//! time sends segments of 1460 and 612 bytes, although its next write follows within microseconds.

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
    /// The end of the data that TCP has accepted.
    written: u64,
    /// The program waits for room in the buffer.
    is_blocked: bool,
    /// When the current pause ends.
    paused_until: Option<Nanos>,
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
            is_blocked: false,
            paused_until: None,
        }
    }

    /// Makes one write if possible; returns the new end of the written data.
    pub(super) fn write(&mut self, snd_una: u64, snd_nxt: u64, now: Nanos) -> Option<u64> {
        if self.written == self.total || self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        let begins_chunk = self.written.is_multiple_of(self.chunk);
        if begins_chunk && self.written / self.chunk - snd_una / self.chunk >= self.in_flight {
            return None;
        }
        let room = self.buffer.saturating_sub(self.written - snd_una);
        if room == 0 || (self.is_blocked && room < self.low_water) {
            self.is_blocked = true;
            return None;
        }
        self.is_blocked = false;
        if self.paused_until.take().is_none()
            && let Some(pause) = self.pauses.front().filter(|pause| pause.at <= self.written)
        {
            let has_begun = match pause.since {
                Since::Sent => snd_nxt == self.written,
                Since::Acknowledged => snd_una == self.written,
            };
            if !has_begun {
                return None;
            }
            self.paused_until = Some(now.saturating_add(nanos(pause.time)));
            self.pauses.pop_front();
            return self.write(snd_una, snd_nxt, now);
        }
        let pause = self.pauses.front().map_or(u64::MAX, |pause| pause.at.max(self.written + 1));
        let end = self.written - self.written % self.chunk + self.chunk;
        self.written = end.min(self.total).min(pause).min(self.written.saturating_add(room));
        Some(self.written)
    }

    /// When the program continues by itself.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.paused_until
    }

    /// Whether everything is written.
    pub(super) fn is_done(&self) -> bool {
        self.written == self.total
    }
}
