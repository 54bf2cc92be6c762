//! What `cp` and `sync` share: files on their way between here and a server.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use dav::{
    RemotePath,
    transfer::{self, Event, Options, Summary, Watch},
};

use super::{Outcome, progress::Progress, report::Report, runtime::Stop, session::Session, verbosity::Verbosity};

/// From where to where.
pub(super) enum Route<'a> {
    Up(&'a [PathBuf], &'a RemotePath),
    Down(&'a [RemotePath], &'a Path),
}

/// What of the settings bears on a transfer.
pub(super) fn options(session: &Session) -> Options {
    let settings = &session.settings;
    Options {
        lock: settings.lock,
        verify: settings.verify,
        temporary: settings.temporary,
        connections: settings.client.connections,
        owner: session.user.clone().or_else(login).unwrap_or_else(|| "longhaul".into()),
        ..Options::default()
    }
}

/// Moves, and shows how far it is.
pub(super) async fn transfer(
    session: &Session,
    route: Route<'_>,
    options: &Options,
    stop: &Stop,
    mut report: Report,
    verbosity: &Verbosity,
) -> Outcome {
    let progress = Arc::new(Progress::new(&report, options.dry_run, verbosity)?);
    let hearer = progress.clone();
    let watch: Watch = Arc::new(move |event: Event<'_>| hearer.hear(&event));
    let stop = stop.minded();
    let (name, summary) = match route {
        Route::Up(sources, to) => {
            (to.to_string(), transfer::upload(&session.dav, sources, to, options, stop, &watch).await)
        }
        Route::Down(sources, to) => {
            (to.display().to_string(), transfer::download(&session.dav, sources, to, options, stop, &watch).await)
        }
    };
    progress.clear();
    let summary = summary.unwrap_or_else(|why| {
        report.fail(name, why);
        Summary::default()
    });
    progress.finish(report, &summary)
}

/// Who sits here, for others who meet a lock.
fn login() -> Option<String> {
    std::env::var("USER").ok().filter(|name| !name.is_empty())
}
