//! The resident memory of a process over time.

use std::{
    fs,
    sync::mpsc::{Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

pub(super) struct Memory {
    stop: Sender<()>,
    samples: JoinHandle<Vec<u64>>,
}

impl Memory {
    /// Samples it until the end.
    pub(super) fn watch(process: u32, interval: Duration) -> Self {
        let (stop, stopped) = channel::<()>();
        let samples = thread::spawn(move || {
            let mut samples = Vec::new();
            while stopped.recv_timeout(interval).is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                samples.extend(resident(process));
            }
            samples
        });
        Self { stop, samples }
    }

    /// The samples, in bytes.
    pub(super) fn end(self) -> Vec<u64> {
        drop(self.stop);
        self.samples.join().unwrap_or_default()
    }
}

/// In bytes.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
