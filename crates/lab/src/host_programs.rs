//! Ends the programs of a host. A contender or server may have left some in the background, in a session of their own;
//! the host's network namespace still tells which they are.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use link::host::Host;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::deadline::Deadline;

/// How long a killed program may take to disappear.
const KILLED: Duration = Duration::from_secs(2);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Ends the programs of a host: by SIGTERM, and those that take longer than `grace` by SIGKILL.
pub(crate) fn end(host: &Host, grace: Duration) {
    let Ok(Ok(namespace)) = host.run(|| fs::read_link("/proc/thread-self/ns/net")) else { return };
    for (signal, time) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, KILLED)] {
        if time.is_zero() {
            continue;
        }
        let deadline = Deadline::for_cleanup(time);
        let mut signalled = Vec::new();
        loop {
            let left = programs(&namespace);
            if left.is_empty() {
                return;
            }
            for program in left.into_iter().filter(|program| !signalled.contains(program)).collect::<Vec<_>>() {
                let _ = kill(program, signal);
                signalled.push(program);
            }
            if deadline.check().is_err() {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// The programs in a network namespace. Our own process is in none of a host, only threads of it are.
fn programs(namespace: &PathBuf) -> Vec<Pid> {
    let is_there = |process: &i32| {
        let network = fs::read_link(Path::new("/proc").join(process.to_string()).join("ns/net"));
        network.is_ok_and(|network| network == *namespace)
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(is_there).map(Pid::from_raw).collect()
}
