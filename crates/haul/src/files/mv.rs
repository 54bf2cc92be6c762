//! `haul mv`: rename and move files, on a server, to and from it, and between servers.
//!
//! On one server a MOVE does all. Otherwise a move is a copy with its verification, after which the sources that have not
//! changed are removed ([`dav::transfer::LocalSources`], [`dav::transfer::RemoteSources`]). Nothing is removed before
//! everything that can be copied has been, so that an interrupted move has only copied.

use std::{path::Path, sync::Arc};

use dav::transfer::{LocalSources, Options, RemoteSources, Verify};
use serde::Serialize;

use crate::files::{
    Outcome,
    cp::{self, Sources},
    options::output::OutputOptions,
    options::{ConnectionOptions, DryRun, TransferOptions},
    results::Results,
    runtime::Stop,
    server_side::{Relocated, Verb, relocate},
    session::Session,
    session::location::{Location, locations, single_server},
    session::selection::select,
    transfer::{self, Route, Transferred},
};
use crate::usage;

/// Move files and folders on, to, from or between servers
///
/// As with mv(1), an existing target folder receives the sources; otherwise the single source gets that name. Between a
/// server and this machine, or two servers, files are copied and verified, and then their sources are removed. Sources on a
/// server may have wildcards: `*` and `[abc]`, in quotes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Sources, and the target last
    #[arg(value_name = "FILE|URL", required = true)]
    places: Vec<String>,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    transfer_options: TransferOptions,
    #[command(flatten)]
    output_options: OutputOptions,
    #[command(flatten)]
    connection: ConnectionOptions,
}

#[derive(Serialize)]
struct Done {
    moved: Vec<Relocated>,
}

pub(super) async fn run(args: Args, stop: Arc<Stop>) -> Outcome {
    let places = locations(&args.places)?;
    let (sources, to) = cp::split(&places)?;
    if sources.here.is_empty() && sources.there.is_empty() {
        return Err(usage("give at least one source, and the target last"));
    }
    let report = Results::new("mv", args.connection.json.as_deref());
    match to {
        Location::Remote(to) if !sources.here.is_empty() => {
            let session = Session::open(to, &args.connection, &args.transfer_options).await?;
            args.up(&session, &sources, &to.path, &stop, report).await
        }
        Location::Remote(to) if sources.there.iter().all(|source| source.is_same_server(to)) => {
            let session = Session::open(to, &args.connection, &args.transfer_options).await?;
            let mut report = report.listing_each_failure(args.output_options.is_verbose());
            let selected = select(&session, sources.there, &mut report).await;
            if selected.is_empty() {
                return report.finish(Done { moved: Vec::new() });
            }
            let verb = Verb::Move { dry_run: args.dry_run.dry_run };
            let moved = relocate(&session, verb, selected, &to.path, &mut report, &args.output_options).await;
            report.finish(Done { moved })
        }
        to => args.away(&sources, to, &stop, report).await,
    }
}

impl Args {
    /// Local files to a server.
    async fn up(
        &self,
        session: &Session,
        sources: &Sources<'_>,
        to: &dav::RemotePath,
        stop: &Stop,
        report: Results,
    ) -> Outcome {
        if sources.is_stdin() {
            return Err(usage("standard input cannot be moved; use haul cp"));
        }
        let before = LocalSources::look(&sources.here)?;
        let route = Route::Up(&sources.here, to);
        let (options, output) = (self.options(session), &self.output_options);
        let mut done = transfer::attempts(session, route, &options, stop, report, output).await?;
        if self.removes(stop) {
            for (path, why) in before.remove(&done.copied, done.is_complete()) {
                done.fail(path, why);
            }
        }
        done.finish()
    }

    /// Files on a server to this machine, or to another server.
    async fn away(&self, sources: &Sources<'_>, to: &Location, stop: &Stop, mut report: Results) -> Outcome {
        if to.remote().is_some() {
            self.connection.for_two_servers()?;
        }
        if to.here().is_some_and(|to| to.as_os_str() == "-") {
            return Err(usage("files cannot be moved to standard output; use haul cp"));
        }
        let from = single_server(sources.there.iter().copied())?;
        let session = Session::open(from, &self.connection, &self.transfer_options).await?;
        let second = match to {
            Location::Remote(to) => Some(Session::open(to, &self.connection, &self.transfer_options).await?),
            Location::Local(_) => None,
        };
        let selected = select(&session, sources.there.iter().copied(), &mut report).await;
        let paths: Vec<_> = selected.into_iter().map(|found| found.path).collect();
        if paths.is_empty() {
            return report.finish(Done { moved: Vec::new() });
        }
        let before = RemoteSources::look(&session.dav, &paths).await?;
        let route = match (to, &second) {
            (Location::Remote(to), Some(second)) => Route::Across(&paths, second, &to.path),
            (to, _) => Route::Down(&paths, to.here().unwrap_or(Path::new("."))),
        };
        let options = self.options(second.as_ref().unwrap_or(&session));
        let mut done = transfer::attempts(&session, route, &options, stop, report, &self.output_options).await?;
        if self.removes(stop) && on_disk(to, &mut done) {
            for (path, why) in before.remove(&session.dav, &done.copied, done.is_complete()).await {
                done.fail(path, why);
            }
        }
        done.finish()
    }

    fn options(&self, target: &Session) -> Options {
        let options = transfer::options(target);
        // The source of a file that nobody has looked at is not removed.
        let verify = if options.verify == Verify::None { Verify::Size } else { options.verify };
        Options { recursive: true, dry_run: self.dry_run.dry_run, verify, ..options }
    }

    /// Whether sources are removed. An interrupted transfer calls files done that it has not verified.
    fn removes(&self, stop: &Stop) -> bool {
        !self.dry_run.dry_run && !stop.is_requested()
    }
}

/// Whether downloaded files are on the disk.
fn on_disk(to: &Location, done: &mut Transferred) -> bool {
    let Some(target) = to.here().filter(|_| done.summary.files > 0) else { return true };
    let flushed = RemoteSources::flush(target);
    flushed.map_err(|why| done.fail(target.display().to_string(), why)).is_ok()
}
