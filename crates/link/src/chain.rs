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

    /// The number of stages.
    pub fn stages(&self) -> usize {
        self.slots.len()
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

    /// Puts `stages` in the place of those of a running chain. Each takes over from the first stage
    /// of its kind that no other took over from, so that parameters change and stages come and go
    /// around one that holds packets; the packets held by stages that are gone are lost, as on a
    /// cable that is cut and spliced.
    pub fn replace(&mut self, stages: Vec<Box<dyn Stage>>, now: Instant) {
        let mut old = std::mem::replace(self, Self::new(stages)).slots;
        for slot in &mut self.slots {
            if let Some(place) = old.iter().position(|old| old.kind() == slot.kind()) {
                slot.stage.replace(old.remove(place).stage, now);
            }
        }
    }

    /// The earliest event and its stage; of several at one time, that of the last stage, so that
    /// packets leave before others take their place.
    fn next(&self) -> Option<(Instant, usize)> {
        let wakes = self.slots.iter().enumerate().filter_map(|(index, slot)| slot.stage.wake().map(|at| (at, index)));
        wakes.min_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)))
    }

    fn enter(&mut self, index: usize, packet: Packet, now: Instant, output: &mut Output) {
        match self.slots.get_mut(index) {
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
