//! `haul sync`: make a folder like another.

use std::{error::Error, sync::Arc};

use clap::ValueEnum;
use dav::transfer::{Options, Skip};

use super::{
    Outcome,
    deletion::Deletion,
    filters::Filters,
    memory,
    moving::{self, Route, transfer},
    options::{Manner, Selection, Way},
    place::{Place, Remote, place},
    report::Report,
    runtime::Stop,
    session::Session,
    sparing::Sparing,
    verbosity::Verbosity,
};
use crate::usage;

/// Make a folder like another: from here to a server, from a server to here, or from one server to another
///
/// Copies the files of FROM that are missing or different in TO; with --delete, deletes in TO what is not in FROM. Never
/// changes FROM.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Source folder
    #[arg(value_name = "FROM")]
    from: String,
    /// Target folder
    #[arg(value_name = "TO")]
    to: String,
    /// Change nothing, and print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Keep what has arrived of a large file when interrupted, and go on from there the next time (not between servers)
    #[arg(long)]
    resume: bool,
    /// How to detect unchanged files
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    by: By,
    #[command(flatten)]
    deletion: Deletion,
    #[command(flatten)]
    sparing: Sparing,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    way: Way,
}

#[derive(ValueEnum, Debug, Clone, Copy, Default, PartialEq, Eq)]
enum By {
    /// Same length, and both sides as last seen; else by their times
    #[default]
    Time,
    /// The same digest
    Digest,
}

pub(super) async fn run(args: Args, stop: Arc<Stop>) -> Outcome {
    let report = Report::new("sync", args.way.json.as_deref());
    let (from, to) = (place(&args.from).map_err(usage)?, place(&args.to).map_err(usage)?);
    let remote = match (&from, &to) {
        (Place::There(from), Place::There(remote)) => return between((from, remote), &to, &args, &stop, report).await,
        (Place::Here(_), Place::There(remote)) | (Place::There(remote), Place::Here(_)) => remote,
        (Place::Here(_), Place::Here(_)) => return Err(usage("both are here: one of them is to be a URL")),
    };
    if let Place::Here(from) = &from
        && std::fs::metadata(from).is_ok_and(|kind| !kind.is_dir())
    {
        let from = from.display();
        return Err(usage(format_args!("{from} is no folder, and sync is about folders: haul cp copies a file")));
    }
    let session = Session::open(remote, &args.way, &args.manner).await?;
    let path = remote.path.clone().as_folder(true);
    let mirror = from.here().or(to.here()).and_then(|here| memory::mirror(&remote.origin, session.who, &path, here));
    let (remembers, last_seen) = mirror.map(|mirror| (mirror.listing, mirror.last_seen)).unzip();
    let options = Options { remembers, last_seen, ..args.options(&session, &to)? };
    match (&from, &to) {
        (Place::Here(from), _) => {
            transfer(&session, Route::Up(std::slice::from_ref(from), &path), &options, &stop, report, &args.verbosity)
                .await
        }
        (_, Place::Here(to)) => {
            transfer(&session, Route::Down(std::slice::from_ref(&path), to), &options, &stop, report, &args.verbosity)
                .await
        }
        _ => Err(usage("one of them is to be here")),
    }
}

/// From one server to another, or from one folder of a server to another.
async fn between((from, remote): (&Remote, &Remote), to: &Place, args: &Args, stop: &Stop, report: Report) -> Outcome {
    let is_one = remote.is_same_server(from);
    if !is_one && (!args.way.header.is_empty() || args.way.password_file.is_some()) {
        return Err(usage("--header and --password-file are for one server, and these are two: use the settings file"));
    }
    let session = Session::open(from, &args.way, &args.manner).await?;
    let second = if is_one { None } else { Some(Session::open(remote, &args.way, &args.manner).await?) };
    let target = second.as_ref().unwrap_or(&session);
    let (source, path) = (from.path.clone().as_folder(true), remote.path.clone().as_folder(true));
    let last_seen = memory::relayed((&from.origin, session.who, &source), (&remote.origin, target.who, &path));
    let options = Options { last_seen, ..args.options(target, to)? };
    let route = Route::Across(std::slice::from_ref(&source), target, &path);
    transfer(&session, route, &options, stop, report, &args.verbosity).await
}

impl Args {
    /// How the target is made like the source.
    fn options(&self, target: &Session, to: &Place) -> Result<Options, Box<dyn Error>> {
        let options = Options {
            recursive: true,
            contents: true,
            skip: match self.by {
                By::Time => Skip::SameSizeAndTime,
                By::Digest => Skip::SameDigest,
            },
            resume: self.resume,
            filter: self.filters.read()?,
            dry_run: self.dry_run,
            ..self.selection.apply(moving::options(target))
        };
        self.deletion.apply(self.sparing.apply(options), to)
    }
}
