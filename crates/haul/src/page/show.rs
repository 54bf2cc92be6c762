//! `haul page show`.

use std::{
    error::Error,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use ::page::{Spec, json, text};
use units::{Rate, Span};

/// Draw a page's waterfall; name its depth, its critical path, and its floors
///
/// Nothing is loaded: the times are those of an ideal network, over the recorded connections with TCP's slow start, and
/// are what a measured load can be compared with. The floor is what no protocol can save.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A spec, or a page that comes with the program: wikipedia, amazon
    #[arg(value_name = "SPEC")]
    spec: String,

    /// At these round-trip times; the waterfall is drawn at the last
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', default_value = "21ms,85ms,172ms")]
    rtt: Vec<Span>,

    /// At this rate; left out: without a limit
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Write it (schema longhaul.page-show/1) to this file as well; `-`: to standard output, in its place
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let spec = Spec::find(&args.spec)?;
    let rtts: Vec<_> = args.rtt.iter().map(|rtt| rtt.0).collect();
    let document = || -> Result<Vec<u8>, Box<dyn Error>> {
        let mut text = serde_json::to_vec_pretty(&json::document(&spec, &rtts, args.rate))?;
        text.push(b'\n');
        Ok(text)
    };
    match &args.json {
        Some(path) if path == Path::new("-") => crate::print(&document()?)?,
        to => {
            crate::print(text::render(&spec, &rtts, args.rate, look()).as_bytes())?;
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
fn look() -> text::Look {
    let width = console::Term::stdout().size_checked().map_or(110, |(_, columns)| usize::from(columns));
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    text::Look { width: width.clamp(40, 160), colour }
}
