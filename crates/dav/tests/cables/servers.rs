//! Real servers on a host, which can be killed and started again.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use link::{host::Host, sandbox::is_root};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::sync::Notify;

use crate::{Result, common::PATIENCE};

const APACHE: &str = "/usr/sbin/apache2";
/// Maximum time until the kernel frees the address of a killed server.
const AGAIN: Duration = Duration::from_secs(10);
const MODULES: &str = "/usr/lib/apache2/modules";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Embedded,
    Apache,
}

impl Kind {
    /// Why it cannot run here.
    pub(crate) fn missing(self) -> Option<String> {
        let needed = [Path::new(APACHE).to_owned(), Path::new(MODULES).join("mod_dav_fs.so")];
        let missing = needed.into_iter().find(|file| self == Self::Apache && !file.is_file())?;
        Some(format!("{} is not there: install apache2-bin", missing.display()))
    }
}

/// A server that serves the folder `root`.
pub(crate) struct Server {
    kind: Kind,
    host: Host,
    pub(crate) address: SocketAddr,
    scratch: PathBuf,
    pub(crate) root: PathBuf,
    running: Option<Running>,
}

enum Running {
    Thread(Arc<Notify>, JoinHandle<()>),
    Group(Child),
}

impl Server {
    pub(crate) fn start(kind: Kind, host: &Host, ip: std::net::IpAddr, scratch: &Path) -> Result<Self> {
        let root = scratch.join("root");
        for folder in [scratch.to_owned(), root.clone(), scratch.join("locks")] {
            fs::create_dir_all(&folder)?;
            // If root starts Apache, its workers run as another user.
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        }
        let port = host.run(move || TcpListener::bind((ip, 0))?.local_addr())??.port();
        let address = SocketAddr::new(ip, port);
        let mut server = Self { kind, host: host.clone(), address, scratch: scratch.into(), root, running: None };
        server.restart()?;
        Ok(server)
    }

    /// Kills it with all requests in flight.
    pub(crate) fn kill(&mut self) {
        match self.running.take() {
            Some(Running::Thread(killed, thread)) => {
                killed.notify_one();
                let _ = thread.join();
            }
            Some(Running::Group(mut child)) => {
                let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                let _ = child.wait();
            }
            None => {}
        }
    }

    pub(crate) fn restart(&mut self) -> Result<()> {
        let begin = Instant::now();
        // Until the kernel frees the address.
        loop {
            let started = match self.kind {
                Kind::Embedded => self.start_embedded(),
                Kind::Apache => self.start_apache(),
            };
            match started {
                Ok(running) => {
                    self.running = Some(running);
                    return Ok(());
                }
                Err(error) if begin.elapsed() > AGAIN => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn start_embedded(&self) -> Result<Running> {
        let config = serve::Config { root: self.root.clone(), listen: vec![self.address], ..serve::Config::default() };
        let (killed, (report, started)) = (Arc::new(Notify::new()), std::sync::mpsc::channel());
        let end = killed.clone();
        let thread = self.host.thread("server", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let server = match serve::Server::bind(config) {
                    Ok(server) => server,
                    Err(error) => return drop(report.send(Err(error.to_string()))),
                };
                let _ = report.send(Ok(()));
                tokio::select! {
                    _ = server.run(std::future::pending()) => {}
                    () = end.notified() => {}
                }
            });
            runtime.shutdown_background();
        })?;
        started.recv()??;
        Ok(Running::Thread(killed, thread))
    }

    fn start_apache(&self) -> Result<Running> {
        let (scratch, root, address) = (self.scratch.display(), self.root.display(), self.address);
        let modules = ["mpm_event", "authz_core", "dav", "dav_fs"]
            .map(|module| format!("LoadModule {module}_module {MODULES}/mod_{module}.so\n"))
            .concat();
        let user = if is_root() { "User #65534\nGroup #65534\n" } else { "" };
        let text = format!(
            "ServerRoot \"{scratch}\"\nServerName localhost\nDefaultRuntimeDir \"{scratch}\"\nPidFile \"{scratch}/pid\"\n\
             Mutex \"file:{scratch}\"\n{modules}{user}Listen {address}\nMaxKeepAliveRequests 0\n\
             ErrorLog \"{scratch}/error.log\"\nDavLockDB \"{scratch}/locks/db\"\nDocumentRoot \"{root}\"\n\
             <Directory \"{root}\">\nDav on\nRequire all granted\n</Directory>\n"
        );
        let (file, pid) = (self.scratch.join("apache.conf"), self.scratch.join("pid"));
        fs::write(&file, text)?;
        let _ = fs::remove_file(&pid);
        let mut command = Command::new(APACHE);
        command.arg("-f").arg(file).args(["-D", "FOREGROUND"]).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.host.attach(&mut command);
        let mut child = command.spawn()?;
        // It writes its PID file when it listens.
        let begin = Instant::now();
        while fs::read_to_string(&pid).unwrap_or_default().is_empty() {
            if child.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
                let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                let _ = child.wait();
                let log = fs::read_to_string(self.scratch.join("error.log")).unwrap_or_default();
                return Err(format!("Apache does not start: {}", log.lines().last().unwrap_or_default()).into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Running::Group(child))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
