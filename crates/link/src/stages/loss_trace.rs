//! Loss that follows a file: which packet is lost is no chance.
//!
//! The file contains a digit for each packet, `0` for one that passes and `1` for one that is lost. Blanks and line breaks
//! between them have no meaning. After the last digit the file starts over.

use std::{sync::Arc, time::Instant};

use super::lines::{LineError, entries, quote};
use crate::{
    packet::Packet,
    stage::{Out, Stage, same_type},
};

/// Which packets are lost; see the module documentation.
#[derive(Debug, PartialEq, Eq)]
pub struct Losses(Vec<bool>);

impl Losses {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let mut losses = Vec::new();
        for (line, entry) in entries(text) {
            for digit in entry.chars().filter(|char| !char.is_whitespace()) {
                losses.push(match digit {
                    '0' => false,
                    '1' => true,
                    other => {
                        let found = quote(&other.to_string());
                        let message = format!("`{found}` is neither 0 (the packet passes) nor 1 (it is lost)");
                        return Err(LineError::new(line, message));
                    }
                });
            }
        }
        if losses.is_empty() {
            return Err(LineError::new(1, "the loss trace is empty; write a 0 or a 1 for each packet"));
        }
        Ok(Self(losses))
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct LossTrace {
    losses: Arc<Losses>,
    next: usize,
}

impl LossTrace {
    /// A link with these losses, from the first on.
    pub fn new(losses: Arc<Losses>) -> Self {
        Self { losses, next: 0 }
    }
}

impl Stage for LossTrace {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        let is_lost = self.losses.0[self.next];
        self.next = (self.next + 1) % self.losses.0.len();
        if !is_lost {
            out.forward(packet);
        }
    }

    fn replace(&mut self, old: Box<dyn Stage>, _now: Instant) {
        if let Some(old) = same_type::<Self>(old)
            && old.losses == self.losses
        {
            self.next = old.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::tests::survivors;

    fn stage(text: &str) -> Box<dyn Stage> {
        Box::new(LossTrace::new(Arc::new(Losses::parse(text).unwrap())))
    }

    #[test]
    fn exactly_the_marked_packets_are_lost_and_the_file_repeats() {
        assert_eq!(survivors(stage("0 1 # the second\n1\n"), 8), [0, 3, 6]);
        assert_eq!(survivors(stage("1"), 8), [0; 0]);
    }

    #[test]
    fn replaced_stage_continues_in_the_same_file() {
        let mut old = stage("0111");
        old.push(Packet::new(vec![0]), Instant::now(), &mut Out::default());
        let mut same = stage("0111");
        same.replace(old, Instant::now());
        assert_eq!(survivors(same, 5), [3]);
        let mut other = stage("011");
        other.replace(stage("0111"), Instant::now());
        assert_eq!(survivors(other, 4), [0, 3]);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text| Losses::parse(text).unwrap_err().to_string();
        assert_eq!(error("01\n\n0x1\n"), "3: `x` is neither 0 (the packet passes) nor 1 (it is lost)");
        assert!(error("# 01\n").starts_with("1: the loss trace is empty"));
    }
}
