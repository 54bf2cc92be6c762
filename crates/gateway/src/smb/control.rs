//! The socket by which Samba's commands, and `haul gateway status`, reach the supervisor.
//!
//! A question is a line: `begin USER PID`, `end USER PID` or `status`. The answer to the first two is `ok`, or why not.
//! Only the gateway's own user can open the socket.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::{Layout, sessions::Process};
use crate::vault::UserName;

/// How long a user may wait for their mount.
const PATIENCE: Duration = Duration::from_mins(2);
/// The longest line, in bytes.
pub(super) const LONGEST: u64 = 256;

/// A moment of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A user wants in.
    Begin,
    /// A user has left.
    End,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    Session(Moment, UserName, Process),
    Status,
}

impl Question {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let moment = match words.as_slice() {
            ["status"] => return Some(Self::Status),
            ["begin", _, _] => Moment::Begin,
            ["end", _, _] => Moment::End,
            _ => return None,
        };
        let process = words[2].parse().ok().filter(|process| *process > 1)?;
        Some(Self::Session(moment, words[1].parse().ok()?, process))
    }
}

fn send(state: &Path, question: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(Layout::socket(state))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(1 << 20).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Tells the gateway of a session, and waits for its consent. The error says why it refuses.
pub fn ask(state: &Path, moment: Moment, user: &str, process: u32) -> Result<(), String> {
    let verb = match moment {
        Moment::Begin => "begin",
        Moment::End => "end",
    };
    let answer = send(state, &format!("{verb} {user} {process}"));
    match answer.map_err(|error| format!("cannot reach the SMB gateway: {error}"))?.trim_end() {
        "ok" => Ok(()),
        why => Err(why.to_owned()),
    }
}

/// The users with a mount: lines of name and number of sessions. `None` if no gateway runs.
pub fn status(state: &Path) -> io::Result<Option<String>> {
    match send(state, "status") {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_parsed_strictly() {
        let session = |moment| Some(Question::Session(moment, "ann".parse().unwrap(), 17));
        assert_eq!(Question::parse("begin ann 17"), session(Moment::Begin));
        assert_eq!(Question::parse("end Ann 17\n"), session(Moment::End));
        assert_eq!(Question::parse("status"), Some(Question::Status));
        for line in
            ["", "begin", "begin ann", "begin ann 1", "begin ann -5", "begin ../x 17", "begin ann 17 x", "x ann 17"]
        {
            assert_eq!(Question::parse(line), None, "{line}");
        }
    }
}
