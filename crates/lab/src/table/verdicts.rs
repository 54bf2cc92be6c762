//! The sentences of the source, and what became of them.

use super::{Look, Style};
use crate::{
    claims::Verdict,
    results::{ClaimResult, RunResult},
};

pub(super) fn render(run: &RunResult, look: Look) -> String {
    let Some(first) = run.claims.first() else { return String::new() };
    let mut text = look.title("What the source says, and what was measured here");
    text += &look.paragraph("", 0, &first.source);
    // A run that was stopped leaves most sentences open, which is no news.
    let stopped = run.cells.iter().any(|cell| !cell.was_reached());
    let shown = |claim: &&ClaimResult| !stopped || claim.verdict != Verdict::Inconclusive;
    let claims: Vec<&ClaimResult> = run.claims.iter().filter(shown).collect();
    // A sentence that is checked in several ways is quoted once.
    for claims in claims.chunk_by(|a, b| a.said == b.said) {
        text += "\n";
        text += &look.paragraph("  “", 3, &format!("{}”", claims[0].said));
        for claim in claims {
            text += &judged(claim, look);
        }
    }
    let count = |verdict| run.claims.iter().filter(|claim| claim.verdict == verdict).count();
    let counts = [Verdict::Reproduced, Verdict::Refuted, Verdict::Inconclusive]
        .map(|verdict| format!("{} {}", count(verdict), word(verdict)));
    text + "\n" + &look.paragraph("", 0, &format!("Checks: {}.", counts.join(", ")))
}

fn judged(claim: &ClaimResult, look: Look) -> String {
    let (mark, style) = match claim.verdict {
        Verdict::Reproduced => ("✔", Style::Good),
        Verdict::Refuted => ("✘", Style::Bad),
        Verdict::Inconclusive => ("?", Style::Open),
    };
    let label = format!("{mark} {:12}", word(claim.verdict));
    let first = format!("    {label}  ");
    let indent = if look.width() < 60 { 6 } else { first.chars().count() };
    look.paragraph(&first, indent, &claim.measured).replacen(&label, &look.paint(style, &label), 1)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Refuted => "refuted",
        Verdict::Inconclusive => "inconclusive",
    }
}
