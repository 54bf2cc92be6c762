//! The stages, one file each.

mod codel;
mod corrupt;
mod delay;
mod delay_queue;
mod delays;
mod duplicate;
mod gilbert_elliott;
mod jitter;
mod lines;
mod loss;
mod loss_trace;
mod mtu;
mod queue;
mod rate;
mod reorder;
mod rng;
mod start_time;
mod trace;

pub use corrupt::Corrupt;
pub use delay::Delay;
pub use delays::Delays;
pub use duplicate::Duplicate;
pub use gilbert_elliott::{Bursts, GilbertElliott};
pub use jitter::{DelayDistribution, Jitter};
pub use lines::LineError;
pub use loss::Loss;
pub use loss_trace::{LossTrace, Losses};
pub use mtu::Mtu;
pub use queue::{Discipline, Queue};
pub use rate::RateLimit;
pub use reorder::Reorder;
pub use rng::{Effect, Rng};
pub use start_time::Start;
pub use trace::{Schedule, TraceError, TraceLink};

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::{
        chain::{Chain, Output},
        packet::Packet,
        stage::Stage,
    };

    /// The numbers, in the order of arrival, of the packets that pass a stage, of `count` sent one
    /// every 100 µs.
    pub(super) fn survivors(stage: Box<dyn Stage>, count: u32) -> Vec<u32> {
        let start = Instant::now();
        let mut chain = Chain::new(vec![stage]);
        let mut output = Output::default();
        for n in 0..count {
            chain.push(0, Packet::new(n.to_be_bytes().to_vec()), start + Duration::from_micros(100) * n, &mut output);
        }
        chain.run(start + Duration::from_secs(1000), &mut output);
        output.delivered.iter().map(|(_, p)| u32::from_be_bytes(p.bytes[..].try_into().unwrap())).collect()
    }
}
