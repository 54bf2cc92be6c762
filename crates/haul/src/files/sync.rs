//! `haul sync`: make a folder like another.

use std::sync::Arc;

use clap::ValueEnum;
use dav::transfer::Skip;

use super::{
    Outcome,
    deletion::Deletion,
    filters::Filters,
    memory,
    moving::{self, Route, transfer},
    options::{Manner, Selection, Way},
    place::{Place, place},
    report::Report,
    runtime::Stop,
    session::Session,
    sparing::Sparing,
    verbosity::Verbosity,
};
use crate::usage;

/// Make a folder on a server like one here, or one here like one on a server
///
/// What is in FROM is copied into TO, where it is missing or different; with --delete, what FROM has not is deleted in
/// TO. FROM is never changed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder that is as it should be
    #[arg(value_name = "FROM")]
    from: String,
    /// The folder that is to become like it
    #[arg(value_name = "TO")]
    to: String,
    /// Change nothing, and print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Large files from a server that are interrupted leave what has come, and go on from there the next time
    #[arg(long)]
    resume: bool,
    /// By what a file is known to be the same
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
    /// The same length, and both sides as they were last seen; else times by which it is a copy
    #[default]
    Time,
    /// The same digest
    Digest,
}

pub(super) async fn run(args: Args, stop: Arc<Stop>) -> Outcome {
    let report = Report::new("sync", args.way.json.as_deref());
    let (from, to) = (place(&args.from).map_err(usage)?, place(&args.to).map_err(usage)?);
    let remote = match (&from, &to) {
        (Place::Here(_), Place::There(remote)) | (Place::There(remote), Place::Here(_)) => remote,
        (Place::Here(_), Place::Here(_)) => return Err(usage("both are here: one of them is to be a URL")),
        (Place::There(_), Place::There(_)) => return Err(usage("both are on a server: one of them is to be here")),
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
    let options = dav::transfer::Options {
        recursive: true,
        contents: true,
        skip: match args.by {
            By::Time => Skip::SameSizeAndTime,
            By::Digest => Skip::SameDigest,
        },
        resume: args.resume,
        filter: args.filters.read()?,
        dry_run: args.dry_run,
        remembers,
        last_seen,
        ..args.selection.apply(moving::options(&session))
    };
    let options = args.deletion.apply(args.sparing.apply(options), &to)?;
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
