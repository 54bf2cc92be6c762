//! Transfers, as `cp` and `sync` run them: with progress, events and retries.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
};

use dav::{
    RemotePath,
    transfer::{self, AlreadyCopied, Event, Options, Skip, Summary, Watch},
};

use crate::files::{
    Outcome, options::output::OutputOptions, results::Results, results::progress::Progress, runtime::Stop,
    session::Session,
};

/// Sources and target.
pub(super) enum Route<'a> {
    Up(&'a [PathBuf], &'a RemotePath),
    Down(&'a [RemotePath], &'a Path),
    /// Between servers.
    Across(&'a [RemotePath], &'a Session, &'a RemotePath),
}

/// The transfer options that come from the settings.
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

/// A transfer that has ended and whose results are not printed yet.
pub(super) struct Transferred {
    progress: Arc<Progress>,
    report: Results,
    pub(super) summary: Summary,
    /// The files that have been copied and verified.
    pub(super) copied: AlreadyCopied,
}

impl Transferred {
    /// Records what failed afterwards.
    pub(super) fn fail(&mut self, path: String, why: dav::Error) {
        self.progress.on_event(&Event::Failed { path: &path, why: &why });
        self.summary.failed.push((path, why));
    }

    /// Whether everything was transferred.
    pub(super) fn is_complete(&self) -> bool {
        self.report.is_good() && self.summary.failed.is_empty()
    }

    /// Prints the last line and writes the JSON.
    pub(super) fn finish(self) -> Outcome {
        self.progress.clear();
        self.progress.finish(self.report, &self.summary)
    }
}

/// Runs a transfer with its retries, and shows the progress.
pub(super) async fn transfer(
    session: &Session,
    route: Route<'_>,
    options: &Options,
    stop: &Stop,
    report: Results,
    output_options: &OutputOptions,
) -> Outcome {
    attempts(session, route, options, stop, report, output_options).await?.finish()
}

/// Runs a transfer with its retries.
pub(super) async fn attempts(
    session: &Session,
    route: Route<'_>,
    options: &Options,
    stop: &Stop,
    mut report: Results,
    output_options: &OutputOptions,
) -> Result<Transferred, Box<dyn Error>> {
    let progress = Arc::new(Progress::new(&report, options.dry_run, output_options)?);
    let already_copied = AlreadyCopied::new();
    let (hearer, heard) = (progress.clone(), already_copied.clone());
    let watch: Watch = Arc::new(move |event: Event<'_>| {
        if let Event::Done { path, .. } = event {
            heard.add(path);
        }
        hearer.on_event(&event);
    });
    let notified = stop.notified();
    let mut options = options.clone();
    let mut all = Summary::default();
    for attempt in 1..=output_options.retries() {
        let (name, summary) = match route {
            Route::Up(sources, to) => {
                (to.to_string(), transfer::upload(&session.dav, sources, to, &options, notified, &watch).await)
            }
            Route::Down(sources, to) => (
                to.display().to_string(),
                transfer::download(&session.dav, sources, to, &options, notified, &watch).await,
            ),
            Route::Across(sources, second, to) => {
                let (from, to_there) = ((&session.dav, sources), (&second.dav, to));
                (to.to_string(), transfer::relay(from, to_there, &options, notified, &watch).await)
            }
        };
        let again = attempt < output_options.retries() && !stop.is_requested();
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
                options.already_copied = already_copied.clone();
            }
            continue;
        }
        let summary = summary.unwrap_or_else(|why| {
            report.fail(name, why);
            Summary::default()
        });
        all.add(summary);
        break;
    }
    Ok(Transferred { progress, report, summary: all, copied: already_copied })
}

/// The local user, as the owner of locks.
pub(super) fn login() -> Option<String> {
    std::env::var("USER").ok().filter(|name| !name.is_empty())
}
