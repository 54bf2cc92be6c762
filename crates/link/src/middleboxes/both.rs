//! Middleboxes that watch both directions: one state machine, two stages.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::Pair;
use crate::{
    packet::Packet,
    stage::{Direction, Out, Stage, same_kind},
};

/// What a middlebox does, with the packets of either direction. It is like [`Stage`], but told the
/// direction each time; in [`Out`], forward is onwards in it.
pub(super) trait Watcher: Send + 'static {
    /// A packet arrives.
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out);

    /// When it next wants to be polled for a direction.
    fn wake(&self, _direction: Direction) -> Option<Instant> {
        None
    }

    /// That time has come.
    fn poll(&mut self, _direction: Direction, _now: Instant, _out: &mut Out) {}

    /// Takes what it wants to keep of the one whose place it takes.
    fn take_over(&mut self, old: &mut Self);
}

struct Shared<W> {
    watcher: W,
    took_over: bool,
}

/// One direction's stage of a [`Watcher`].
struct Way<W> {
    direction: Direction,
    shared: Arc<Mutex<Shared<W>>>,
}

impl<W> Way<W> {
    fn lock(&self) -> MutexGuard<'_, Shared<W>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The two stages of a watcher.
pub(super) fn stages<W: Watcher>(watcher: W) -> Pair {
    let shared = Arc::new(Mutex::new(Shared { watcher, took_over: false }));
    let way = |direction| Some(Box::new(Way { direction, shared: Arc::clone(&shared) }) as Box<dyn Stage>);
    Pair { up: way(Direction::Up), down: way(Direction::Down) }
}

impl<W: Watcher> Stage for Way<W> {
    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out) {
        self.lock().watcher.push(self.direction, packet, now, out);
    }

    fn wake(&self) -> Option<Instant> {
        self.lock().watcher.wake(self.direction)
    }

    fn poll(&mut self, now: Instant, out: &mut Out) {
        self.lock().watcher.poll(self.direction, now, out);
    }

    fn replace(&mut self, old: Box<dyn Stage>, _now: Instant) {
        let Some(old) = same_kind::<Self>(old) else { return };
        let mut new = self.lock();
        // Both directions come here; the first brings the state of both.
        if !new.took_over {
            new.watcher.take_over(&mut old.lock().watcher);
            new.took_over = true;
        }
    }
}
