//! Prompts on the terminal.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, IsTerminal, Write},
};

use haul_http::auth::Secret;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

/// Whether a prompt is possible: standard input and standard error are terminals.
pub(crate) fn possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Prompts for a line.
pub(crate) async fn ask(question: &str) -> io::Result<String> {
    let mut terminal = terminal()?;
    write!(terminal, "{question}")?;
    Ok(line(terminal).await?.reveal().trim().to_owned())
}

/// Prompts for a line without echo.
pub(crate) async fn ask_secret(question: &str) -> io::Result<Secret> {
    let mut terminal = terminal()?;
    let _quiet = Quiet::begin(&terminal)?;
    write!(terminal, "{question}")?;
    line(terminal).await
}

fn terminal() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Reads a line, on a thread of its own: the read cannot be cancelled.
async fn line(terminal: File) -> io::Result<Secret> {
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        let length = BufReader::new(terminal).read_line(&mut text)?;
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no input"));
        }
        let typed = text.trim_end_matches(['\n', '\r']).len();
        text.truncate(typed);
        Ok(Secret::from(text))
    });
    read.await.map_err(io::Error::other)?
}

/// Turns the terminal's echo off until dropped, also on Ctrl-C.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn begin(terminal: &File) -> io::Result<Self> {
        let terminal = terminal.try_clone()?;
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&terminal, SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, SetArg::TCSAFLUSH, &self.before);
        // The line's end was not shown either.
        let _ = writeln!(self.terminal);
    }
}
