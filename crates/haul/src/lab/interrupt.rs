//! Ending a run early, in bounded time.
//!
//! After Ctrl-C the run tears everything down and writes its results. Each of our waits is bounded, but bounds add up,
//! and a call that blocks in the kernel (a file system whose server is gone, an output that nobody reads) has none. So
//! the interrupt starts a clock. After [`KILL`] every program of the run is killed; that ends most blocking calls, and
//! the run can still finish in good order. After [`EXIT`] the process exits and says what it leaves. The supervisor
//! would end it 2 s later, but without a message, and not at all after a Ctrl-C at a terminal, where the worker has
//! received the signal itself.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use lab::results::CreatedPaths;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::say;

/// When all programs of the run are killed.
const KILL: Duration = Duration::from_secs(12);

/// When the process exits, whatever it is doing. The supervisor waits for 20 s.
const EXIT: Duration = Duration::from_secs(18);

/// Time limit of the last message, which nobody may be reading.
const LAST_MESSAGE: Duration = Duration::from_secs(1);

/// Cancels a run on request.
#[derive(Clone)]
pub(super) struct Interrupt {
    flag: Arc<AtomicBool>,
    created: Arc<CreatedPaths>,
}

impl Interrupt {
    pub(super) fn new(created: Arc<CreatedPaths>) -> Self {
        Self { flag: Arc::default(), created }
    }

    /// The flag that cancels the run.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    /// Sets the flag and starts the clock; from the second call on it does nothing.
    pub(super) fn request(&self) {
        if self.flag.swap(true, Ordering::Relaxed) {
            return;
        }
        let created = self.created.clone();
        thread::spawn(move || {
            thread::sleep(KILL);
            kill_all();
            thread::sleep(EXIT.saturating_sub(KILL));
            let (sender, printed) = mpsc::channel();
            thread::spawn(move || {
                let left = leftovers(&created);
                say(format_args!(
                    "interrupted; the run did not end within {EXIT:?}, so its programs were killed; {left}"
                ));
                sender.send(())
            });
            let _ = printed.recv_timeout(LAST_MESSAGE);
            process::exit(1);
        });
    }
}

/// Kills every process of the run but its init and this one.
fn kill_all() {
    // The worker is process 2 of its own PID namespace and reaches no other processes. Anywhere else this would kill
    // everything that the user runs.
    if process::id() == 2 {
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}

/// Where the results of the run are; removes its folder if there are none.
fn leftovers(created: &CreatedPaths) -> String {
    match created.folder() {
        Some(folder) if created.has_results() => format!("the results so far are in {}", folder.display()),
        Some(folder) if created.has_samples() => {
            format!("the samples so far are in {}/samples.csv and nowhere else", folder.display())
        }
        _ => {
            created.remove();
            "nothing was measured".to_owned()
        }
    }
}
