//! Starting programs and threads on a host. A server, a client program and a model each run on a host of the emulated
//! network. The lab needs only this trait of a host, so everything that starts something is tested on plain loopback.

use std::{io, process::Command, thread, time::Duration};

/// A host on which programs and threads can be started.
pub trait Spawn: Send + Sync {
    /// Makes `command` run on this host, and end when we end.
    fn prepare(&self, command: &mut Command);

    /// Runs a closure on a thread on this host, for clients and servers inside this process.
    fn thread(&self, name: &str, f: Box<dyn FnOnce() + Send>) -> io::Result<thread::JoinHandle<()>>;

    /// A program on this host has ended. Nobody has waited for it, so its last counters can still be read.
    fn ended(&self, _process: i32) {}

    /// Ends all programs on this host, killing those that do not end within a time.
    fn end_programs(&self, _grace: Duration) {}
}

/// This machine, without an emulated network.
#[derive(Debug, Clone, Copy)]
pub struct Local;

impl Spawn for Local {
    fn prepare(&self, _command: &mut Command) {}

    fn thread(&self, name: &str, f: Box<dyn FnOnce() + Send>) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name(name.to_owned()).spawn(f)
    }
}
