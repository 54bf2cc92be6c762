//! The server, folder and files of one run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use servers::{
    Double,
    behaviours::{Entry, VALIDATORS},
};
use tempfile::TempDir;

use crate::{
    common::HAUL,
    verdict::{Files, Said},
};

/// The parameters of a run.
pub(crate) struct Setting<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) validators: usize,
    pub(crate) seed: u64,
}

pub(crate) struct Fixture {
    folder: TempDir,
    pub(crate) double: Double,
    /// Another server, which behaves correctly.
    pub(crate) honest: Double,
    /// The files that are transferred.
    pub(crate) files: Files,
    /// Names that this server treats specially; they are only uploaded.
    odd: &'static [&'static str],
    /// Whether all files have one length.
    is_even: bool,
    /// Options for connections and pipelining.
    way: &'static [&'static str],
    is_secret: bool,
    /// Whether downloads from it are always wrong.
    pub(crate) gives_wrongly: bool,
}

impl Fixture {
    pub(crate) async fn new(setting: &Setting<'_>) -> Self {
        let Setting { entry, validators, seed } = *setting;
        let folder = TempDir::with_prefix("longhaul-servers-").expect("a temporary folder");
        for name in ["home", "tree"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let double = Double::with_behaviours(vec![VALIDATORS[validators].1(seed), (entry.make)(seed)]).await;
        let way: &[&str] = match seed {
            0 => &[],
            1 => &["--pipeline", "aggressive", "--connections", "2"],
            _ => &["--connections", "1"],
        };
        let is_even = validators > 0;
        let odd: &[&str] = match entry.name {
            "folds case" => &["d0/Case", "d0/case", "d1/Single"],
            "composes names (NFC)" => &["d0/e\u{301}", "d0/\u{e9}", "d1/o\u{308}"],
            "hides dotfiles" => &[".hidden", "d0/.hidden"],
            _ => &[],
        };
        let mut fixture = Self {
            folder,
            double,
            honest: Double::start().await,
            files: Files::new(),
            odd,
            is_even,
            way,
            is_secret: entry.name.starts_with("nonce"),
            gives_wrongly: entry.name.starts_with("names a length"),
        };
        let names = (0..6).flat_map(|number| (0..4).map(move |file| format!("d{number}/f{file}")));
        let names = names.chain((0..8).map(|file| format!("f{file}")));
        fixture.files = names.enumerate().map(|(number, name)| (name, fixture.content(number))).collect();
        fixture
    }

    /// The files that are uploaded.
    pub(crate) fn uploads(&self) -> Files {
        let odd = self.odd.iter().enumerate().map(|(number, name)| ((*name).to_owned(), self.content(200 + number)));
        self.files.clone().into_iter().chain(odd).collect()
    }

    /// The server's files below `/up`, under the expected names if the server uses other names for the same files.
    pub(crate) fn seen(&self, wanted: &Files) -> Files {
        let mut there = self.there("/up");
        let kept = |name: &str| servers::decode(&self.double.stored_path(&format!("/up/{}", encoded(name))));
        let kept = wanted.keys().map(|name| (name, kept(name).trim_start_matches("/up/").to_owned()));
        let kept: Vec<_> = kept.collect();
        let found: Files =
            kept.iter().filter_map(|(name, at)| Some(((*name).clone(), there.get(at)?.clone()))).collect();
        there.retain(|name, _| !kept.iter().any(|(_, at)| at == name));
        there.extend(found);
        there
    }

    /// A file's content; no two are alike.
    pub(crate) fn content(&self, number: usize) -> Vec<u8> {
        let length = if self.is_even { 700 } else { 700 + number };
        (0..length).map(|at| b'a' + ((at * 7 + number * 31 + at * number) % 26) as u8).chain([number as u8]).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.double.address)
    }

    pub(crate) fn honest_url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.honest.address)
    }

    /// Puts files on the server below `/up`, an hour old.
    pub(crate) fn serve(&self, files: &Files) {
        Self::put_on(&self.double, files);
    }

    /// The same on one of the servers.
    pub(crate) fn put_on(server: &Double, files: &Files) {
        server.put("/up/d0/none", b"", Duration::ZERO);
        server.remove("/up/d0/none");
        for (name, content) in files {
            server.put(&format!("/up/{}", encoded(name)), content, Duration::from_hours(1));
        }
    }

    /// Writes files into a local folder, an hour old.
    pub(crate) fn keep(&self, folder: &str, files: &Files) {
        for (name, content) in files {
            self.write(folder, name, content, SystemTime::now() - Duration::from_hours(1));
        }
    }

    pub(crate) fn write(&self, folder: &str, name: &str, content: &[u8], modified: SystemTime) {
        let path = self.path(folder).join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, content).expect("a file");
        fs::File::options().append(true).open(&path).expect("the file").set_modified(modified).expect("a time");
    }

    /// The server's files below a folder, by decoded names.
    pub(crate) fn there(&self, folder: &str) -> Files {
        decoded(&self.double, folder)
    }

    /// The same of the honest server.
    pub(crate) fn honestly(&self, folder: &str) -> Files {
        decoded(&self.honest, folder)
    }

    pub(crate) fn here(&self, folder: &str) -> Files {
        let root = self.path(folder);
        let (mut found, mut folders) = (Files::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.insert(relative(&path, &root), fs::read(&path).expect("a file"));
                }
            }
        }
        found
    }

    /// Runs `haul` to its end with the server's behaviour active.
    pub(crate) async fn haul(&self, arguments: &[&str]) -> Said {
        self.double.arm();
        self.run(arguments).await
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Said {
        let json = self.path("said.json");
        let _ = fs::remove_file(&json);
        let mut command = tokio::process::Command::new(HAUL);
        command.current_dir(&self.folder).args(arguments).args(self.way).arg("--json").arg(&json);
        command.args(["--timeout", "3s"]).env_clear().env("HOME", self.path("home")).env("TZ", "UTC");
        if self.is_secret {
            command.env("HAUL_USER", "ann").env("HAUL_PASSWORD", "secret");
        }
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("it starts");
        let json = fs::read(json).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or(Value::Null);
        Said {
            is_success: output.status.success(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            json,
        }
    }
}

fn decoded(server: &Double, folder: &str) -> Files {
    let files = server.files(folder).into_iter();
    files.map(|(name, content)| (servers::decode(&name), content)).collect()
}

/// A path as in a request.
pub(crate) fn encoded(path: &str) -> String {
    path.split('/').map(|name| servers::encode(name.as_bytes())).collect::<Vec<_>>().join("/")
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).expect("it is below").to_string_lossy().into_owned()
}
