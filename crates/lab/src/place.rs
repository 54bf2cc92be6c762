//! Where things run. A server, a client program and a model each run on a host of the
//! emulated network; to this part of the lab a host is only what can place a program or
//! a thread on itself, so everything here is tested on plain loopback.

use std::{io, process::Command, thread};

/// Where a program runs: the host it is placed on.
pub trait Place: Send + Sync {
    /// Makes `command` run on this host (and die with us).
    fn place(&self, command: &mut Command);

    /// Runs a closure on a thread on this host (for in-process clients and servers).
    fn thread(&self, name: &str, f: Box<dyn FnOnce() + Send>) -> io::Result<thread::JoinHandle<()>>;
}

/// This machine as it is, without a network of its own.
#[derive(Debug, Clone, Copy)]
pub struct Here;

impl Place for Here {
    fn place(&self, _command: &mut Command) {}

    fn thread(&self, name: &str, f: Box<dyn FnOnce() + Send>) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name(name.to_owned()).spawn(f)
    }
}
