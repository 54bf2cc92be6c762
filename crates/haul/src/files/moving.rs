//! What `cp` and `sync` share: files on their way between here and a server.

use std::path::{Path, PathBuf};

use dav::{
    RemotePath,
    transfer::{self, Options, Skip, Summary},
};

use super::{Outcome, progress::Progress, report::Report, session::Session};

/// From where to where.
pub(super) enum Route<'a> {
    Up(&'a [PathBuf], &'a RemotePath),
    Down(&'a [RemotePath], &'a Path),
}

/// What of the settings bears on a transfer.
pub(super) fn options(session: &Session) -> Options {
    let settings = &session.settings;
    Options {
        recursive: false,
        lock: settings.lock,
        verify: settings.verify,
        skip: Skip::Nothing,
        temporary: settings.temporary,
        delete: false,
        dry_run: false,
        connections: settings.client.connections,
        owner: session.user.clone().or_else(login).unwrap_or_else(|| "longhaul".into()),
    }
}

/// Moves, and shows how far it is.
pub(super) async fn transfer(
    session: &Session,
    route: Route<'_>,
    options: &Options,
    report: Report,
    keep: bool,
) -> Outcome {
    let progress = Progress::new(&report, options.dry_run, keep);
    let watch = |event: transfer::Event<'_>| progress.hear(&event);
    let summary: Result<Summary, dav::Error> = match route {
        Route::Up(sources, to) => transfer::upload(&session.dav, sources, to, options, &watch).await,
        Route::Down(sources, to) => transfer::download(&session.dav, sources, to, options, &watch).await,
    };
    let summary = summary?;
    progress.finish(report, &summary)
}

/// Who sits here, for others who meet a lock.
fn login() -> Option<String> {
    std::env::var("USER").ok().filter(|name| !name.is_empty())
}
