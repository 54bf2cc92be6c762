//! Apache with mod_dav, which lets users in with Kerberos (mod_auth_gssapi). Each has a folder that nobody else may read.

use std::{fs, net::TcpStream, path::PathBuf};

use nix::unistd::{Uid, chown, geteuid};

use crate::{
    Daemon, NOBODY,
    common::{Room, eventually},
    free_port,
    realm::{Realm, SERVER},
};

const MODULES: [&str; 7] = ["mpm_event", "authn_core", "authz_core", "authz_user", "auth_gssapi", "dav", "dav_fs"];

/// The package of the first module that is missing.
pub(crate) fn missing() -> Option<&'static str> {
    let lacks = |name: &&str| !PathBuf::from(format!("/usr/lib/apache2/modules/mod_{name}.so")).exists();
    let package = |name| if name == "auth_gssapi" { "libapache2-mod-auth-gssapi" } else { "apache2-bin" };
    MODULES.into_iter().find(lacks).map(package)
}

/// A running server.
pub(crate) struct WebServer {
    _process: Daemon,
    folder: PathBuf,
    /// Its URL, up to the users' folders.
    pub(crate) url: String,
}

impl WebServer {
    /// In a folder of the room, with folders for these users.
    pub(crate) fn start(room: &Room, realm: &Realm, users: &[&str]) -> Self {
        let (folder, port) = (room.path("web"), free_port());
        for name in ["locks", "tmp"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        for user in users {
            fs::create_dir_all(folder.join("files").join(user)).expect("a folder");
        }
        let own = ["locks", "files", "tmp"]
            .into_iter()
            .map(str::to_owned)
            .chain(users.iter().map(|user| format!("files/{user}")));
        for path in own.map(|name| folder.join(name)).chain([realm.keytab(SERVER)]) {
            // Apache stays who it is if it is not started by root.
            if geteuid().is_root() {
                chown(&path, Some(Uid::from_raw(NOBODY)), None).expect("it is ours");
            }
        }
        let modules =
            MODULES.map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")).concat();
        let (at, keytab) = (folder.display(), realm.keytab(SERVER));
        let only = |user| format!("<Directory \"{at}/files/{user}\">\n  Require user {user}\n</Directory>\n");
        let closed = users.iter().map(only).collect::<Vec<_>>().concat();
        let settings = format!(
            r##"{modules}ServerRoot "{at}"
ServerName localhost
Listen 127.0.0.1:{port}
DefaultRuntimeDir "{at}"
PidFile "{at}/pid"
Mutex "file:{at}"
User "#{NOBODY}"
Group "#{NOBODY}"
ErrorLog "{at}/error.log"
LogFormat "%u %>s %r" short
CustomLog "{at}/access.log" short
DavLockDB "{at}/locks/db"
DocumentRoot "{at}/files"
<Directory "{at}/files">
  Dav On
  AuthType GSSAPI
  AuthName files
  GssapiCredStore "keytab:{}"
  GssapiLocalName On
  GssapiAllowedMech krb5
  GssapiBasicAuth On
  Require valid-user
</Directory>
{closed}"##,
            keytab.display()
        );
        fs::write(folder.join("apache.conf"), settings).expect("a file");
        let mut command = Daemon::command(room, "/usr/sbin/apache2");
        realm.environment(&mut command);
        // For the cache of the tokens that it has seen, in which it finds replays.
        command.env("TMPDIR", folder.join("tmp"));
        command.arg("-f").arg(folder.join("apache.conf")).args(["-D", "FOREGROUND"]);
        let process = Daemon::start(command);
        let is_there = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(eventually(is_there), "Apache does not start");
        Self { _process: process, folder, url: format!("http://localhost:{port}/") }
    }

    /// The contents of a file there.
    pub(crate) fn file(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.folder.join("files").join(path)).ok()
    }

    /// What it has logged as an error.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("error.log")).unwrap_or_default()
    }

    /// Requests: user, status, method, target.
    pub(crate) fn requests(&self) -> Vec<[String; 4]> {
        let log = fs::read_to_string(self.folder.join("access.log")).expect("a log");
        let words = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            std::array::from_fn(|_| words.next().unwrap_or_default())
        };
        log.lines().map(words).collect()
    }
}
