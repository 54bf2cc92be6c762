//! `haul cp`: copy files to, from, on and between servers.

use std::{path::PathBuf, sync::Arc};

use dav::transfer::{Skip, Verify};
use serde::Serialize;

use crate::files::{
    Outcome, cat,
    options::existing::ExistingFiles,
    options::filters::FilterOptions,
    options::output::OutputOptions,
    options::{ConnectionOptions, DryRun, FileOptions, TransferOptions},
    results::Results,
    runtime::Stop,
    server_side::{Relocated, Verb, relocate},
    session::Session,
    session::location::{Location, Remote, locations, single_server},
    session::selection::select,
    stdin,
    transfer::{self, Route, transfer},
};
use crate::usage;

/// Copy files to, from, on or between servers
///
/// Sources and target are URLs (http, https, dav, davs) or local paths. As with cp(1), an existing target folder receives
/// the sources; otherwise the single source is copied to that name. `-` is standard input or output. Sources on a server
/// may have wildcards: `*` and `[abc]`, in quotes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Sources, and the target last
    #[arg(value_name = "FILE|URL", required = true, num_args = 2..)]
    places: Vec<String>,
    /// Copy folders recursively
    #[arg(short, long)]
    recursive: bool,
    /// As in cp(1); refused, with what to use instead
    #[arg(short, long, hide = true)]
    archive: bool,
    #[command(flatten)]
    dry_run: DryRun,
    /// Resume an interrupted copy: skip files of the same length that are not older, and continue large files where they
    /// stopped (uploads: only to Apache and Nextcloud)
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    existing: ExistingFiles,
    #[command(flatten)]
    filters: FilterOptions,
    #[command(flatten)]
    file_options: FileOptions,
    #[command(flatten)]
    transfer_options: TransferOptions,
    #[command(flatten)]
    output_options: OutputOptions,
    #[command(flatten)]
    connection: ConnectionOptions,
}

#[derive(Serialize)]
struct Done {
    copied: Vec<Relocated>,
}

pub(super) async fn run(args: Args, stop: Arc<Stop>) -> Outcome {
    if args.archive {
        return Err(usage(
            "cp has no -a: WebDAV keeps no owners, permissions and links; use -r to copy folders, with `--links follow` to \
             copy what symbolic links point to. Downloads get the server's times; servers that can (Nextcloud, ownCloud, \
             haul serve) keep those of uploads",
        ));
    }
    let places = locations(&args.places)?;
    let (sources, to) = split(&places)?;
    let filter = args.filters.read()?;
    let apart = to.remote().zip(sources.there.first()).filter(|(to, from)| !to.is_same_server(from));
    if !args.filters.is_empty() && !sources.there.is_empty() && to.remote().is_some() && apart.is_none() {
        return Err(usage("filters do not apply to copies on one server, which copies folders as a whole"));
    }
    let mut report = Results::new("cp", args.connection.json.as_deref());
    if apart.is_some() {
        args.connection.for_two_servers()?;
    }
    let one = single_server(sources.there.iter().copied().chain(to.remote().filter(|_| apart.is_none())))?;
    let session = Session::open(one, &args.connection, &args.transfer_options).await?;
    let second = match to {
        Location::Remote(to) if apart.is_some() => {
            Some(Session::open(to, &args.connection, &args.transfer_options).await?)
        }
        _ => None,
    };
    let skip = if args.resume { Skip::SameSizeAndTime } else { Skip::Nothing };
    let (recursive, resume, dry_run) = (args.recursive, args.resume, args.dry_run.dry_run);
    let options = args.file_options.apply(transfer::options(second.as_ref().unwrap_or(&session)));
    let options = args.existing.apply(dav::transfer::Options { recursive, skip, resume, filter, dry_run, ..options });
    if dry_run && (sources.is_stdin() || to.here().is_some_and(|to| to.as_os_str() == "-")) {
        return Err(usage("--dry-run is not possible with standard input or output"));
    }
    if sources.is_stdin() {
        let Location::Remote(to) = to else {
            return Err(usage("the target of standard input must be a file on a server"));
        };
        return stdin::from_stdin(&session, &to.path, &stop, report).await;
    }
    let selected = select(&session, sources.there.iter().copied(), &mut report).await;
    let there: Vec<_> = selected.iter().map(|source| source.path.clone()).collect();
    if there.is_empty() && sources.here.is_empty() {
        return report.finish(Done { copied: Vec::new() });
    }
    match to {
        Location::Remote(to) if there.is_empty() => {
            transfer(&session, Route::Up(&sources.here, &to.path), &options, &stop, report, &args.output_options).await
        }
        Location::Local(to) if to.as_os_str() == "-" => {
            if report.owns_stdout() {
                return Err(usage("standard output is for the files; write the JSON to a file"));
            }
            cat::print_all(&session, &there, session.settings.verify == Verify::Digest, report).await
        }
        Location::Local(to) => {
            transfer(&session, Route::Down(&there, to), &options, &stop, report, &args.output_options).await
        }
        Location::Remote(to) => {
            if let Some(second) = &second {
                let route = Route::Across(&there, second, &to.path);
                return transfer(&session, route, &options, &stop, report, &args.output_options).await;
            }
            let (verb, output) = (Verb::Copy { recursive, dry_run }, &args.output_options);
            let copied = relocate(&session, verb, selected, &to.path, &mut report, output).await;
            report.finish(Done { copied })
        }
    }
}

pub(super) struct Sources<'a> {
    pub(super) here: Vec<PathBuf>,
    pub(super) there: Vec<&'a Remote>,
}

impl Sources<'_> {
    /// Whether it is standard input.
    pub(super) fn is_stdin(&self) -> bool {
        self.here.iter().any(|path| path.as_os_str() == "-")
    }
}

/// The sources, either all local or all remote, and the target.
pub(super) fn split(places: &[Location]) -> Result<(Sources<'_>, &Location), Box<dyn std::error::Error>> {
    let Some((to, from)) = places.split_last() else {
        return Err(usage("give at least one source, and the target last"));
    };
    let mut sources = Sources { here: Vec::new(), there: Vec::new() };
    for place in from {
        match place {
            Location::Local(path) => sources.here.push(path.clone()),
            Location::Remote(remote) => sources.there.push(remote),
        }
    }
    if !sources.here.is_empty() && !sources.there.is_empty() {
        return Err(usage("the sources are both local and remote; use one command for each"));
    }
    if sources.is_stdin() && sources.here.len() > 1 {
        return Err(usage("`-` is standard input and must be the only source; write ./- for a file of this name"));
    }
    if sources.there.is_empty() && to.remote().is_none() {
        return Err(usage("all paths are local; use cp(1) or mv(1), or a URL that begins with http:// or https://"));
    }
    Ok((sources, to))
}
