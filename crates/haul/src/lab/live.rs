//! A run while it goes on: a file in its folder tells whoever asks how far it is, and with `--open` a page does.
//!
//! `haul lab watch` is another process, perhaps begun later, perhaps ended before. So the run does not know it: it
//! keeps `live.json` up to date, which also is its sign of life, and ends when somebody puts a file `cancel` beside it.

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
    live::{Live, Stage},
    results,
    run::Event,
};
use report::live::{Door, Server};

use super::{Place, REPORT};
use crate::{say, usage};

/// What tells of a run that goes on.
const LIVE: &str = "live.json";

/// What ends it, by being there.
const CANCEL: &str = "cancel";

/// How soon others hear of something.
const SOON: Duration = Duration::from_millis(250);

/// How often there is a sign of life where nothing happens.
const ALIVE: Duration = Duration::from_secs(2);

/// What has given no sign of life for so long is dead.
const DEAD: Duration = Duration::from_secs(30);

/// Removes from a run's folder what is there only while it goes on.
pub(super) fn clear(folder: &Path) {
    for name in [LIVE, CANCEL] {
        let _ = fs::remove_file(folder.join(name));
    }
}

/// Tells of a run, until it is dropped.
pub(super) struct Telling {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Option<Server>>>,
    folder: PathBuf,
}

struct Shared {
    news: Mutex<News>,
    end: Condvar,
}

struct News {
    live: Live,
    fresh: bool,
    over: bool,
}

impl Telling {
    /// Of a run that began at `began` and is kept in `folder`, to `door` as well if there is one; `cancel` ends it.
    pub(super) fn start(
        live: Live,
        folder: &Path,
        door: Option<Door>,
        began: Instant,
        cancel: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let cancel = Arc::new(cancel);
        let on_page = cancel.clone();
        let server = door.map(|door| door.serve(&live, move || on_page())).transpose()?;
        let shared =
            Arc::new(Shared { news: Mutex::new(News { live, fresh: true, over: false }), end: Condvar::new() });
        let (of_thread, folder) = (shared.clone(), folder.to_owned());
        let in_folder = folder.clone();
        let tell = move || {
            of_thread.tell(&in_folder, server.as_ref(), began, &*cancel);
            server
        };
        let thread = thread::Builder::new().name("live file".into()).spawn(tell)?;
        Ok(Self { shared, thread: Some(thread), folder })
    }

    pub(super) fn hear(&self, event: &Event<'_>) {
        self.change(|live| live.hear(event));
    }

    pub(super) fn enter(&self, stage: Stage) {
        self.change(|live| live.enter(stage));
    }

    fn change(&self, change: impl FnOnce(&mut Live)) {
        let mut news = self.shared.news();
        change(&mut news.live);
        news.fresh = true;
    }

    /// Shows the report to whoever watches.
    pub(super) fn finish(mut self) {
        self.enter(Stage::Ended);
        let Some(server) = self.end() else { return };
        if let Ok(report) = fs::read(self.folder.join(REPORT)) {
            server.finish(&self.shared.news().live, report);
        }
    }

    fn end(&mut self) -> Option<Server> {
        self.shared.news().over = true;
        self.shared.end.notify_all();
        let server = self.thread.take().and_then(|thread| thread.join().ok().flatten());
        clear(&self.folder);
        server
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, folder: &Path, server: Option<&Server>, began: Instant, cancel: &dyn Fn()) {
        let mut told: Option<Instant> = None;
        let mut news = self.news();
        while !news.over {
            if news.fresh || told.is_none_or(|told| told.elapsed() >= ALIVE) {
                news.fresh = false;
                news.live.at(began.elapsed());
                let live = news.live.clone();
                drop(news);
                told = Some(Instant::now());
                // A disk that is full ends the run by itself; nobody is kept from measuring by this.
                let _ = write(folder, &live);
                if let Some(server) = server {
                    server.publish(&live);
                }
                if folder.join(CANCEL).exists() {
                    cancel();
                }
                news = self.news();
            }
            if !news.over {
                (news, _) = self.end.wait_timeout(news, SOON).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Nobody reads half of it: it is moved to its place.
fn write(folder: &Path, live: &Live) -> io::Result<()> {
    let next = folder.join(".live.json.next");
    fs::write(&next, serde_json::to_vec(live)?)?;
    fs::rename(next, folder.join(LIVE))
}

/// Serves the page of a run that another process makes, until it ends.
pub(super) fn watch(place: &Place, id: Option<&str>) -> Result<ExitCode, Box<dyn Error>> {
    let folder = going_on(&place.runs, id)?;
    let (file, cancel) = (folder.join(LIVE), folder.join(CANCEL));
    let mut live = read(&file)?;
    let door = Door::open().map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?;
    let url = door.url();
    let end = move || {
        if let Err(error) = fs::write(&cancel, "") {
            say(format_args!("cannot end the run: {}: {error}; press Ctrl-C where it runs", cancel.display()));
        }
    };
    let server = door.serve(&live, end).map_err(|error| format!("cannot serve the page: {error}"))?;
    say(format_args!("watch it at {url}"));
    let mut told = SystemTime::UNIX_EPOCH;
    loop {
        thread::sleep(SOON);
        let changed = match fs::metadata(&file).and_then(|file| file.modified()) {
            Ok(changed) => changed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(format!("cannot read {}: {error}", file.display()).into()),
        };
        if changed != told {
            told = changed;
            if let Ok(next) = read(&file) {
                live = next;
                server.publish(&live);
            }
        } else if changed.elapsed().is_ok_and(|silent| silent > DEAD) {
            let folder = folder.display();
            return Err(format!(
                "the run in {folder} gives no sign of life and was probably killed; its samples.csv has what it measured"
            )
            .into());
        }
    }
    let report = fs::read(folder.join(REPORT))
        .map_err(|_| format!("the run ended, and there is no report in {}; it says why itself", folder.display()))?;
    live.enter(Stage::Ended);
    server.finish(&live, report);
    say(format_args!("it has ended: {}", folder.join(REPORT).display()));
    Ok(ExitCode::SUCCESS)
}

/// The folder of the run that is meant, which must still go on.
fn going_on(runs: &Path, id: Option<&str>) -> Result<PathBuf, Box<dyn Error>> {
    let goes_on = |folder: &PathBuf| folder.join(LIVE).exists();
    let Some(id) = id else {
        let mut all = results::ids(runs)?.into_iter().map(|id| runs.join(id));
        let none = || usage(format_args!("no run goes on in {}; `haul lab run` begins one", runs.display()));
        return all.find(goes_on).ok_or_else(none);
    };
    let places = [runs.join(id), PathBuf::from(id)];
    let over = || {
        usage(format_args!("no run called `{id}` goes on in {}; `haul lab list` shows those there are", runs.display()))
    };
    places.into_iter().find(goes_on).ok_or_else(over)
}

fn read(file: &Path) -> Result<Live, String> {
    let json = fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    serde_json::from_slice(&json).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
