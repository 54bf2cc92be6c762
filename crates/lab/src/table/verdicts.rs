//! The claims with their verdicts: verdict and quotation first, below them what was measured. Claims that this run
//! could not judge follow at the end, grouped by reason, one line each.

use super::{Look, Style};
use crate::{
    claims::Verdict,
    format::counted,
    results::{ClaimResult, Condition, RunResult},
};

pub(super) fn render(run: &RunResult, look: Look) -> String {
    let Some(first) = run.claims.first() else { return String::new() };
    if run.claims.iter().all(|claim| !claim.in_run) {
        // A reader who races other programs need not read what others have claimed.
        let count = counted(run.claims.len() as u64, "claim");
        let verb = if run.claims.len() == 1 { "is" } else { "are" };
        let text = format!(
            "{count} of the source {verb} not judged, because this run did not measure what they compare. To judge them, run \
             the whole experiment to its end: `haul lab run {}`.",
            run.experiment
        );
        return look.paragraph("", 0, &text);
    }
    let mut text = look.title("Claims of the source, and what this run measured");
    text += &look.paragraph("", 0, &first.source);
    for Condition { about, theirs, ours } in &run.conditions {
        text += &look.paragraph("  ", 4, &format!("{about}: {theirs}; here {ours}"));
    }
    let (measured, open): (Vec<&ClaimResult>, Vec<&ClaimResult>) =
        run.claims.iter().partition(|claim| claim.verdict != Verdict::NotJudged);
    for claims in measured.chunk_by(|a, b| block(a) == block(b)) {
        // Runs of the first version have no workload here.
        let known = !claims[0].workload.is_empty();
        text += &if known { heading(look, &block(claims[0])) } else { "\n".to_owned() };
        for claim in claims {
            text += &judged(claim, look);
        }
    }
    text += &unjudged(&open, look);
    text + "\n" + &look.paragraph("", 0, &(run.claim_counts() + "."))
}

fn block(claim: &ClaimResult) -> String {
    format!("{}, {}", claim.workload, claim.network)
}

/// A block's name or a reason, after an empty line.
fn heading(look: Look, text: &str) -> String {
    let text = look.paragraph("  ", 2, text);
    format!("\n{}\n", look.paint(Style::Bold, text.trim_end()))
}

fn judged(claim: &ClaimResult, look: Look) -> String {
    let (mark, style) = match claim.verdict {
        Verdict::Reproduced => ("✔", Style::Good),
        Verdict::Exceeded => ("▲", Style::Open),
        Verdict::Missed => ("▼", Style::Open),
        Verdict::Refuted => ("✘", Style::Bad),
        Verdict::Inconclusive | Verdict::NotJudged => ("?", Style::Open),
    };
    let said = format!("{}{}", claim.verdict, if claim.model { " (model)" } else { "" });
    let label = format!("{mark} {said:12}");
    let first = format!("  {label}  ");
    let indent = if look.width() < 60 { 6 } else { first.chars().count() };
    let blanks = " ".repeat(indent);
    let said = look.paragraph(&first, indent, &format!("“{}”", claim.said));
    said.replacen(&label, &look.paint(style, &label), 1) + &look.paragraph(&blanks, indent, &claim.measured)
}

/// The claims without a measurement, by reason; those outside the run come last.
fn unjudged(claims: &[&ClaimResult], look: Look) -> String {
    let mut reasons: Vec<(bool, &str)> = Vec::new();
    for claim in claims {
        let reason = (!claim.in_run, claim.measured.trim_end_matches('.'));
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.sort_by_key(|(absent, _)| *absent);
    let mut text = String::new();
    for (absent, why) in reasons {
        text += &heading(look, &format!("Not judged: {why}"));
        for claim in claims.iter().filter(|claim| claim.measured.trim_end_matches('.') == why) {
            let block = if absent { format!("{}: ", block(claim)) } else { String::new() };
            text += &look.paragraph("    ", 6, &format!("{block}“{}”", claim.said));
        }
    }
    text
}
