//! Middleboxes that watch both directions: one state machine, two stages.
//!
//! In a running cable each direction puts the new stage in the place of the old one when it comes to
//! it, so for a while the new stage of one direction works beside the old one of the other. Both must
//! see the same state, or an answer would come to a translator that has just forgotten the question.
//! So the new watcher moves in where the old one was, with the first of its two stages, and the old
//! stage finds it there.

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

    /// Gives up the packets that it holds of a direction.
    fn leave(&mut self, _direction: Direction) -> Vec<Packet> {
        Vec::new()
    }
}

type Home<W> = Arc<Mutex<W>>;

/// What the two stages of a watcher share.
struct Shared<W> {
    /// Where the watcher was made.
    own: Home<W>,
    /// Where it lives after a change: where the one lived whose place it took.
    moved: OnceLock<Home<W>>,
    /// Whether another took its place.
    is_replaced: AtomicBool,
}

impl<W: Watcher> Shared<W> {
    fn home(&self) -> &Home<W> {
        self.moved.get().unwrap_or(&self.own)
    }

    /// Takes the place of another. Both directions come here; the first moves the watcher.
    fn replace(&self, old: &Self) {
        self.moved.get_or_init(|| {
            if old.is_replaced.swap(true, Ordering::Relaxed) {
                return Arc::clone(&self.own); // another took its place before
            }
            let home = Arc::clone(old.home());
            {
                let (mut new, mut old) = (lock(&self.own), lock(&home));
                new.take_over(&mut old);
                std::mem::swap(&mut *new, &mut *old);
            }
            home
        });
    }
}

/// One direction's stage of a [`Watcher`].
struct Way<W> {
    direction: Direction,
    shared: Arc<Shared<W>>,
}

impl<W: Watcher> Way<W> {
    fn lock(&self) -> MutexGuard<'_, W> {
        lock(self.shared.home())
    }
}

fn lock<W>(home: &Home<W>) -> MutexGuard<'_, W> {
    home.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two stages of a watcher.
pub(super) fn stages<W: Watcher>(watcher: W) -> Element {
    let own = Arc::new(Mutex::new(watcher));
    let shared = Arc::new(Shared { own, moved: OnceLock::new(), is_replaced: AtomicBool::new(false) });
    let way = |direction| Some(Box::new(Way { direction, shared: Arc::clone(&shared) }) as Box<dyn Stage>);
    Element { up: way(Direction::Up), down: way(Direction::Down) }
}

impl<W: Watcher> Stage for Way<W> {
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
        if let Some(old) = same_kind::<Self>(old) {
            self.shared.replace(&old.shared);
        }
    }

    fn leave(&mut self) -> Vec<Packet> {
        self.lock().leave(self.direction)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        middleboxes::tests::{Bench, chains},
        stage::Direction::{Down, Up},
        testing::{Segment, answer_to, segment, tcp},
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
    fn a_change_may_come_to_one_direction_first() {
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
    fn what_is_held_between_two_halves_of_a_change_is_not_lost() {
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
    fn what_is_held_by_one_that_is_gone_goes_on() {
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
    fn two_in_the_place_of_one_do_not_share_its_state() {
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
