//! `haul lab claims`: every claim, what would refute it, and its verdict by kept runs.

use std::error::Error;

use lab::{
    claims_table::{KeptRun, text},
    results,
};

use super::{EXPERIMENTS, ResultsFolder, look, read, unknown};

/// Which runs to judge the claims by.
#[derive(clap::Args)]
pub(crate) struct ClaimsArgs {
    /// Run IDs (see `haul lab list`), folders or run.json files; without any, nothing is judged
    #[arg(value_name = "RUN")]
    names: Vec<String>,
    #[command(flatten)]
    folder: ResultsFolder,
}

pub(super) fn show(args: &ClaimsArgs) -> Result<(), Box<dyn Error>> {
    let kept = |name: &String| -> Result<KeptRun, Box<dyn Error>> {
        let file = results::locate(&args.folder.results, Some(name)).map_err(unknown)?;
        Ok(KeptRun { name: name.clone(), run: results::read(&file)? })
    };
    let runs = args.names.iter().map(kept).collect::<Result<Vec<_>, _>>()?;
    let experiments = EXPERIMENTS.iter().map(|(name, _)| read(name)).collect::<Result<Vec<_>, _>>()?;
    let known: Vec<&str> = experiments.iter().map(|experiment| experiment.name.as_str()).collect();
    for kept in runs.iter().filter(|kept| !known.contains(&kept.run.experiment.as_str())) {
        crate::say(format_args!("{}: a run of `{}`, which has no built-in claims", kept.name, kept.run.experiment));
    }
    let claims = text(&experiments, &runs, look());
    crate::print(claims.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim that nothing can refute tells nothing.
    #[test]
    fn every_claim_says_what_would_refute_it() {
        let experiments = EXPERIMENTS.map(|(name, _)| read(name).unwrap());
        let claims = experiments.iter().flat_map(|experiment| &experiment.claims);
        let silent: Vec<&str> = claims
            .filter(|claim| claim.refuted_by.split_whitespace().count() < 4)
            .map(|claim| claim.id.as_str())
            .collect();
        assert!(silent.is_empty(), "these claims do not say what would refute them: {silent:?}");
    }
}
