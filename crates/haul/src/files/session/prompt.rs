//! Prompts on the terminal, and passwords on standard input.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, IsTerminal, Read, Write},
};

use haul_http::auth::{MAX_KEY_SIZE, Secret};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

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

/// Reads a line, and nothing behind it. A line longer than a key can be is an error, not truncated.
pub(crate) fn line_of(input: impl Read) -> Result<Secret, Box<dyn Error>> {
    // Never reallocated, so that no copy stays in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_SIZE + 2));
    for byte in BufReader::with_capacity(1, input).bytes() {
        match byte? {
            b'\n' => break,
            _ if bytes.len() > MAX_KEY_SIZE => return Err("the password on standard input is too long".into()),
            byte => bytes.push(byte),
        }
    }
    let text = str::from_utf8(&bytes).map_err(|_| "the password on standard input is not UTF-8")?;
    Ok(text.strip_suffix('\r').unwrap_or(text).into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_first_line_and_never_cut_off() {
        let read = |text: &[u8]| line_of(text).map(|secret| secret.reveal().to_owned());
        for (input, password) in [("a b\nc\n", "a b"), ("ä\r\n", "ä"), ("x", "x"), ("", ""), ("\n", "")] {
            assert_eq!(read(input.as_bytes()).unwrap(), password);
        }
        assert_eq!(read(&vec![b'a'; MAX_KEY_SIZE]).unwrap().len(), MAX_KEY_SIZE);
        assert!(read(&vec![b'a'; MAX_KEY_SIZE + 2]).is_err());
        assert!(read(b"\xff\n").is_err());
    }
}
