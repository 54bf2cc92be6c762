//! The stages of one direction of a cable, run as a discrete-event simulation.
//!
//! Events happen in the order of their times, whichever stage they belong to. A packet that leaves a
//! stage enters the next at the same instant. The chain is told the time only to know how far it may
//! run ([`Chain::run`]); within, every stage sees the exact time of its own event.

use std::{
    any::{Any, TypeId},
    time::Instant,
};

use crate::{
    offload::{self, Spare},
    packet::Packet,
    stage::{Out, Stage},
};

/// The stages of one direction.
#[derive(Default)]
pub struct Chain {
    slots: Vec<Slot>,
}

/// A stage and where it puts its packets; one for each stage, so that the room is allocated once.
struct Slot {
    stage: Box<dyn Stage>,
    out: Out,
}

impl Slot {
    fn kind(&self) -> TypeId {
        let stage: &dyn Any = &*self.stage;
        stage.type_id()
    }
}

/// What came out of a [`Chain`].
#[derive(Debug, Default)]
pub struct Output {
    /// Packets that left at the far end, each with the instant at which it should have.
    pub delivered: Vec<(Instant, Packet)>,
    /// Packets that a stage sent back, with the stage's index in this chain and the instant.
    pub back: Vec<(Instant, usize, Packet)>,
}

impl Chain {
    /// A chain of these stages, first passed first.
    pub fn new(stages: Vec<Box<dyn Stage>>) -> Self {
        Self { slots: stages.into_iter().map(|stage| Slot { stage, out: Out::default() }).collect() }
    }

    /// Whether no stage looks at single packets, so that segments may pass whole.
    pub fn passes_segments_whole(&self) -> bool {
        self.slots.iter().all(|slot| slot.stage.passes_segments_whole())
    }

    /// A packet enters before the stage at `index` (0: at the near end) at `now`. Events that are
    /// due by then happen first.
    pub fn push(&mut self, index: usize, packet: Packet, now: Instant, output: &mut Output) {
        self.run(now, output);
        self.enter(index, packet, now, output);
    }

    /// The time of the next event, if the chain waits for one.
    pub fn wake(&self) -> Option<Instant> {
        self.next().map(|(at, _)| at)
    }

    /// Lets every event up to and including `until` happen.
    pub fn run(&mut self, until: Instant, output: &mut Output) {
        while let Some((at, index)) = self.next()
            && at <= until
        {
            let slot = &mut self.slots[index];
            slot.stage.poll(at, &mut slot.out);
            self.pass_on(index, at, output);
        }
    }

    /// Puts `stages` in the place of those of a running chain, which has been run up to `now`.
    ///
    /// Each takes over from the first stage of its kind that no other took over from, so that parameters
    /// change and stages come and go around one that holds packets. What is held by a stage that is gone
    /// enters the new chain where that stage stood, at once. So every packet goes on, and in order; only
    /// a shorter queue, or a stage that is new on its way, may drop it.
    ///
    /// Returns the place in the new chain for each in the old one, the end included: what was to enter
    /// before a stage enters behind the nearest one before that which is still there.
    pub fn replace(&mut self, stages: Vec<Box<dyn Stage>>, now: Instant, output: &mut Output) -> Vec<usize> {
        let old = std::mem::replace(self, Self::new(stages)).slots;
        let mut old: Vec<_> = old.into_iter().map(Some).collect();
        let mut heirs = vec![None; old.len()];
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let same = |old: &Option<Slot>| old.as_ref().is_some_and(|old| old.kind() == slot.kind());
            if let Some(place) = old.iter().position(same)
                && let Some(predecessor) = old[place].take()
            {
                slot.stage.replace(predecessor.stage, now);
                heirs[place] = Some(index);
            }
        }
        let mut places = vec![0];
        for (place, heir) in heirs.into_iter().enumerate() {
            places.push(heir.map_or(places[place], |index| index + 1));
        }
        // The nearest to the far end first, so that nobody overtakes.
        for (gone, place) in old.into_iter().zip(&places).rev() {
            for packet in gone.into_iter().flat_map(|mut slot| slot.stage.leave()) {
                self.enter(*place, packet, now, output);
            }
        }
        places
    }

    /// The earliest event and its stage; of several at one time, that of the last stage, so that
    /// packets leave before others take their place.
    fn next(&self) -> Option<(Instant, usize)> {
        let wakes = self.slots.iter().enumerate().filter_map(|(index, slot)| slot.stage.wake().map(|at| (at, index)));
        wakes.min_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)))
    }

    fn enter(&mut self, index: usize, packet: Packet, now: Instant, output: &mut Output) {
        match self.slots.get_mut(index) {
            // It was on its way when the stage came.
            Some(slot)
                if !slot.stage.passes_segments_whole()
                    && let Some(header) = packet.offload =>
            {
                let mut packets = Vec::new();
                offload::split(header, &packet.bytes, &mut Spare::default(), |packet| packets.push(packet));
                for packet in packets {
                    self.enter(index, packet, now, output);
                }
            }
            Some(slot) => {
                slot.stage.push(packet, now, &mut slot.out);
                self.pass_on(index, now, output);
            }
            None => output.delivered.push((now, packet)),
        }
    }

    /// Takes what the stage at `index` put out to its neighbours.
    fn pass_on(&mut self, index: usize, now: Instant, output: &mut Output) {
        let out = &mut self.slots[index].out;
        output.back.extend(out.back.drain(..).map(|packet| (now, index, packet)));
        if out.forward.is_empty() {
            return;
        }
        let mut forward = std::mem::take(&mut out.forward);
        for packet in forward.drain(..) {
            self.enter(index + 1, packet, now, output);
        }
        self.slots[index].out.forward = forward; // its allocation serves again
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        offload::Header,
        stages::{Delay, Dice, Discipline, Effect, Jitter, Loss, Queue, RateLimit, Spread},
        testing::{checksums_are_right, segment, tcp},
    };
    use units::{Percent, Rate};

    fn delay(ms: u64) -> Box<dyn Stage> {
        Box::new(Delay::new(Duration::from_millis(ms)))
    }

    fn loss() -> Box<dyn Stage> {
        let dice = Dice::new(1, Effect::Loss, crate::stage::Direction::Up);
        Box::new(Loss::new(Percent::default(), dice))
    }

    #[test]
    fn a_segment_under_way_is_cut_before_a_new_stage_that_looks_at_packets() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut header = [0; Header::LEN];
        (header[0], header[1]) = (1, 1); // an unfinished checksum, TCP over IPv4
        for (at, word) in [(4, 1000u16), (6, 20), (8, 16)] {
            header[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        let whole = Packet { offload: Some(Header::from_bytes(header)), ..Packet::new(tcp(segment(2500))) };
        let mut chain = Chain::new(vec![delay(9)]);
        let mut output = Output::default();
        chain.push(0, whole.clone(), ms(0), &mut output);
        chain.replace(vec![delay(1), loss()], ms(1), &mut output);
        chain.push(0, Packet::new(tcp(segment(7))), ms(2), &mut output);
        // And another change before the first segment has left.
        chain.replace(vec![delay(2), loss()], ms(3), &mut output);
        chain.push(0, Packet::new(tcp(segment(8))), ms(4), &mut output);
        chain.run(ms(100), &mut output);
        let left: Vec<_> = output.delivered.iter().map(|(at, packet)| (*at, packet.len() - 40)).collect();
        assert_eq!(left, [(ms(9), 1000), (ms(9), 1000), (ms(9), 500), (ms(9), 7), (ms(9), 8)]);
        assert!(output.delivered.iter().all(|(_, packet)| checksums_are_right(&packet.bytes)));
    }

    #[test]
    fn what_a_stage_held_that_is_gone_goes_on_in_order() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let rate = || Box::new(RateLimit::new(Rate::bits_per_second(8000), Queue::new(Discipline::Infinite)));
        let dice = Dice::new(1, Effect::Jitter, crate::stage::Direction::Up);
        let jitter = Box::new(Jitter::new(Spread::Uniform(Duration::from_mins(1)), false, dice));
        let mut chain = Chain::new(vec![rate(), delay(9), jitter]);
        let mut output = Output::default();
        for n in 0..9 {
            chain.push(0, Packet::new(vec![n; 10]), ms(0), &mut output); // each takes 10 ms to send
        }
        chain.run(ms(45), &mut output); // 0, 1 and 2 are in the jitter, 3 in the delay, 4 is being sent
        assert!(output.delivered.is_empty());
        assert_eq!(chain.replace(vec![loss(), delay(9)], ms(45), &mut output), [0, 0, 2, 2]);
        chain.push(0, Packet::new(vec![9; 10]), ms(46), &mut output);
        chain.run(ms(100), &mut output);
        let left: Vec<_> = output.delivered.iter().map(|(at, packet)| (*at, packet.bytes[0])).collect();
        let times = [45, 45, 45, 49, 54, 54, 54, 54, 54, 55];
        assert_eq!(left, times.map(ms).into_iter().zip(0..).collect::<Vec<_>>());
    }
}
