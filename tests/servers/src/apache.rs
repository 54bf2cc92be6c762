//! A real Apache with `mod_dav`, where it is installed.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const MODULES: &str = "/usr/lib/apache2/modules";
const NOBODY: u32 = 65_534;

/// A running Apache. Ends when dropped.
pub struct Apache {
    child: Child,
    folder: tempfile::TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Drop for Apache {
    fn drop(&mut self) {
        // A child of a process that blocks SIGTERM does not hear it.
        self.kill();
    }
}

impl Apache {
    /// Serves `root/` below the folder as `/`, by these directives. Says aloud if Apache is not installed. `prepare` gets
    /// the folder.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(modules: &[&str], directives: &str, prepare: impl FnOnce(&Path)) -> Option<Self> {
        let all = ["mpm_event", "authz_core", "dav", "dav_fs"].iter().chain(modules);
        let file = |name: &&&str| PathBuf::from(format!("{MODULES}/mod_{name}.so"));
        if !Path::new("/usr/sbin/apache2").exists() || !all.clone().all(|name| file(&name).exists()) {
            eprintln!("SKIPPED: Apache is not installed; apt-get install apache2-bin");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::create_dir_all(at.join("root/files")).unwrap();
        fs::create_dir(at.join("locks")).unwrap();
        prepare(at);
        let is_root = nix::unistd::geteuid().is_root();
        if is_root {
            give_away(at);
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address: SocketAddr = ([127, 0, 0, 1], port).into();
        let loads: Vec<String> =
            all.map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n")).collect();
        let loads = loads.concat();
        let user = if is_root { format!("User #{NOBODY}\nGroup #{NOBODY}\n") } else { String::new() };
        let text = format!(
            "ServerRoot \"{0}\"\nServerName localhost\nDefaultRuntimeDir \"{0}\"\nPidFile \"{0}/pid\"\nMutex \"file:{0}\"\n{loads}{user}\
             Listen {address}\nServerLimit 1\nStartServers 1\nThreadsPerChild 32\nMaxRequestWorkers 32\nTimeout 5\nErrorLog \"{0}/error.log\"\n\
             LogFormat \"%u \\\"%r\\\" %>s\" users\nCustomLog \"{0}/access.log\" users\nDocumentRoot \"{0}/root\"\nDavLockDB \"{0}/locks/db\"\n\
             <Directory \"{0}\">\nRequire all denied\n</Directory>\n{1}\n",
            at.display(),
            directives
                .replace("ROOT", &at.join("root").display().to_string())
                .replace("FOLDER", &at.display().to_string()),
        );
        fs::write(at.join("conf"), text).unwrap();
        let mut command = Command::new("/usr/sbin/apache2");
        command.arg("-f").arg(at.join("conf")).args(["-D", "FOREGROUND"]).stdin(Stdio::null());
        let apache = Self { child: command.spawn().unwrap(), folder, address };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begin.elapsed() < Duration::from_mins(1), "{}", apache.text("error.log"));
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(apache)
    }

    /// A file below its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of a file below its folder.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Ends it at once, in the middle of what it does.
    pub fn kill(&mut self) {
        let workers = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.child.id())).unwrap_or_default();
        let pids = workers.split_whitespace().filter_map(|pid| pid.parse().ok()).chain([self.child.id() as i32]);
        for pid in pids.collect::<Vec<i32>>().into_iter().rev() {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// Started by root, Apache switches to an ordinary user.
fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}
