//! Headless Chromium, controlled over the DevTools protocol.
//!
//! The protocol is JSON messages, each ended by a zero byte, over two pipes, which Chromium expects as file descriptors
//! 3 and 4 (`--remote-debugging-pipe`). Rejected: a WebSocket, since any user of the machine could connect to its port.
//! Besides, Chromium exits by itself when the pipe closes. A shell arranges the descriptors, since no safe system call
//! does.
//!
//! One thread reads. Everything else happens in the caller, and every wait has a time limit.

pub(crate) mod completion;
mod determinism;
pub mod deviations;
mod fetches;
pub(crate) mod latency;
pub mod load;
mod paint;
pub(crate) mod targets;
mod trust;

pub use fetches::Fetch;
pub use paint::Frame;
pub use trust::Trust;

use std::{
    collections::VecDeque,
    env,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The names under which Chromium is installed, Debian's first.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// The package that brings it.
pub const PACKAGE: &str = "chromium";

/// Time limit for one response.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Time limit for exiting after a request.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum size of a message in bytes; a body is one message.
const LARGEST: u64 = 512 << 20;

/// Why the browser failed.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// It is not installed.
    #[error("Chromium is not installed; install the package `{PACKAGE}`")]
    Missing,
    /// It cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// It exited, or closed its pipe.
    #[error("Chromium ended during {asked}{said}")]
    Exited {
        /// The request.
        asked: String,
        /// Its last line on standard error, if any, after a colon.
        said: String,
    },
    /// It did not answer in time.
    #[error("Chromium did not answer {asked} within {waited:?}")]
    TimedOut {
        /// The request.
        asked: String,
        /// The time limit.
        waited: Duration,
    },
    /// It rejected a request.
    #[error("Chromium rejected {asked}: {said}")]
    Rejected {
        /// The request.
        asked: String,
        /// Its reason.
        said: String,
    },
    /// The certificates to trust cannot be used.
    #[error("cannot trust {file}: {why}")]
    Trust {
        /// Their file.
        file: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The page did not load.
    #[error("cannot load {url}: {said}")]
    Load {
        /// The URL.
        url: String,
        /// Chromium's error.
        said: String,
    },
}

/// The options of a browser.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Flags in addition to the usual ones.
    pub flags: Vec<String>,
    /// Disable Chromium's own sandbox, which does not work for root, nor always inside namespaces. Only for our own
    /// pages.
    pub without_sandbox: bool,
    /// The parent of its folder; none: the folder for temporary files.
    pub folder: Option<PathBuf>,
    /// Which server certificates to accept.
    pub trust: Trust,
}

/// An event of the browser.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its session; empty: the browser's.
    pub session: String,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// A running browser; dropping it ends the browser.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    messages: Receiver<Value>,
    events: VecDeque<Event>,
    next: u64,
    errors: PathBuf,
    /// With the flags that trust certificates.
    options: Options,
    /// Dropped last: the folder with everything that Chromium writes.
    profile: TempDir,
}

/// Chromium on this machine.
pub fn find() -> Result<PathBuf, BrowserError> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let paths = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.into_iter().find(|path| path.is_file()).ok_or(BrowserError::Missing)
}

impl Browser {
    /// Starts Chromium with an empty profile. `place` may change the command, to run it on another host.
    pub fn start(options: &Options, place: impl FnOnce(&mut Command)) -> Result<Self, BrowserError> {
        let folder = options.folder.clone().unwrap_or_else(env::temp_dir);
        let profile = tempfile::Builder::new().prefix("longhaul-chromium-").tempdir_in(folder);
        let program = || find().map_or_else(|_| NAMES[0].to_owned(), |program| program.display().to_string());
        let profile = profile.map_err(|source| BrowserError::Start { program: program(), source })?;
        let errors = profile.path().join("stderr");
        let mut options = options.clone();
        options.flags.extend(options.trust.prepare(profile.path())?);
        let (child, messages) = launch(&options, profile.path(), &errors, place)?;
        Ok(Self { child, messages, events: VecDeque::new(), next: 0, errors, options, profile })
    }

    /// Ends Chromium and starts it again with the same profile, and so with the cache on disk.
    pub fn restart(&mut self, place: impl FnOnce(&mut Command)) -> Result<(), BrowserError> {
        self.end();
        self.events.clear();
        (self.child, self.messages) = launch(&self.options, self.profile.path(), &self.errors, place)?;
        Ok(())
    }

    /// Opens an empty page, and returns its session.
    pub fn page(&mut self) -> Result<String, BrowserError> {
        let target = self.call("", "Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attached =
            self.call("", "Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }))?;
        Ok(attached["sessionId"].as_str().unwrap_or_default().to_owned())
    }

    /// Fails if an event says that the page, of this session, has crashed.
    pub(crate) fn check(event: &Event, session: &str, url: &str) -> Result<(), BrowserError> {
        if event.method == "Inspector.targetCrashed" && event.session == session {
            return Err(BrowserError::Load { url: url.to_owned(), said: "its renderer crashed".to_owned() });
        }
        Ok(())
    }

    /// Sends a page to a URL.
    pub(crate) fn navigate(&mut self, session: &str, url: &str) -> Result<(), BrowserError> {
        let navigated = self.call(session, "Page.navigate", &json!({ "url": url }))?;
        match navigated["errorText"].as_str().filter(|said| !said.is_empty()) {
            Some(said) => Err(BrowserError::Load { url: url.to_owned(), said: said.to_owned() }),
            None => Ok(()),
        }
    }

    /// Sends a request and waits for the response. Events in between are kept for [`Self::event`].
    pub fn call(&mut self, session: &str, method: &str, params: &Value) -> Result<Value, BrowserError> {
        let id = self.send(session, method, params)?;
        let until = Instant::now() + ANSWER_TIMEOUT;
        loop {
            let Some(mut message) = self.next(until, method)? else {
                return Err(BrowserError::TimedOut { asked: method.to_owned(), waited: ANSWER_TIMEOUT });
            };
            if message["id"] != id {
                self.queue(message);
            } else if let Some(error) = message.get("error") {
                let said = error["message"].as_str().unwrap_or("it does not say why").to_owned();
                return Err(BrowserError::Rejected { asked: method.to_owned(), said });
            } else {
                return Ok(message["result"].take());
            }
        }
    }

    /// Sends a request whose response does not matter.
    pub fn send_only(&mut self, session: &str, method: &str, params: &Value) -> Result<(), BrowserError> {
        self.send(session, method, params).map(drop)
    }

    /// The next event; none if there is none by `until`.
    pub fn event(&mut self, until: Instant) -> Result<Option<Event>, BrowserError> {
        while self.events.is_empty() {
            let Some(message) = self.next(until, "events")? else { return Ok(None) };
            self.queue(message);
        }
        Ok(self.events.pop_front())
    }

    fn send(&mut self, session: &str, method: &str, params: &Value) -> Result<u64, BrowserError> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        let sent = self.child.stdin.as_mut().map_or(Ok(()), |to| to.write_all(&text).and_then(|()| to.flush()));
        sent.map_err(|_| self.exited(method))?;
        Ok(self.next)
    }

    /// The next message; none if there is none by `until`.
    fn next(&mut self, until: Instant, asked: &str) -> Result<Option<Value>, BrowserError> {
        match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.exited(asked)),
        }
    }

    fn queue(&mut self, mut message: Value) {
        let Some(method) = message["method"].as_str().map(str::to_owned) else { return };
        let session = message["sessionId"].as_str().unwrap_or_default().to_owned();
        self.events.push_back(Event { session, method, params: message["params"].take() });
    }

    fn exited(&self, asked: &str) -> BrowserError {
        let text = std::fs::read(&self.errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        let said = last.map_or(String::new(), |line| format!(": {}", line.trim().replace(char::is_control, " ")));
        BrowserError::Exited { asked: asked.to_owned(), said }
    }
}

/// Starts Chromium, and a thread that reads its messages.
fn launch(
    options: &Options,
    profile: &Path,
    errors: &Path,
    place: impl FnOnce(&mut Command),
) -> Result<(Child, Receiver<Value>), BrowserError> {
    let program = find()?;
    let failed = |source| BrowserError::Start { program: program.display().to_string(), source };
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"]).arg(&program);
    // No traffic of its own: no updates, reports or prefetching.
    command.args([
        "--headless",
        "--remote-debugging-pipe",
        "--disable-gpu",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-default-apps",
        "--disable-domain-reliability",
        "--disable-extensions",
        "--disable-sync",
        "--disable-breakpad",
        "--disable-features=OptimizationHints,MediaRouter,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
        "--metrics-recording-only",
        "--password-store=basic",
        "--disable-dev-shm-usage",
    ]);
    if options.without_sandbox || nix::unistd::geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    command.arg(format!("--user-data-dir={}", profile.display())).args(&options.flags).arg("about:blank");
    let log = std::fs::File::create(errors).map_err(failed)?;
    command.env("HOME", profile).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    place(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    let (to, messages) = sync_channel(256);
    let from = child.stdout.take();
    let reader = thread::Builder::new().name("chromium".to_owned());
    if let Some(from) = from {
        reader.spawn(move || read_messages(from, &to)).map_err(failed)?;
    }
    Ok((child, messages))
}

impl Browser {
    /// Ends Chromium, which then writes its cache.
    fn end(&mut self) {
        let sockets = self.socket_folder();
        let _ = self.send("", "Browser.close", &json!({}));
        // It should exit when its pipe closes, and is killed if it does not.
        self.child.stdin.take();
        let until = Instant::now() + EXIT_TIMEOUT;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.messages.recv_timeout(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What is killed, or has crashed, leaves it behind.
        if let Some(folder) = sockets {
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    /// The folder of the socket on which Chromium learns that it is started again with the same profile. It lies beside the
    /// profile, because the paths of sockets must be short.
    fn socket_folder(&self) -> Option<PathBuf> {
        let socket = std::fs::read_link(self.profile.path().join("SingletonSocket")).ok()?;
        let folder = socket.parent()?;
        let is_its_own = folder.file_name()?.to_str()?.starts_with("org.chromium.Chromium.");
        is_its_own.then(|| folder.to_owned())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads messages until the pipe or the receiver closes.
fn read_messages(from: ChildStdout, to: &SyncSender<Value>) {
    let mut from = BufReader::with_capacity(1 << 16, from);
    loop {
        let mut text = Vec::new();
        match from.by_ref().take(LARGEST).read_until(0, &mut text) {
            Ok(1..) if text.pop() == Some(0) => {}
            _ => return,
        }
        if let Ok(message) = serde_json::from_slice(&text)
            && to.send(message).is_err()
        {
            return;
        }
    }
}
