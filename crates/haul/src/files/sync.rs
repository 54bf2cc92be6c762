//! `haul sync`: mirror a folder.

use std::{error::Error, sync::Arc};

use clap::ValueEnum;
use dav::transfer::{Options, Skip};

use crate::files::{
    Outcome,
    options::deletion::DeletionOptions,
    options::existing::ExistingFiles,
    options::filters::FilterOptions,
    options::output::OutputOptions,
    options::{ConnectionOptions, DryRun, FileOptions, TransferOptions},
    results::Results,
    runtime::Stop,
    session::Session,
    session::location::{Location, Remote, location},
    session::server_cache,
    transfer::{self, Route, transfer},
};
use crate::usage;

/// Mirror a folder to a server, from a server, or between servers
///
/// Copies the files of FROM that are missing or different in TO; with --delete, deletes files that are missing in FROM. Never
/// changes FROM.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Source folder
    #[arg(value_name = "FROM")]
    from: String,
    /// Target folder
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    dry_run: DryRun,
    /// Keep the received part of an interrupted large file, and resume it the next time (not between servers)
    #[arg(long)]
    resume: bool,
    /// How to detect unchanged files
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    by: By,
    #[command(flatten)]
    deletion: DeletionOptions,
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

#[derive(ValueEnum, Debug, Clone, Copy, Default, PartialEq, Eq)]
enum By {
    /// Same length and unchanged since the last sync, or else matching times
    #[default]
    Time,
    /// The same digest
    Digest,
}

pub(super) async fn run(args: Args, stop: Arc<Stop>) -> Outcome {
    let report = Results::new("sync", args.connection.json.as_deref());
    let (from, to) = (location(&args.from).map_err(usage)?, location(&args.to).map_err(usage)?);
    let remote = match (&from, &to) {
        (Location::Remote(from), Location::Remote(remote)) => {
            return between((from, remote), &to, &args, &stop, report).await;
        }
        (Location::Local(_), Location::Remote(remote)) | (Location::Remote(remote), Location::Local(_)) => remote,
        (Location::Local(_), Location::Local(_)) => {
            return Err(usage("both folders are local; one of them must be a URL"));
        }
    };
    if let Location::Local(from) = &from
        && std::fs::metadata(from).is_ok_and(|kind| !kind.is_dir())
    {
        let from = from.display();
        return Err(usage(format_args!("{from} is not a folder; copy a file with haul cp")));
    }
    let session = Session::open(remote, &args.connection, &args.transfer_options).await?;
    let path = remote.path.clone().as_folder(true);
    let mirror =
        from.here().or(to.here()).and_then(|here| server_cache::mirror(&remote.origin, session.who, &path, here));
    let (snapshot_file, synced_versions) = mirror.map(|mirror| (mirror.snapshot, mirror.synced_versions)).unzip();
    let options = Options { snapshot_file, synced_versions, ..args.options(&session, &to)? };
    match (&from, &to) {
        (Location::Local(from), _) => {
            transfer(
                &session,
                Route::Up(std::slice::from_ref(from), &path),
                &options,
                &stop,
                report,
                &args.output_options,
            )
            .await
        }
        (_, Location::Local(to)) => {
            transfer(
                &session,
                Route::Down(std::slice::from_ref(&path), to),
                &options,
                &stop,
                report,
                &args.output_options,
            )
            .await
        }
        _ => Err(usage("one of the folders must be local")),
    }
}

/// Between two servers, or two folders of one server.
async fn between(
    (from, remote): (&Remote, &Remote),
    to: &Location,
    args: &Args,
    stop: &Stop,
    report: Results,
) -> Outcome {
    let is_one = remote.is_same_server(from);
    if !is_one {
        args.connection.for_two_servers()?;
    }
    let session = Session::open(from, &args.connection, &args.transfer_options).await?;
    let second =
        if is_one { None } else { Some(Session::open(remote, &args.connection, &args.transfer_options).await?) };
    let target = second.as_ref().unwrap_or(&session);
    let (source, path) = (from.path.clone().as_folder(true), remote.path.clone().as_folder(true));
    let synced_versions = server_cache::synced_versions_between(
        (&from.origin, session.who, &source),
        (&remote.origin, target.who, &path),
    );
    let options = Options { synced_versions, ..args.options(target, to)? };
    let route = Route::Across(std::slice::from_ref(&source), target, &path);
    transfer(&session, route, &options, stop, report, &args.output_options).await
}

impl Args {
    /// The options of the transfer.
    fn options(&self, target: &Session, to: &Location) -> Result<Options, Box<dyn Error>> {
        let options = Options {
            recursive: true,
            contents: true,
            skip: match self.by {
                By::Time => Skip::SameSizeAndTime,
                By::Digest => Skip::SameDigest,
            },
            resume: self.resume,
            filter: self.filters.read()?,
            dry_run: self.dry_run.dry_run,
            ..self.file_options.apply(transfer::options(target))
        };
        self.deletion.apply(self.existing.apply(options), to)
    }
}
