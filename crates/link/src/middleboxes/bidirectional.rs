//! Middleboxes that see both directions: one state machine, two stages.
//!
//! When a running cable changes, each direction replaces its stages at its own time. For a while the new stage of one
//! direction works beside the old stage of the other. Both must share one state: a NAT that has just forgotten a
//! connection would drop the answer. So the first of the two new stages moves the new state machine to where the old
//! one was, and the old stage of the other direction finds it there.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::{
    lanes::Element,
    packet::Packet,
    stage::{Direction, Out, Stage, same_type},
};

/// Like [`Stage`], for the packets of both directions: each method gets the direction. In [`Out`], `forward` means
/// onwards in that direction.
pub(super) trait Bidirectional: Send + 'static {
    /// A packet arrives.
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out);

    /// When [`Bidirectional::poll`] is to be called next for a direction.
    fn wake(&self, _direction: Direction) -> Option<Instant> {
        None
    }

    /// The time of [`Bidirectional::wake`] has come.
    fn poll(&mut self, _direction: Direction, _now: Instant, _out: &mut Out) {}

    /// Takes over the state of the middlebox that it replaces.
    fn take_over(&mut self, old: &mut Self);

    /// Removes the packets that it holds of a direction.
    fn drain(&mut self, _direction: Direction) -> Vec<Packet> {
        Vec::new()
    }
}

type Location<M> = Arc<Mutex<M>>;

/// What the two stages of a middlebox share.
struct Shared<M> {
    /// Where the state machine was created.
    own: Location<M>,
    /// Where it is after a change: in the place of the one that it replaced.
    moved: OnceLock<Location<M>>,
    /// Whether another one has replaced it.
    is_replaced: AtomicBool,
}

impl<M: Bidirectional> Shared<M> {
    fn location(&self) -> &Location<M> {
        self.moved.get().unwrap_or(&self.own)
    }

    /// Replaces another. Both directions call this; the first call moves the state machine.
    fn replace(&self, old: &Self) {
        self.moved.get_or_init(|| {
            if old.is_replaced.swap(true, Ordering::Relaxed) {
                return Arc::clone(&self.own); // another one has replaced it before
            }
            let location = Arc::clone(old.location());
            {
                let (mut new, mut old) = (lock(&self.own), lock(&location));
                new.take_over(&mut old);
                std::mem::swap(&mut *new, &mut *old);
            }
            location
        });
    }
}

/// The stage of one direction.
struct OneDirection<M> {
    direction: Direction,
    shared: Arc<Shared<M>>,
}

impl<M: Bidirectional> OneDirection<M> {
    fn lock(&self) -> MutexGuard<'_, M> {
        lock(self.shared.location())
    }
}

fn lock<M>(location: &Location<M>) -> MutexGuard<'_, M> {
    location.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two stages of a middlebox.
pub(super) fn stages<M: Bidirectional>(middlebox: M) -> Element {
    let own = Arc::new(Mutex::new(middlebox));
    let shared = Arc::new(Shared { own, moved: OnceLock::new(), is_replaced: AtomicBool::new(false) });
    let stage = |direction| Some(Box::new(OneDirection { direction, shared: Arc::clone(&shared) }) as Box<dyn Stage>);
    Element { up: stage(Direction::Up), down: stage(Direction::Down) }
}

impl<M: Bidirectional> Stage for OneDirection<M> {
    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out) {
        self.lock().push(self.direction, packet, now, out);
    }

    fn wake(&self) -> Option<Instant> {
        self.lock().wake(self.direction)
    }

    fn poll(&mut self, now: Instant, out: &mut Out) {
        self.lock().poll(self.direction, now, out);
    }

    fn replace(&mut self, old: Box<dyn Stage>, _now: Instant) {
        if let Some(old) = same_type::<Self>(old) {
            self.shared.replace(&old.shared);
        }
    }

    fn drain(&mut self) -> Vec<Packet> {
        self.lock().drain(self.direction)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        middleboxes::tests::{Bench, chains},
        stage::Direction::{Down, Up},
        test_packets::{Segment, answer_to, segment, tcp},
    };

    /// What the translator makes of a new connection's packet, and whether its answer finds back.
    fn asks(bench: &mut Bench, ms: u64, port: u16) -> Vec<u8> {
        bench.passes(Up, ms, tcp(Segment { port, ..segment(1) }));
        let [(Up, up)] = &bench.take_new()[..] else { panic!("one packet goes up") };
        up.bytes.clone()
    }

    fn is_answered(bench: &mut Bench, ms: u64, up: &[u8]) -> bool {
        bench.passes(Down, ms, answer_to(up));
        bench.take_new().len() == 1
    }

    #[test]
    fn changed_direction_shares_state_with_the_unchanged_one() {
        for [first, second] in [[Up, Down], [Down, Up]] {
            let mut bench = Bench::new("nat");
            let before = asks(&mut bench, 0, 5);
            let mut new = chains("nat:address=198.51.100.1");
            let mut newer = chains("nat:address=198.51.100.2");
            bench.put(first, std::mem::take(&mut new[first as usize]), 1);
            assert!(is_answered(&mut bench, 2, &before));
            let between = asks(&mut bench, 3, 6);
            assert!(is_answered(&mut bench, 4, &between) && is_answered(&mut bench, 4, &before));
            // And another, while the other direction has not seen the first change yet.
            bench.put(first, std::mem::take(&mut newer[first as usize]), 5);
            let later = asks(&mut bench, 6, 7);
            for stages in [new, newer] {
                let [up, down] = stages;
                bench.put(second, if second == Up { up } else { down }, 7);
                assert!([&before, &between, &later].iter().all(|up| is_answered(&mut bench, 8, up)));
            }
            assert_eq!(asks(&mut bench, 9, 8)[12..16], [198, 51, 100, 2]);
            assert_eq!(asks(&mut bench, 9, 5), before);
        }
    }

    #[test]
    fn packets_held_during_a_change_are_not_lost() {
        let mut bench = Bench::new("hold-acks:timer=10ms");
        let ack = |number| tcp(Segment { down: true, ack: Some(number), ..segment(0) });
        bench.passes(Down, 0, ack(1000));
        assert!(bench.passes(Up, 1, tcp(segment(100))));
        let [up, down] = chains("hold-acks:timer=20ms");
        bench.put(Up, up, 2);
        assert!(!bench.passes(Down, 3, ack(1100)));
        bench.put(Down, down, 4);
        assert_eq!(bench.take_new().len(), 0);
        bench.run(21);
        assert_eq!(bench.take_new().len(), 1);
    }

    #[test]
    fn packets_held_by_a_removed_middlebox_are_released() {
        let mut bench = Bench::new("hold-acks");
        let ack = |number| tcp(Segment { down: true, ack: Some(number), ..segment(0) });
        bench.passes(Down, 0, ack(1000));
        assert!(bench.passes(Up, 1, tcp(segment(100))));
        assert!(!bench.passes(Down, 2, ack(1100)));
        bench.put(Up, Vec::new(), 3);
        assert_eq!(bench.take_new().len(), 0);
        bench.put(Down, Vec::new(), 3);
        assert_eq!(bench.take_new().len(), 1);
    }

    #[test]
    fn replacing_one_middlebox_by_two_does_not_share_its_state() {
        let mut bench = Bench::new("reset:syn=2");
        let syn = |port| tcp(Segment { port, syn: true, ack: None, ..segment(0) });
        assert!(bench.passes(Up, 0, syn(1)));
        let [[up, down], [other_up, other_down]] = [chains("reset:syn=2"), chains("reset:syn=2")];
        let joined = |mut one: Vec<_>, other: Vec<_>| {
            one.extend(other);
            one
        };
        bench.put(Up, joined(up, other_up), 1);
        bench.put(Down, joined(other_down, down), 1); // the way down in reverse order
        assert!(!bench.passes(Up, 2, syn(2))); // the second for the one that took over
        assert!(bench.passes(Up, 3, syn(3))); // the first for the other
        assert!(!bench.passes(Up, 4, syn(4)));
    }
}
