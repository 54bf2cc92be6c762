//! Starting the programs of a custom contender or server: their environment, and a shell where they need one.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::template::{Template, Values};

/// Variables that name files in the user's home or lead around the emulated network.
fn is_dropped(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.starts_with("XDG_") || name.starts_with("HAUL_") || lower.ends_with("_proxy")
}

/// The variables by which programs and libraries learn which certificate authorities to trust: OpenSSL and Go, curl,
/// Python's requests, Node.js, git, rclone.
const TRUST: [&str; 6] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "RCLONE_CA_CERT",
];

/// The environment of the programs of a sample.
pub(crate) struct Environment<'a> {
    /// The values of the placeholders.
    pub(crate) values: &'a Values,
    /// The user's own variables.
    pub(crate) own: &'a BTreeMap<String, Template>,
    /// The sample's folder, with a home.
    pub(crate) scratch: &'a Path,
    /// The certificate authority to trust, if the sample uses TLS.
    pub(crate) trust: Option<&'a Path>,
    /// User and password, if the server asks for them.
    pub(crate) credentials: Option<(&'a str, &'a str)>,
}

impl Environment<'_> {
    /// The command of a template.
    pub(crate) fn command(&self, template: &Template) -> Command {
        let program = |words: &Vec<String>| find(words.first()?).filter(|program| starts_by_itself(program));
        let words = template.words(self.values).and_then(|words| Some((program(&words)?, words)));
        let mut command = if let Some((program, words)) = words {
            let mut command = Command::new(program);
            command.args(&words[1..]);
            command
        } else {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(template.shell_command(self.values));
            command
        };
        self.apply(&mut command);
        command
    }

    fn apply(&self, command: &mut Command) {
        for (name, _) in env::vars_os() {
            if is_dropped(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command.env("PATH", path()).env("HOME", home(self.scratch)).env("TMPDIR", self.scratch);
        for (name, value) in self.values {
            command.env(format!("HAUL_{}", name.to_ascii_uppercase().replace('-', "_")), value);
        }
        if let Some(authority) = self.trust {
            command.envs(TRUST.map(|name| (name, authority)));
        }
        if let Some((user, password)) = self.credentials {
            command.env("HAUL_USER", user).env("HAUL_PASSWORD", password);
        }
        command.envs(self.own.iter().map(|(name, value)| (name, value.fill(self.values))));
    }
}

/// The home of a sample's programs.
pub(crate) fn home(scratch: &Path) -> PathBuf {
    scratch.join("home")
}

/// The user's home, or the root folder if there is none.
pub(crate) fn users_home() -> String {
    env::var("HOME").unwrap_or_else(|_| "/".to_owned())
}

/// The user's search path, and the folders of servers.
fn path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let folders = env::split_paths(&path).chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    env::join_paths(folders).unwrap_or(path)
}

/// The file of a program, by its path or by the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| file.is_file());
    }
    env::split_paths(&path()).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether the kernel starts it: a binary, or a script that names its interpreter. A shell runs other scripts as well
/// (exec(3), ENOEXEC).
fn starts_by_itself(program: &Path) -> bool {
    let mut magic = [0; 2];
    let read = fs::File::open(program).and_then(|mut file| io::Read::read_exact(&mut file, &mut magic));
    // A program that only executes cannot be a script.
    read.is_err() || magic == *b"#!" || magic == *b"\x7fE"
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_without_interpreter_is_run_by_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("mine");
        let (values, own) = (Values::new(), BTreeMap::new());
        let scratch = folder.path();
        let environment = Environment { values: &values, own: &own, scratch, trust: None, credentials: None };
        let template = Template::parse(&script.display().to_string());
        for (text, program) in [("#!/bin/sh\n", script.as_path()), ("echo\n", Path::new("/bin/sh"))] {
            fs::write(&script, text).unwrap();
            assert_eq!(environment.command(&template).get_program(), program);
        }
    }

    #[test]
    fn personal_variables_are_dropped() {
        for dropped in ["https_proxy", "ALL_PROXY", "XDG_CACHE_HOME", "HAUL_HTTP"] {
            assert!(is_dropped(dropped), "{dropped}");
        }
        for kept in ["VIRTUAL_ENV", "LANG", "PROXY_COUNT", "LD_LIBRARY_PATH"] {
            assert!(!is_dropped(kept), "{kept}");
        }
    }
}
