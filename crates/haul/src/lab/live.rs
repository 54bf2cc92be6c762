//! Publishing a run in progress, and watching one: [`lab::live`] has the files through which both meet.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use lab::{
    live::{self, Live, Stage},
    results::REPORT,
    run::Event,
};
use report::live::{Listener, Server};

use super::ResultsFolder;
use crate::{say, usage};

/// How often changes are published.
const INTERVAL: Duration = Duration::from_millis(250);

/// How often the state is published without a change, as a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// A run is taken for dead after this time without a sign of life.
const DEAD: Duration = Duration::from_secs(30);

/// Publishes the state of a run, until it is dropped.
pub(super) struct LivePublisher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Option<Server>>>,
    folder: PathBuf,
}

struct Shared {
    state: Mutex<State>,
    end: Condvar,
}

struct State {
    live: Live,
    has_changed: bool,
    is_over: bool,
}

impl LivePublisher {
    /// Publishes a run that began at `began`: in its `folder`, and to `listener` if there is one. `cancel` is called
    /// when a watcher cancels the run.
    pub(super) fn start(
        live: Live,
        folder: &Path,
        listener: Option<Listener>,
        began: Instant,
        cancel: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let cancel = Arc::new(cancel);
        let of_server = cancel.clone();
        let server = listener.map(|listener| listener.serve(&live, move || of_server())).transpose()?;
        let state = State { live, has_changed: true, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), end: Condvar::new() });
        let (of_thread, folder) = (shared.clone(), folder.to_owned());
        let into = folder.clone();
        let publish = move || {
            of_thread.publish(&into, server.as_ref(), began, &*cancel);
            server
        };
        let thread = thread::Builder::new().name("live file".into()).spawn(publish)?;
        Ok(Self { shared, thread: Some(thread), folder })
    }

    pub(super) fn on_event(&self, event: &Event<'_>) {
        self.change(|live| live.on_event(event));
    }

    pub(super) fn on_stage(&self, stage: Stage) {
        self.change(|live| live.enter(stage));
    }

    fn change(&self, change: impl FnOnce(&mut Live)) {
        let mut state = self.shared.state();
        change(&mut state.live);
        state.has_changed = true;
    }

    /// Shows the report to the watchers.
    pub(super) fn finish(mut self) {
        self.on_stage(Stage::Ended);
        let Some(server) = self.end() else { return };
        if let Ok(report) = fs::read(self.folder.join(REPORT)) {
            server.finish(&self.shared.state().live, report);
        }
    }

    fn end(&mut self) -> Option<Server> {
        self.shared.state().is_over = true;
        self.shared.end.notify_all();
        let server = self.thread.take().and_then(|thread| thread.join().ok().flatten());
        live::remove_files(&self.folder);
        server
    }
}

impl Drop for LivePublisher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, folder: &Path, server: Option<&Server>, began: Instant, cancel: &dyn Fn()) {
        let mut published: Option<Instant> = None;
        let mut state = self.state();
        while !state.is_over {
            if state.has_changed || published.is_none_or(|published| published.elapsed() >= HEARTBEAT) {
                state.has_changed = false;
                state.live.set_elapsed(began.elapsed());
                let live = state.live.clone();
                drop(state);
                published = Some(Instant::now());
                // A full disk ends the run elsewhere; this file is not worth it.
                let _ = live::write(folder, &live);
                if let Some(server) = server {
                    server.publish(&live);
                }
                if live::cancel_file(folder).exists() {
                    cancel();
                }
                state = self.state();
            }
            if !state.is_over {
                (state, _) = self.end.wait_timeout(state, INTERVAL).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Serves the live report of a run of another process, until that run ends.
pub(super) fn watch(folder: &ResultsFolder, id: Option<&str>) -> Result<ExitCode, Box<dyn Error>> {
    let folder = find(&folder.results, id)?;
    let (file, cancel) = (live::file(&folder), live::cancel_file(&folder));
    let mut state = live::read(&file)?;
    let listener = Listener::bind().map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?;
    let url = listener.url();
    let on_cancel = move || {
        if let Err(error) = fs::write(&cancel, "") {
            say(format_args!("cannot stop the run: {}: {error}; press Ctrl-C in its terminal", cancel.display()));
        }
    };
    let server = listener.serve(&state, on_cancel).map_err(|error| format!("cannot serve the live report: {error}"))?;
    say(format_args!("live report: {url}"));
    let mut published = SystemTime::UNIX_EPOCH;
    loop {
        thread::sleep(INTERVAL);
        let changed = match fs::metadata(&file).and_then(|file| file.modified()) {
            Ok(changed) => changed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(format!("cannot read {}: {error}", file.display()).into()),
        };
        if changed != published {
            published = changed;
            if let Ok(next) = live::read(&file) {
                state = next;
                server.publish(&state);
            }
        } else if changed.elapsed().is_ok_and(|silent| silent > DEAD) {
            let folder = folder.display();
            return Err(format!(
                "no sign of life from the run in {folder} for {DEAD:?}, so it was probably killed; its samples are in samples.csv"
            )
            .into());
        }
    }
    let report = fs::read(folder.join(REPORT)).map_err(|_| {
        format!("the run has ended without a report in {}; the terminal that runs it shows why", folder.display())
    })?;
    state.enter(Stage::Ended);
    server.finish(&state, report);
    say(format_args!("the run has ended; report: {}", folder.join(REPORT).display()));
    Ok(ExitCode::SUCCESS)
}

/// The folder of a run in progress.
fn find(runs: &Path, id: Option<&str>) -> Result<PathBuf, Box<dyn Error>> {
    live::in_progress(runs, id)?.ok_or_else(|| {
        let runs = runs.display();
        match id {
            Some(id) => usage(format_args!("no run `{id}` in progress in {runs}; `haul lab list` lists the runs")),
            None => usage(format_args!("no run in progress in {runs}; `haul lab run` starts one")),
        }
    })
}
