//! Findings: a cause with its evidence, its cost, its fixes and the predicted time.

use std::time::Duration;

use crate::{
    causes::{
        Cause,
        evidence::{Fix, Situation},
    },
    combine::neighbours::Neighbour,
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
    /// For a shared link, the other connections on it, most bytes first; filled in by [`crate::pair_captures`].
    pub neighbours: Vec<Neighbour>,
    /// What the fixes depend on.
    pub(crate) situation: Situation,
    /// The what-if change that removes the cause, if the replica has one.
    pub what_if: Option<WhatIf>,
}

impl Finding {
    /// The changes that remove the cause; those for another system than the one seen come last.
    pub fn fixes(&self) -> Vec<Fix> {
        self.ranked_fixes().into_iter().map(|(fix, _)| fix).collect()
    }

    /// The changes, and whether each is for the systems of this connection, where that is known: first the settings of
    /// the system seen, then what is for any, and those for others last.
    pub(crate) fn ranked_fixes(&self) -> Vec<(Fix, Option<bool>)> {
        let fixes = (self.cause.rule().fixes)(&self.situation).into_iter();
        let mut fixes: Vec<_> = fixes.map(|fix| (fix.applies(&self.situation), fix)).collect();
        fixes.sort_by_key(|(applies, fix)| match applies {
            Some(true) => u8::from(fix.target_system().is_none()),
            None => 1,
            Some(false) => 2,
        });
        fixes.into_iter().map(|(applies, fix)| (fix, applies)).collect()
    }
}
