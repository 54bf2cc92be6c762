//! What `cp` and `sync` share: files on their way between here and a server.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use dav::{
    RemotePath,
    transfer::{self, AlreadyCopied, Event, Options, Skip, Summary, Watch},
};

use super::{Outcome, progress::Progress, report::Report, runtime::Stop, session::Session, verbosity::Verbosity};

/// From where to where.
pub(super) enum Route<'a> {
    Up(&'a [PathBuf], &'a RemotePath),
    Down(&'a [RemotePath], &'a Path),
    /// To another server.
    Across(&'a [RemotePath], &'a Session, &'a RemotePath),
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
    let settled = AlreadyCopied::new();
    let (hearer, heard) = (progress.clone(), settled.clone());
    let watch: Watch = Arc::new(move |event: Event<'_>| {
        if let Event::Done { path, .. } = event {
            heard.add(path);
        }
        hearer.hear(&event);
    });
    let minded = stop.minded();
    let mut options = options.clone();
    let mut all = Summary::default();
    for attempt in 1..=verbosity.retries() {
        let (name, summary) = match route {
            Route::Up(sources, to) => {
                (to.to_string(), transfer::upload(&session.dav, sources, to, &options, minded, &watch).await)
            }
            Route::Down(sources, to) => (
                to.display().to_string(),
                transfer::download(&session.dav, sources, to, &options, minded, &watch).await,
            ),
            Route::Across(sources, second, to) => {
                let (from, to_there) = ((&session.dav, sources), (&second.dav, to));
                (to.to_string(), transfer::relay(from, to_there, &options, minded, &watch).await)
            }
        };
        let again = attempt < verbosity.retries() && !stop.is_wished();
        let failed = match &summary {
            Ok(summary) => summary.failed.len(),
            Err(_) => 1,
        };
        if again && failed > 0 {
            let why = summary.as_ref().err().map(|why| format!(": {why}")).unwrap_or_default();
            progress.begin_again(&format!("{failed} failed, so it is tried again{why}"));
            all.add(summary.unwrap_or_default());
            // What has been copied is not copied again. A mirror sees that itself.
            if options.skip == Skip::Nothing {
                options.settled = settled.clone();
            }
            continue;
        }
        progress.clear();
        let summary = summary.unwrap_or_else(|why| {
            report.fail(name, why);
            Summary::default()
        });
        all.add(summary);
        break;
    }
    progress.finish(report, &all)
}

/// Who sits here, for others who meet a lock.
fn login() -> Option<String> {
    std::env::var("USER").ok().filter(|name| !name.is_empty())
}
