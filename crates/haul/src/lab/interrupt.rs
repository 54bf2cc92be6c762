//! The end of a run that does not come by itself.
//!
//! Whoever presses Ctrl-C waits until everything is torn down and the results are written. Each wait of ours
//! has a bound, but bounds add up, and what blocks in the kernel (a file system whose server is gone, an output
//! that nobody reads) has none. So the request to end starts a clock. When it has run for [`KILL`], every
//! program of the run is killed, which ends most of what may block, and the run can still end in good order.
//! After [`END`] it ends in any, and says what it leaves. That is before the supervisor ends it, which could
//! not say so, and which does not do it after a Ctrl-C at a terminal: the worker has got that itself.

use std::{
    fs,
    path::Path,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::conduct::{Place, samples};
use crate::say;

/// When all programs of the run are killed.
const KILL: Duration = Duration::from_secs(12);

/// When the run ends, whatever it still does. The supervisor waits for 20 s.
const END: Duration = Duration::from_secs(18);

/// How long the last sentence may take; nobody may read it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Notes that somebody wants the run to end, and sees to it, once.
pub(super) fn ask_to_end(asked: &AtomicBool, place: &Arc<Place>) {
    if asked.swap(true, Ordering::Relaxed) {
        return;
    }
    let place = place.clone();
    thread::spawn(move || {
        thread::sleep(KILL);
        kill_all();
        thread::sleep(END.saturating_sub(KILL));
        let (told, heard) = mpsc::channel();
        thread::spawn(move || {
            say(format_args!(
                "interrupted, and not at an end {END:?} later, so everything that was started is killed; {}",
                left(&place)
            ));
            told.send(())
        });
        let _ = heard.recv_timeout(LAST_WORDS);
        process::exit(1);
    });
}

/// Kills every process of the run but its init and us.
fn kill_all() {
    // The worker is the second process of a PID namespace of its own, and can reach no other. Who is not would
    // kill all that the user has.
    if process::id() == 2 {
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}

/// What is left of the run; nothing, where nothing was measured.
fn left(place: &Place) -> String {
    let Some(folder) = place.folder() else { return "nothing was measured".to_owned() };
    let shown = folder.display();
    if folder.join("run.json").exists() {
        return format!("what was measured is kept in {shown}");
    }
    if has_lines(&samples(folder)) {
        return format!("what was measured until then is in {shown}/samples.csv and nowhere else");
    }
    place.discard();
    "nothing was measured".to_owned()
}

fn has_lines(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() > 0)
}
