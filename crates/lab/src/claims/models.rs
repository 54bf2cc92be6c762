//! What a model may decide.
//!
//! A model sends the requests that its program is known or inferred to send. That a model does what a claim says agrees with
//! the claim, and the verdict says that it rests on a model. That a model does not may only show that the program sends
//! something else: Longhaul has chosen the requests, and so it would refute somebody's measurement with its own choice.
//! What a model alone contradicts is therefore inconclusive.
//!
//! Two cells of the same requests, one of them through a program, tell what this program does, whatever the requests; they
//! may refute.

use std::collections::BTreeSet;

use super::{
    Verdict,
    evidence::{Evidence, Finding},
};
use crate::results::CellResult;

impl Evidence<'_> {
    /// Whether one of these contenders is a model.
    pub(super) fn has_model(&self, contenders: &[&str]) -> bool {
        self.of(contenders).any(|cell| cell.model)
    }

    /// Whether these contenders are the same requests, one time through a program.
    fn tells_of_a_program(&self, contenders: &[&str]) -> bool {
        let clients: BTreeSet<&str> =
            self.of(contenders).map(|cell| cell.requests_of.as_ref().unwrap_or(&cell.contender).as_str()).collect();
        clients.len() == 1 && self.of(contenders).any(|cell| cell.requests_of.is_some())
    }

    fn of(&self, contenders: &[&str]) -> impl Iterator<Item = &CellResult> {
        contenders.iter().filter_map(|contender| self.find(contender))
    }
}

/// The finding on these contenders; inconclusive if nothing but a model contradicts the claim.
pub(super) fn without_refuting_model(evidence: &Evidence<'_>, contenders: &[&str], finding: Finding) -> Finding {
    let contradicts = matches!(finding.verdict, Verdict::Refuted | Verdict::Exceeded | Verdict::Missed);
    if !contradicts || !evidence.has_model(contenders) || evidence.tells_of_a_program(contenders) {
        return finding;
    }
    let needs = finding
        .needs
        .map(|needs| format!("{needs}, which a model alone does not refute, since its requests are inferred"));
    Finding { verdict: Verdict::Inconclusive, needs, ..finding }
}
