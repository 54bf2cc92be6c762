//! The server: Apache with a folder for each user, which nobody else may enter, or `haul serve`, where they may.

use std::{
    error::Error,
    fmt::Write,
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::Command,
};

use super::{Plan, user};

pub(super) const PORT: u16 = 8443;
const MODULES: &str = "/usr/lib/apache2/modules";
const NEEDED: [&str; 10] = [
    "mpm_event",
    "authn_core",
    "authn_file",
    "auth_basic",
    "authz_core",
    "authz_user",
    "dav",
    "dav_fs",
    "http2",
    "ssl",
];
/// `nobody`.
const OWNER: u32 = 65534;

/// The program that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Apache,
    HaulServe,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apache => "apache",
            Self::HaulServe => "haul-serve",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Apache, Self::HaulServe].into_iter().find(|program| program.name() == name)
    }
}

/// What this machine lacks.
pub(crate) fn missing(program: Program) -> Option<String> {
    let module = |name: &str| Path::new(MODULES).join(format!("mod_{name}.so")).is_file();
    let has_apache = || Path::new("/usr/sbin/apache2").is_file() && NEEDED.into_iter().all(module);
    let lacks = program == Program::Apache && !has_apache();
    lacks.then(|| "Apache is not installed; apt-get install apache2-bin".to_owned())
}

/// Becomes the server, and returns only why it cannot.
pub(super) fn become_server(folder: &Path, address: &str, plan: &Plan) -> String {
    let file = match configure(folder, address, plan.users) {
        Ok(file) => file,
        Err(error) => return error.to_string(),
    };
    let mut command = match plan.server {
        Program::Apache => {
            let mut command = Command::new("/usr/sbin/apache2");
            command.arg("-f").arg(file).args(["-D", "FOREGROUND"]);
            command
        }
        Program::HaulServe => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
            command.arg("serve").arg(folder.join("root")).args(["--listen", &format!("{address}:{PORT}")]);
            let path = |name: &str| folder.join(name).display().to_string();
            command.arg("--tls").arg(format!("{},{}", path("server.pem"), path("server.key")));
            command.args(["--auth", &path("passwords"), "--log", &path("access.log")]);
            command
        }
    };
    command.exec().to_string()
}

fn configure(folder: &Path, address: &str, users: usize) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed([address.to_owned()])?;
    fs::write(folder.join("server.key"), made.signing_key.serialize_pem())?;
    let is_root = nix::unistd::geteuid().is_root();
    let mut passwords = String::new();
    let mut folders = String::new();
    fs::create_dir(folder.join("locks"))?;
    fs::create_dir(folder.join("root"))?;
    for name in (0..users).map(user::name) {
        let hash = bcrypt::hash_with_result(user::password(&name), 4)?.format_for_version(bcrypt::Version::TwoY);
        writeln!(passwords, "{name}:{hash}")?;
        fs::create_dir(folder.join("root").join(&name))?;
        writeln!(folders, "<Location \"/{name}/\">\nRequire user {name}\n</Location>")?;
    }
    fs::write(folder.join("passwords"), passwords)?;
    let modules = NEEDED.iter().map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n"));
    let owner = if is_root { format!("User #{OWNER}\nGroup #{OWNER}\n") } else { String::new() };
    let here = folder.display();
    let text = format!(
        "ServerRoot \"{here}\"\nServerName {address}\nDefaultRuntimeDir \"{here}\"\nPidFile \"{here}/pid\"\n\
         Mutex \"file:{here}/locks\"\n{}{owner}Listen {address}:{PORT}\nProtocols h2 http/1.1\nServerLimit 4\nStartServers 2\n\
         ThreadsPerChild 64\nMinSpareThreads 64\nMaxRequestWorkers 256\nKeepAlive on\nKeepAliveTimeout 60\n\
         MaxKeepAliveRequests 0\nErrorLog \"{here}/error.log\"\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common\n\
         CustomLog \"{here}/access.log\" common\nDavLockDB \"{here}/locks/db\"\nDocumentRoot \"{here}/root\"\n\
         SSLEngine on\nSSLCertificateFile \"{here}/server.pem\"\nSSLCertificateKeyFile \"{here}/server.key\"\n\
         <Directory \"{here}/root\">\nDav on\nAuthType Basic\nAuthName files\nAuthBasicProvider file\n\
         AuthUserFile \"{here}/passwords\"\nRequire valid-user\n</Directory>\n{folders}",
        modules.collect::<String>(),
    );
    if is_root {
        for entry in fs::read_dir(folder.join("root"))? {
            chown(entry?.path(), Some(OWNER), Some(OWNER))?;
        }
        chown(folder.join("locks"), Some(OWNER), Some(OWNER))?;
    }
    fs::write(folder.join("apache.conf"), text)?;
    // Last: with it, all is there.
    fs::write(folder.join("server.pem"), made.cert.pem())?;
    Ok(folder.join("apache.conf"))
}
