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
    /// The time that it took.
    pub cost: Duration,
    /// The numbers of packets that show it: those that ended the longest waits.
    pub packets: Vec<u32>,
    /// The evidence, in one paragraph.
    pub why: String,
    /// The sender's write size, which some fixes depend on.
    pub(crate) chunk: Option<Chunk>,
    /// The what-if change that removes the cause, if the replica has one.
    pub what_if: Option<WhatIf>,
}

impl Finding {
    /// The changes that remove the cause.
    pub fn fixes(&self) -> Vec<Fix> {
        (self.cause.rule().fixes)(self.chunk)
    }
}
