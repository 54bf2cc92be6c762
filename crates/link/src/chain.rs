//! The stages of one direction of a cable, run as a discrete-event simulation.
//!
//! Events of all stages happen in the order of their times. A packet that leaves a stage enters the next at the same
//! instant. The current time only limits how far the simulation runs ([`Chain::run`]); each stage gets the exact time
//! of its own event.

use std::{
    any::{Any, TypeId},
    time::Instant,
};

use crate::{
    offload::{self, BufferPool},
    packet::Packet,
    stage::{Out, Stage},
};

/// The stages of one direction.
#[derive(Default)]
pub struct Chain {
    slots: Vec<Slot>,
}

/// A stage and its output, which is reused to avoid allocations.
struct Slot {
    stage: Box<dyn Stage>,
    out: Out,
}

impl Slot {
    fn stage_type(&self) -> TypeId {
        let stage: &dyn Any = &*self.stage;
        stage.type_id()
    }
}

/// The output of a [`Chain`].
#[derive(Debug, Default)]
pub struct Output {
    /// Packets that left at the far end, each with the exact time at which it was due.
    pub delivered: Vec<(Instant, Packet)>,
    /// Packets that a stage sent back, each with the time and the stage's index in this chain.
    pub back: Vec<(Instant, usize, Packet)>,
}

impl Chain {
    /// A chain of these stages, first passed first.
    pub fn new(stages: Vec<Box<dyn Stage>>) -> Self {
        Self { slots: stages.into_iter().map(|stage| Slot { stage, out: Out::default() }).collect() }
    }

    /// Whether no stage needs single packets, so that segments may pass unsplit.
    pub fn passes_segments_unsplit(&self) -> bool {
        self.slots.iter().all(|slot| slot.stage.passes_segments_unsplit())
    }

    /// A packet enters before the stage at `index` (0: at the near end) at `now`. Events up to `now` happen first.
    pub fn push(&mut self, index: usize, packet: Packet, now: Instant, output: &mut Output) {
        self.run(now, output);
        self.enter(index, packet, now, output);
    }

    /// The time of the next event, if the chain waits for one.
    pub fn wake(&self) -> Option<Instant> {
        self.next().map(|(at, _)| at)
    }

    /// Runs all events up to and including `until`.
    pub fn run(&mut self, until: Instant, output: &mut Output) {
        while let Some((at, index)) = self.next()
            && at <= until
        {
            let slot = &mut self.slots[index];
            slot.stage.poll(at, &mut slot.out);
            self.pass_on(index, at, output);
        }
    }

    /// Replaces the stages of a running chain, which has run up to `now`.
    ///
    /// Each new stage takes over from the first old stage of its type that is still free. So parameters can change, and
    /// stages can be added and removed around a stage that holds packets. Packets in a removed stage enter the new chain
    /// at once, where that stage was. So every packet continues, in order; only a shorter queue or a new stage may drop
    /// it.
    ///
    /// Returns the new index for each old one, and for the end of the chain. The index of a removed stage becomes the
    /// position after the nearest preceding stage that is still there.
    pub fn replace(&mut self, stages: Vec<Box<dyn Stage>>, now: Instant, output: &mut Output) -> Vec<usize> {
        let old = std::mem::replace(self, Self::new(stages)).slots;
        let mut old: Vec<_> = old.into_iter().map(Some).collect();
        let mut successors = vec![None; old.len()];
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let is_same = |old: &Option<Slot>| old.as_ref().is_some_and(|old| old.stage_type() == slot.stage_type());
            if let Some(old_index) = old.iter().position(is_same)
                && let Some(predecessor) = old[old_index].take()
            {
                slot.stage.replace(predecessor.stage, now);
                successors[old_index] = Some(index);
            }
        }
        let mut new_indices = vec![0];
        for (old_index, successor) in successors.into_iter().enumerate() {
            new_indices.push(successor.map_or(new_indices[old_index], |index| index + 1));
        }
        // Packets nearest to the far end first, so that none overtakes.
        for (removed, index) in old.into_iter().zip(&new_indices).rev() {
            for packet in removed.into_iter().flat_map(|mut slot| slot.stage.drain()) {
                self.enter(*index, packet, now, output);
            }
        }
        new_indices
    }

    /// The earliest event and its stage. Of several at the same time, that of the last stage: packets leave a stage before
    /// others enter it.
    fn next(&self) -> Option<(Instant, usize)> {
        let wakes = self.slots.iter().enumerate().filter_map(|(index, slot)| slot.stage.wake().map(|at| (at, index)));
        wakes.min_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)))
    }

    fn enter(&mut self, index: usize, packet: Packet, now: Instant, output: &mut Output) {
        match self.slots.get_mut(index) {
            // The segment was in flight when the stage was added.
            Some(slot)
                if !slot.stage.passes_segments_unsplit()
                    && let Some(header) = packet.offload =>
            {
                let mut packets = Vec::new();
                offload::split(header, &packet.bytes, &mut BufferPool::default(), |packet| packets.push(packet));
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

    /// Passes the output of the stage at `index` on.
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
        self.slots[index].out.forward = forward; // reuses its allocation
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        offload::Header,
        stages::{Delay, DelayDistribution, Discipline, Effect, Jitter, Loss, Queue, RateLimit, Rng},
        test_packets::{checksums_are_right, segment, tcp},
    };
    use units::{Percent, Rate};

    fn delay(ms: u64) -> Box<dyn Stage> {
        Box::new(Delay::new(Duration::from_millis(ms)))
    }

    fn loss() -> Box<dyn Stage> {
        let rng = Rng::new(1, Effect::Loss, crate::stage::Direction::Up);
        Box::new(Loss::new(Percent::default(), rng))
    }

    #[test]
    fn segment_in_flight_is_split_before_a_new_stage_that_needs_packets() {
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
    fn packets_of_removed_stages_continue_in_order() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let rate = || Box::new(RateLimit::new(Rate::bits_per_second(8000), Queue::new(Discipline::Infinite)));
        let rng = Rng::new(1, Effect::Jitter, crate::stage::Direction::Up);
        let jitter = Box::new(Jitter::new(DelayDistribution::Uniform(Duration::from_mins(1)), false, rng));
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
