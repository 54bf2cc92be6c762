//! impacket, an SMB client library that shares no code with Samba: `library.py`, one process per client.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{World, common::Running};

/// Debian's, for which Debian's package of impacket is.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/smb/library.py");

pub(crate) fn is_installed() -> bool {
    let tried = Command::new(PYTHON).args(["-c", "import impacket.smb3"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// A client, which has one session at a time.
pub(crate) struct Library {
    // Dropped first: it ends when it has nothing more to do.
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _process: Running,
}

/// An open file.
pub(crate) struct Opened {
    pub(crate) handle: u64,
    /// What the server has granted: 0 for none (MS-SMB2 2.2.14).
    pub(crate) oplock: u64,
    /// The number by which clients recognise a file (MS-FSCC 2.4.25).
    pub(crate) id: u64,
}

impl Library {
    /// Without a session.
    pub(crate) fn start() -> Self {
        let mut command = Command::new(PYTHON);
        let mut process = Running::start({
            command.arg(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        });
        let input = process.0.stdin.take().expect("it is piped");
        let output = BufReader::new(process.0.stdout.take().expect("it is piped")).lines();
        Self { input, output, _process: process }
    }

    /// In the share as a user, with the right password.
    pub(crate) fn of(world: &World, user: &str) -> Self {
        let mut client = Self::start();
        client.done(&json!(["connect", world.port, "files", user, format!("smb {user}")]));
        client
    }

    /// The result of a command, or the status with which the server refuses it.
    pub(crate) fn run(&mut self, command: &Value) -> Result<Value, String> {
        writeln!(self.input, "{command}").expect("it reads");
        let line = self.output.next().expect("it answers").expect("it is text");
        let mut answer: Value = serde_json::from_str(&line).expect("it is JSON");
        match answer["status"].as_str() {
            Some(status) => Err(status.to_owned()),
            None => Ok(answer["done"].take()),
        }
    }

    pub(crate) fn done(&mut self, command: &Value) -> Value {
        self.run(command).unwrap_or_else(|status| panic!("{command}: {status}"))
    }

    /// Opens a file: what to do (letters of r, w, d), what others may do meanwhile, `open` or `replace`, and which oplock to
    /// ask for.
    pub(crate) fn open(
        &mut self,
        name: &str,
        access: &str,
        share: &str,
        how: &str,
        oplock: &str,
    ) -> Result<Opened, String> {
        let opened = self.run(&json!(["open", name, access, share, how, oplock]))?;
        let number = |name: &str| opened[name].as_u64().expect("a number");
        Ok(Opened { handle: number("handle"), oplock: number("oplock"), id: number("id") })
    }
}
