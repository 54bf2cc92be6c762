//! Findings: a cause with its evidence, its cost, its fixes and the predicted time.

use std::time::Duration;

use crate::{
    causes::{
        Cause,
        evidence::{Chunk, Fix},
    },
    replica::WhatIf,
};

/// A cause that took a considerable part of a transfer's time.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What the time was spent on.
    pub cause: Cause,
    /// How much time.
    pub cost: Duration,
    /// Packets that show it: those that ended the longest waits.
    pub packets: Vec<u32>,
    /// One paragraph.
    pub why: String,
    /// The sender's chunks, which some fixes depend on.
    pub(crate) chunk: Option<Chunk>,
    /// The change that stands for taking the cause away, where it can be run again.
    pub what_if: Option<WhatIf>,
}

impl Finding {
    /// What would take it away.
    pub fn fixes(&self) -> Vec<Fix> {
        (self.cause.rule().fixes)(self.chunk)
    }
}
