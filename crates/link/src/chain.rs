//! The stages of one direction of a cable, run as a discrete-event simulation.
//!
//! Events happen in the order of their times, whichever stage they belong to. A packet that leaves a
//! stage enters the next at the same instant. The chain is told the time only to know how far it may
//! run ([`Chain::run`]); within, every stage sees the exact time of its own event.

use std::time::Instant;

use crate::{
    packet::Packet,
    stage::{Out, Stage},
};

/// The stages of one direction.
#[derive(Default)]
pub struct Chain {
    stages: Vec<Box<dyn Stage>>,
    out: Out,
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
        Self { stages, out: Out::default() }
    }

    /// The number of stages.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// Whether no stage looks at single packets, so that segments may pass whole.
    pub fn passes_segments_whole(&self) -> bool {
        self.stages.iter().all(|stage| stage.passes_segments_whole())
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
            self.stages[index].poll(at, &mut self.out);
            self.pass_on(index, at, output);
        }
    }

    /// Puts `stages` in the place of those of a running chain. Each takes over from the stage at
    /// its index where the kinds agree; the packets held by stages that are gone are lost, as on
    /// a cable that is cut and spliced.
    pub fn replace(&mut self, stages: Vec<Box<dyn Stage>>, now: Instant) {
        let old = std::mem::replace(&mut self.stages, stages);
        for (stage, old) in self.stages.iter_mut().zip(old) {
            stage.replace(old, now);
        }
    }

    /// The earliest event and its stage; of several at one time, that of the last stage, so that
    /// packets leave before others take their place.
    fn next(&self) -> Option<(Instant, usize)> {
        let wakes = self.stages.iter().enumerate().filter_map(|(index, stage)| stage.wake().map(|at| (at, index)));
        wakes.min_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)))
    }

    fn enter(&mut self, index: usize, packet: Packet, now: Instant, output: &mut Output) {
        match self.stages.get_mut(index) {
            Some(stage) => {
                stage.push(packet, now, &mut self.out);
                self.pass_on(index, now, output);
            }
            None => output.delivered.push((now, packet)),
        }
    }

    /// Takes what the stage at `index` put out to its neighbours.
    fn pass_on(&mut self, index: usize, now: Instant, output: &mut Output) {
        output.back.extend(self.out.back.drain(..).map(|packet| (now, index, packet)));
        if self.out.forward.is_empty() {
            return;
        }
        let mut forward = std::mem::take(&mut self.out.forward);
        for packet in forward.drain(..) {
            self.enter(index + 1, packet, now, output);
        }
        if self.out.forward.capacity() == 0 {
            self.out.forward = forward; // its allocation serves again
        }
    }
}
