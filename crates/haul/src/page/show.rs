//! `haul page show`.

use std::{
    error::Error,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use ::page::{Spec, waterfall, waterfall_json};
use units::{Rate, Span};

/// Show a page's waterfall, depth, critical path and floors
///
/// Nothing is loaded. The times are calculated for an ideal network, over the recorded connections with TCP's slow start.
/// The floor is the minimum time with any protocol.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The page: wikipedia, amazon, or the file of a spec
    #[arg(value_name = "SPEC")]
    spec: String,

    /// Round-trip times; the waterfall shows the last one
    #[arg(long, value_name = "DURATION,…", value_delimiter = ',', default_value = "21ms,85ms,172ms")]
    rtt: Vec<Span>,

    /// Rate of the bottleneck [default: unlimited]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Also write JSON (schema longhaul.page-show/1) to FILE; `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let spec = Spec::find(&args.spec)?;
    let rtts: Vec<_> = args.rtt.iter().map(|rtt| rtt.0).collect();
    let document = || -> Result<Vec<u8>, Box<dyn Error>> {
        let mut text = serde_json::to_vec_pretty(&waterfall_json::document(&spec, &rtts, args.rate))?;
        text.push(b'\n');
        Ok(text)
    };
    match &args.json {
        Some(path) if path == Path::new("-") => crate::print(&document()?)?,
        to => {
            crate::print(waterfall::render(&spec, &rtts, args.rate, look()).as_bytes())?;
            if let Some(path) = to {
                let document = document()?;
                output::write(path, |to| to.write_all(&document))
                    .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// As wide as the terminal, and in colour on one.
fn look() -> waterfall::Look {
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    waterfall::Look { width: crate::columns().clamp(40, 160), colour }
}
