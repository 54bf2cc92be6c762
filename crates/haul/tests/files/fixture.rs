//! A served folder, and a `haul` without settings but those of the test.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::Arc,
    thread,
};

use tempfile::TempDir;

use crate::common::{HAUL, output};

pub(crate) struct Fixture {
    folder: TempDir,
    server: Child,
    pub(crate) url: String,
    /// Kept open: the server might fail to write to a closed pipe.
    _said: BufReader<ChildStderr>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::serving(&[])
    }

    /// A served folder, by a server with these options.
    pub(crate) fn serving(options: &[&str]) -> Self {
        let folder = TempDir::with_prefix("longhaul-files-").expect("a temporary folder");
        for name in ["served", "home"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let mut command = Command::new(HAUL);
        command.current_dir(&folder).args(["serve", "served", "--listen", "127.0.0.1:0", "--log", "log"]);
        command.args(options).stderr(Stdio::piped());
        let mut server = command.spawn().expect("it starts");
        let mut said = BufReader::new(server.stderr.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let url = line.split_whitespace().find(|word| word.contains("://")).unwrap_or_else(|| panic!("no URL: {line}"));
        Self { folder, server, url: url.trim_end_matches('/').to_owned(), _said: said }
    }

    /// With TLS, and a certificate in the file `cert.pem`.
    pub(crate) fn secured(options: &[&str]) -> Self {
        Self::serving(&[&["--tls", "self-signed", "--cert-out", "cert.pem"], options].concat())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn served(&self, name: &str) -> PathBuf {
        self.path("served").join(name)
    }

    /// The URL of a path.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    /// `haul` with these arguments, in the test's folder and with an environment of its own.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(HAUL);
        command.current_dir(&self.folder).args(arguments).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path("home")).env("TZ", "UTC");
        command
    }

    pub(crate) fn haul(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        output(self.command(arguments))
    }

    /// The requests that the server has answered, by method.
    pub(crate) fn requests(&self, method: &str) -> usize {
        let log = fs::read_to_string(self.path("log")).expect("a log");
        log.lines().filter(|line| line.contains(&format!("\"{method} "))).count()
    }
}

/// A server on IPv4's loopback that answers each request, by its first line, until the test's process ends.
pub(crate) fn answering(answer: impl Fn(&str, &mut dyn Write) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                while let Some(first) = lines.next() {
                    // These tests' requests have no body.
                    if lines.find(String::is_empty).is_none() || answer(&first, &mut &stream).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Makes files with these contents, and the folders that they are in.
pub(crate) fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
}

/// What is in a folder: contents by relative name; folders end with `/`.
pub(crate) fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("it is below").to_string_lossy().into_owned();
            if path.is_dir() {
                found.insert(name + "/", Vec::new());
                folders.push(path);
            } else {
                found.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    found
}

/// The JSON in a file; checks its schema and command.
pub(crate) fn json(text: &[u8], command: &str) -> serde_json::Value {
    let value: serde_json::Value = serde_json::from_slice(text).expect("JSON");
    assert_eq!((&value["schema"], &value["command"]), (&"longhaul.files/1".into(), &command.into()));
    assert!(value["failed"].is_array());
    value
}
