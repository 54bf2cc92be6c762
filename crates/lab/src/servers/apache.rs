//! Apache 2.4 with `mod_dav` and `mod_dav_fs`, the source article's server.
//!
//! Everything that decides its speed over a long link keeps its default (HTTP/2 windows, session tickets, record
//! sizes). Two limits are raised, because they would distort a race: requests per connection, since 2.4's limit of 100
//! would force reconnections that the article's author may not have had, and threads, so that fifty parallel
//! connections do not wait.
//!
//! `apache-tuned` is the same with what its manual offers for a fast link over long distance: HTTP/2 windows that do not stop an
//! upload every 64 KiB, files sent by the kernel, and a cache of TLS sessions beside the tickets.
//!
//! A first write creates the lock database before any sample. Otherwise several parallel first requests would: one of
//! them creates `locks/__db.db` with `O_EXCL` (Berkeley DB, on Debian), and each of the others *sleeps for a second*
//! before it looks again. This was seen with strace: sixteen parallel PUTs over 18 ms took 1.06 s in 30 of 30 runs with
//! a new database, and never with an old one. It happens once in a server's life, and is no property of its clients.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nix::unistd::{Gid, Uid};

use super::{Folder, Http, Running, Server, ServerError, Setup, USER, launch};
use crate::{
    contenders::Failure,
    host_task::run_task,
    http_client::{Connection, Endpoint},
    process::{Missing, Program},
};

const APACHE: Program = Program { name: "apache2", package: "apache2-bin", version: "-v" };
const FOLDER: &str = "/usr/lib/apache2/modules";
/// The modules that are always needed; on Debian all of them come with the program.
const MODULES: [&str; 5] = ["mpm_event", "authz_core", "dav", "dav_fs", "http2"];
const TLS_MODULE: &str = "ssl";
/// The modules for passwords.
const PASSWORD_MODULES: [&str; 4] = ["auth_basic", "authn_core", "authn_file", "authz_user"];
/// [`USER`]'s line in the file of passwords. This hash (`htpasswd -s`) costs no time, which would be the lab's.
const PASSWORD: &str = "lab:{SHA}OVP53fl1q1CX7kaNmVVcW0QRab8=\n";

/// The cache of TLS sessions.
const SESSION_CACHE_MODULE: &str = "socache_shmcb";
/// What is left as it comes, and matters.
const DEFAULTS: &[(&str, &str)] = &[("SSLSessionCache", "none"), ("H2WindowSize", "default (65535)")];
/// What its manual offers for speed.
const TUNED: &[(&str, &str)] = &[
    ("H2WindowSize", "8388608"),
    ("H2MaxSessionStreams", "200"),
    ("EnableSendfile", "On"),
    ("SSLSessionCache", "shmcb:ssl(512000)"),
];

pub(super) struct Apache {
    pub(super) is_tuned: bool,
}

impl Apache {
    /// The directives that differ from the defaults for speed.
    fn tuning(&self) -> &'static [(&'static str, &'static str)] {
        if self.is_tuned { TUNED } else { &[] }
    }

    fn modules(&self) -> impl Iterator<Item = &'static str> {
        MODULES.into_iter().chain(self.is_tuned.then_some(SESSION_CACHE_MODULE))
    }
}

impl Server for Apache {
    fn name(&self) -> &'static str {
        if self.is_tuned { "apache-tuned" } else { "apache" }
    }

    fn describe(&self) -> &'static str {
        if self.is_tuned {
            "Apache 2.4 with mod_dav and mod_dav_fs, tuned by its manual"
        } else {
            "Apache 2.4 with mod_dav and mod_dav_fs"
        }
    }

    fn asks(&self) -> bool {
        true
    }

    fn missing(&self) -> Option<Missing> {
        let module = |name: &str| {
            let what = format!("Apache's mod_{name}");
            (!module_file(name).is_file()).then_some(Missing { what, package: APACHE.package.into() })
        };
        APACHE.find().err().or_else(|| self.modules().chain([TLS_MODULE]).chain(PASSWORD_MODULES).find_map(module))
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("version", APACHE.version().as_str()),
            ("MPM", "event"),
            ("SSLProtocol", "TLSv1.2 TLSv1.3"),
            ("MaxKeepAliveRequests", "0"),
            ("DavDepthInfinity", "on"),
            ("ThreadsPerChild", "64"),
        ]
        .iter()
        .chain(if self.is_tuned { TUNED } else { DEFAULTS })
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let folder = Folder::new(self.name(), setup.scratch)?;
        let root = folder.folder("root")?;
        folder.folder("locks")?;
        let tls = setup.certificates.map(|made| folder.certificates(&made.server_pem, made)).transpose()?;
        let passwords = setup.asks.then(|| folder.file("passwords", PASSWORD)).transpose()?;
        let text = configuration(self, setup, &root, folder.owner, tls.as_ref(), passwords.as_deref());
        let file = folder.file("apache.conf", &text)?;

        let mut command = APACHE.command(setup.scratch)?;
        command.arg("-f").arg(file).args(["-D", "FOREGROUND"]);
        let running = launch(self.name(), setup, &mut command, &folder, root)?;
        make_lock_database(setup, &running).map_err(|failure| ServerError::Start {
            server: self.name(),
            address: setup.address,
            why: failure.to_string(),
        })?;
        Ok(running)
    }
}

fn module_file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("mod_{name}.so"))
}

/// Makes the server write a file, and removes it again.
fn make_lock_database(setup: &Setup, running: &Running) -> Result<(), Failure> {
    const FILE: &str = "first-write";
    let endpoint = Endpoint::new(running.url(), setup.certificates, rustls::DEFAULT_VERSIONS, Http::One)?;
    run_task(setup.host, &setup.deadline, move || async move {
        let mut connection = Connection::open(&endpoint).await?;
        connection.sign_in();
        connection.request("PUT", &format!("/{FILE}"), &[], "").await?.expect(&[201])
    })?;
    let file = running.root().join(FILE);
    fs::remove_file(&file).map_err(|source| Failure::Io { what: "remove", path: file, source })
}

fn configuration(
    server: &Apache,
    setup: &Setup,
    root: &Path,
    owner: Option<(Uid, Gid)>,
    tls: Option<&(PathBuf, PathBuf)>,
    passwords: Option<&Path>,
) -> String {
    let scratch = setup.scratch.display();
    let root = root.display();
    let modules: Vec<_> = server
        .modules()
        .chain(tls.map(|_| TLS_MODULE))
        .chain(passwords.into_iter().flat_map(|_| PASSWORD_MODULES))
        .map(|module| format!("LoadModule {module}_module {}", module_file(module).display()))
        .collect();
    let modules = modules.join("\n");
    let who = passwords.map_or("Require all granted".to_owned(), |file| {
        format!("AuthType Basic\n    AuthName lab\n    AuthUserFile \"{}\"\n    Require user {USER}", file.display())
    });
    // Started by root, it switches to an ordinary user.
    let user = owner.map_or(String::new(), |(uid, gid)| format!("User #{uid}\nGroup #{gid}\n"));
    let protocols = match (setup.http, tls) {
        (Http::One, _) => "http/1.1",
        (Http::Two, Some(_)) => "h2 http/1.1",
        (Http::Two, None) => "h2c http/1.1",
    };
    // The cache of TLS sessions is mod_ssl's.
    let tuning: Vec<String> = server
        .tuning()
        .iter()
        .filter(|(name, _)| tls.is_some() || !name.starts_with("SSL"))
        .map(|(name, value)| format!("{name} {value}\n"))
        .collect();
    let tuning = tuning.concat();
    let cache = if server.is_tuned { "" } else { "SSLSessionCache none\n" };
    // Only mod_ssl knows these.
    let logged_tls = if tls.is_some() { " %{SSL_PROTOCOL}x %{SSL_CIPHER}x" } else { "" };
    let tls = tls.map_or(String::new(), |(certificate, key)| {
        format!(
            "SSLEngine on\nSSLProtocol -all +TLSv1.2 +TLSv1.3\n{cache}\
             SSLCertificateFile \"{}\"\nSSLCertificateKeyFile \"{}\"\n",
            certificate.display(),
            key.display()
        )
    });
    format!(
        r#"ServerRoot "{scratch}"
ServerName {ip}
DefaultRuntimeDir "{scratch}"
PidFile "{scratch}/pid"
Mutex "file:{scratch}"
{modules}
{user}Listen {address}
Protocols {protocols}
ServerLimit 4
StartServers 2
ThreadsPerChild 64
MinSpareThreads 64
MaxRequestWorkers 256
Timeout 60
KeepAlive on
KeepAliveTimeout 60
MaxKeepAliveRequests 0
ErrorLog "{scratch}/error.log"
LogFormat "%h %l %u %t \"%r\" %>s %b{logged_tls}" common
CustomLog "{scratch}/access.log" common
DavLockDB "{scratch}/locks/db"
DocumentRoot "{root}"
<Directory "{root}">
    Dav on
    DavDepthInfinity on
    {who}
</Directory>
{tuning}{tls}"#,
        ip = setup.address.ip(),
        address = setup.address,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{deadline::Deadline, spawn::Local};

    fn text(server: &Apache, http: Http, tls: bool) -> String {
        let setup = Setup {
            host: &Local,
            address: "[fd00::2]:443".parse().unwrap(),
            certificates: None,
            http,
            asks: false,
            quirks: serve::Quirks::default(),
            page: None,
            scratch: Path::new("/s"),
            deadline: Deadline::for_cleanup(std::time::Duration::ZERO),
        };
        let tls = tls.then(|| ("/s/server.pem".into(), "/s/server.key".into()));
        configuration(server, &setup, Path::new("/s/root"), None, tls.as_ref(), None)
    }

    #[test]
    fn configuration_offers_the_contenders_protocol() {
        for (http, tls, protocols) in [
            (Http::One, true, "Protocols http/1.1\n"),
            (Http::Two, true, "Protocols h2 http/1.1\n"),
            (Http::Two, false, "Protocols h2c http/1.1\n"),
        ] {
            let plain = Apache { is_tuned: false };
            let tuned = text(&Apache { is_tuned: true }, http, tls);
            assert!(tuned.contains("\nH2WindowSize 8388608\n"));
            assert_eq!((tuned.contains("SSLSessionCache shmcb"), tuned.contains("SSLSessionCache none")), (tls, false));
            let text = text(&plain, http, tls);
            assert!(!text.contains("H2WindowSize"));
            assert!(text.contains(protocols), "{text}");
            assert_eq!(text.contains("SSLEngine on"), tls);
            assert_eq!(text.contains("%b %{SSL_PROTOCOL}x %{SSL_CIPHER}x\" common\n"), tls);
            assert!(text.contains("Listen [fd00::2]:443\n"));
        }
    }
}
