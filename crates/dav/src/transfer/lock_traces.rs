//! What LOCK requests may have left on the server; and a file that says so to the next process, if this one is killed.

use std::{
    collections::BTreeMap,
    fs::File,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    path::Path,
};

use crate::{LockToken, RemotePath};

/// What a LOCK may have left on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) token: Option<LockToken>,
    /// Whether only the lock has created the file.
    pub(super) hollow: bool,
}

/// All that is left, by path.
#[derive(Debug, Default)]
pub(super) struct Traces {
    left: BTreeMap<RemotePath, Trace>,
    log: Option<LockLog>,
}

/// A file with what LOCK requests may have left on a server, for the process after one that was killed: a line with the number in
/// the owner of the locks, then a line per change.
///
/// Only one process may use it at a time. Whoever can read it can release the locks.
#[derive(Debug)]
pub struct LockLog {
    file: File,
    number: u32,
    earlier: BTreeMap<RemotePath, Trace>,
}

impl Traces {
    /// What an earlier process has left, and a log of all changes.
    pub(super) fn with_log(mut log: LockLog) -> Self {
        Self { left: std::mem::take(&mut log.earlier), log: Some(log) }
    }

    pub(super) fn get(&self, path: &RemotePath) -> Option<&Trace> {
        self.left.get(path)
    }

    pub(super) fn insert(&mut self, path: &RemotePath, trace: Trace) -> Option<Trace> {
        if let Some(log) = &mut self.log {
            log.append(&line(path, Some(&trace)));
        }
        self.left.insert(path.clone(), trace)
    }

    /// Changes what is known of a path, if something is.
    pub(super) fn change(&mut self, path: &RemotePath, change: impl FnOnce(&mut Trace)) {
        let Some(mut trace) = self.get(path).cloned() else { return };
        change(&mut trace);
        if self.get(path) != Some(&trace) {
            self.insert(path, trace);
        }
    }

    pub(super) fn remove(&mut self, path: &RemotePath) {
        if self.left.remove(path).is_none() {
            return;
        }
        let is_empty = self.left.is_empty();
        if let Some(log) = &mut self.log {
            if is_empty { log.clear() } else { log.append(&line(path, None)) }
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&RemotePath, &Trace)> {
        self.left.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
}

impl LockLog {
    /// Opens the log `path`, and creates it if it is missing. What is illegible in it is ignored: such locks expire.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.read(true).append(true).create(true).open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        // A line without its end was being written when the process was killed.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut lines = whole.lines();
        let number = lines.next().and_then(|line| u32::from_str_radix(line, 16).ok());
        let mut earlier = BTreeMap::new();
        for (path, trace) in lines.filter(|_| number.is_some()).filter_map(parse) {
            match trace {
                Some(trace) => earlier.insert(path, trace),
                None => earlier.remove(&path),
            };
        }
        let number = number.unwrap_or_else(|| RandomState::new().hash_one(path) as u32);
        let mut log = Self { file, number, earlier };
        // This also takes away a torn line.
        let lines: String = log.earlier.iter().map(|(path, trace)| line(path, Some(trace))).collect();
        log.clear();
        log.append(&lines);
        Ok(log)
    }

    /// The number in the owner of the locks.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    // A change that cannot be written is no reason to fail: then a lock that a killed process leaves just expires.

    fn clear(&mut self) {
        let emptied = self.file.set_len(0);
        if emptied.is_ok() {
            self.append(&format!("{:08x}\n", self.number));
        }
    }

    fn append(&mut self, lines: &str) {
        let _ = self.file.write_all(lines.as_bytes());
    }
}

/// A change of what is left at a path. Neither path nor token contains a space.
fn line(path: &RemotePath, trace: Option<&Trace>) -> String {
    let path = path.target();
    match trace {
        None => format!("gone {path}\n"),
        Some(Trace { token, hollow }) => {
            let kind = if *hollow { "created" } else { "locked" };
            format!("{kind} {path} {}\n", token.as_ref().map_or("", LockToken::as_str))
        }
    }
}

fn parse(line: &str) -> Option<(RemotePath, Option<Trace>)> {
    let mut words = line.split(' ');
    let (kind, path) = (words.next()?, RemotePath::from_url_path(words.next()?).ok()?);
    let hollow = match kind {
        "gone" => return Some((path, None)),
        "created" => true,
        "locked" => false,
        _ => return None,
    };
    let token = words.next().filter(|token| !token.is_empty());
    let token = match token {
        Some(token) => Some(LockToken::parse(token)?),
        None => None,
    };
    Some((path, Some(Trace { token, hollow })))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn path(text: &str) -> RemotePath {
        RemotePath::from_url_path(text).unwrap()
    }

    fn trace(token: Option<&str>, hollow: bool) -> Trace {
        Trace { token: token.and_then(LockToken::parse), hollow }
    }

    #[test]
    fn log_has_what_is_left_when_process_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks");
        let log = LockLog::open(&file).unwrap();
        let number = log.number();
        let mut traces = Traces::with_log(log);
        traces.insert(&path("/a%20b"), trace(None, true));
        traces.insert(&path("/a%20b"), trace(Some("urn:a"), true));
        traces.change(&path("/a%20b"), |trace| trace.hollow = false);
        traces.insert(&path("/gone"), trace(Some("urn:b"), false));
        traces.insert(&path("/asked"), trace(None, true));
        traces.remove(&path("/gone"));
        traces.change(&path("/gone"), |trace| trace.hollow = true);
        drop(traces);
        // The process was killed while it wrote.
        File::options().append(true).open(&file).unwrap().write_all(b"locked /torn urn:").unwrap();
        for _ in 0..2 {
            let log = LockLog::open(&file).unwrap();
            assert_eq!(log.number(), number);
            let left = [(path("/a%20b"), trace(Some("urn:a"), false)), (path("/asked"), trace(None, true))];
            assert_eq!(log.earlier, left.into());
        }
    }

    #[test]
    fn log_is_emptied_when_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks");
        let mut traces = Traces::with_log(LockLog::open(&file).unwrap());
        let empty = fs::read(&file).unwrap();
        traces.insert(&path("/a"), trace(Some("urn:a"), false));
        assert_ne!(fs::read(&file).unwrap(), empty);
        traces.remove(&path("/a"));
        assert_eq!(fs::read(&file).unwrap(), empty);
    }

    #[test]
    fn illegible_log_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks");
        for text in [&b""[..], b"\n", b"locked /a urn:a\n", b"zz\nlocked /a urn:a\n", b"\xff\xfe\n\x00\n", b"12345678"]
        {
            fs::write(&file, text).unwrap();
            assert!(LockLog::open(&file).unwrap().earlier.is_empty());
        }
        fs::write(&file, "0000000a\nlocked\nlocked  urn:a\nheld /a urn:a\nlocked /b <>\nlocked /c urn:c\n").unwrap();
        let log = LockLog::open(&file).unwrap();
        assert_eq!((log.number(), log.earlier.into_keys().collect::<Vec<_>>()), (10, vec![path("/c")]));
    }
}
