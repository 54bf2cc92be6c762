//! Apache 2.4 with `mod_dav` and `mod_dav_fs`, the source article's server.
//!
//! Everything that decides its speed over a long link is left as it comes (HTTP/2 windows,
//! session tickets, record sizes) but for the limits that would cut a race short: requests
//! on a connection are not limited, since 2.4's 100 would force reconnections that the
//! article's author may not have had, and enough threads wait from the start for fifty
//! parallel connections.

use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid};

use super::{Folder, Http, Running, Server, ServerError, Setup, launch};
use crate::process::{Missing, Program};

const APACHE: Program = Program { name: "apache2", package: "apache2", version: "-v" };
const MODULES: &str = "/usr/lib/apache2/modules";

pub(super) struct Apache;

impl Server for Apache {
    fn name(&self) -> &'static str {
        "apache"
    }

    fn describe(&self) -> &'static str {
        "Apache 2.4 with mod_dav and mod_dav_fs"
    }

    fn missing(&self) -> Option<Missing> {
        APACHE.find().err()
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("version", APACHE.version().as_str()),
            ("MaxKeepAliveRequests", "0"),
            ("DavDepthInfinity", "on"),
            ("ThreadsPerChild", "64"),
            ("H2WindowSize", "default (65535)"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let folder = Folder::new(self.name(), setup.scratch)?;
        let root = folder.folder("root")?;
        folder.folder("locks")?;
        let tls = setup.certificates.map(|certificates| folder.certificates(certificates)).transpose()?;
        let text = configuration(setup, &root, folder.owner, tls.as_ref());
        let file = folder.file("apache.conf", &text)?;

        let mut command = APACHE.command(setup.scratch)?;
        command.arg("-f").arg(file).args(["-D", "FOREGROUND"]);
        launch(self.name(), setup, &mut command, &folder, root)
    }
}

fn configuration(setup: &Setup, root: &Path, owner: Option<(Uid, Gid)>, tls: Option<&(PathBuf, PathBuf)>) -> String {
    let scratch = setup.scratch.display();
    let root = root.display();
    let modules: Vec<_> = ["mpm_event", "authz_core", "dav", "dav_fs", "http2"]
        .into_iter()
        .chain(tls.map(|_| "ssl"))
        .map(|module| format!("LoadModule {module}_module {MODULES}/mod_{module}.so"))
        .collect();
    let modules = modules.join("\n");
    // Started by root, it works as an ordinary user.
    let user = owner.map_or(String::new(), |(uid, gid)| format!("User #{uid}\nGroup #{gid}\n"));
    let protocols = match (setup.http, tls) {
        (Http::One, _) => "http/1.1",
        (Http::Two, Some(_)) => "h2 http/1.1",
        (Http::Two, None) => "h2c http/1.1",
    };
    let tls = tls.map_or(String::new(), |(certificate, key)| {
        format!(
            "SSLEngine on\nSSLProtocol -all +TLSv1.2 +TLSv1.3\nSSLSessionCache none\n\
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
LogFormat "%h %l %u %t \"%r\" %>s %b" common
CustomLog "{scratch}/access.log" common
DavLockDB "{scratch}/locks/db"
DocumentRoot "{root}"
<Directory "{root}">
    Dav on
    DavDepthInfinity on
    Require all granted
</Directory>
{tls}"#,
        ip = setup.address.ip(),
        address = setup.address,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bounds::Bounds, place::Here};

    fn text(http: Http, tls: bool) -> String {
        let setup = Setup {
            place: &Here,
            address: "[fd00::2]:443".parse().unwrap(),
            certificates: None,
            http,
            scratch: Path::new("/s"),
            bounds: Bounds::tidy(std::time::Duration::ZERO),
        };
        let tls = tls.then(|| ("/s/server.pem".into(), "/s/server.key".into()));
        configuration(&setup, Path::new("/s/root"), None, tls.as_ref())
    }

    #[test]
    fn offers_what_the_contender_needs() {
        for (http, tls, protocols) in [
            (Http::One, true, "Protocols http/1.1\n"),
            (Http::Two, true, "Protocols h2 http/1.1\n"),
            (Http::Two, false, "Protocols h2c http/1.1\n"),
        ] {
            let text = text(http, tls);
            assert!(text.contains(protocols), "{text}");
            assert_eq!(text.contains("SSLEngine on"), tls);
            assert!(text.contains("Listen [fd00::2]:443\n"));
        }
    }
}
