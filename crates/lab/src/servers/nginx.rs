//! nginx with its own `dav` module and Debian's `dav-ext`, which adds PROPFIND, OPTIONS, LOCK and UNLOCK, but no
//! PROPPATCH.
//!
//! `nginx-tuned` is the same with what its manual offers for speed: request bodies in memory instead of in temporary files,
//! larger HTTP/2 windows, files sent by the kernel in full packets, and a cache of TLS sessions beside the tickets.

use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};

use super::{Folder, Http, Running, Server, ServerError, Setup, launch};
use crate::process::{Missing, Program};

pub(crate) const NGINX: Program = Program { name: "nginx", package: "nginx", version: "-v" };
const MODULE: &str = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so";
const MODULE_PACKAGE: &str = "libnginx-mod-http-dav-ext";

/// What is left as it comes, and matters.
const DEFAULTS: &[(&str, &str)] = &[("http2_body_preread_size", "default (64k)")];
/// What its manual offers for speed.
const TUNED: &[(&str, &str)] = &[
    ("client_body_buffer_size", "1m"),
    ("http2_body_preread_size", "8m"),
    ("http2_recv_buffer_size", "1m"),
    ("sendfile", "on"),
    ("tcp_nopush", "on"),
];

pub(super) struct Nginx {
    pub(super) is_tuned: bool,
}

impl Server for Nginx {
    fn name(&self) -> &'static str {
        if self.is_tuned { "nginx-tuned" } else { "nginx" }
    }

    fn describe(&self) -> &'static str {
        if self.is_tuned {
            "nginx with its dav module and dav-ext, tuned by its manual"
        } else {
            "nginx with its dav module and dav-ext"
        }
    }

    fn missing(&self) -> Option<Missing> {
        let module = || {
            let what = "nginx's dav-ext module".to_owned();
            (!Path::new(MODULE).is_file()).then_some(Missing { what, package: MODULE_PACKAGE.into() })
        };
        NGINX.find().err().or_else(module)
    }

    /// Seen with its module dav-ext 3.0.
    fn lists_hidden(&self) -> bool {
        false
    }

    fn proppatch(&self) -> bool {
        false
    }

    fn settings(&self) -> Vec<(String, String)> {
        [("version", NGINX.version().as_str()), ("ssl_protocols", "TLSv1.2 TLSv1.3"), ("keepalive_requests", "1000000")]
            .iter()
            .chain(if self.is_tuned { TUNED } else { DEFAULTS })
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let folder = Folder::new(self.name(), setup.scratch)?;
        let root = folder.folder("root")?;
        let http2 = if setup.http == Http::Two { " http2" } else { "" };
        let tls = Tls::of(setup, &folder, "TLSv1.2 TLSv1.3")?;
        let around = format!("load_module {MODULE};\n");
        let tuning: Vec<String> = if self.is_tuned { TUNED } else { &[] }
            .iter()
            .map(|(name, value)| format!("    {name} {value};\n"))
            .collect();
        let tuning = tuning.concat();
        let http = format!(
            r#"{tuning}    client_max_body_size 0;
    dav_ext_lock_zone zone=locks:10m;
    server {{
        listen {address}{ssl}{http2};
{tls}        root "{root}";
        location / {{
            dav_methods PUT DELETE MKCOL COPY MOVE;
            dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK;
            dav_ext_lock zone=locks;
            create_full_put_path on;
        }}
    }}
"#,
            address = setup.address,
            ssl = tls.listen,
            tls = tls.lines,
            root = root.display(),
        );
        run(self.name(), setup, &folder, root, &around, &http)
    }
}

/// The TLS part of a `server` block.
pub(super) struct Tls {
    /// The parameter of `listen`.
    pub(super) listen: &'static str,
    /// The directives for certificates and versions.
    pub(super) lines: String,
}

impl Tls {
    /// The part for this setup, with these versions of TLS.
    pub(super) fn of(setup: &Setup, folder: &Folder, versions: &str) -> Result<Self, ServerError> {
        let Some(certificates) = setup.certificates else { return Ok(Self { listen: "", lines: String::new() }) };
        let (mut certificate, key) = folder.certificates(&certificates.server_pem, certificates)?;
        if !certificates.host_pems.is_empty() {
            // nginx reads the file of the name that the client asks for; without one, `.pem`.
            for (host, pem) in &certificates.host_pems {
                folder.file(&format!("{host}.pem"), pem)?;
            }
            folder.file(".pem", &certificates.server_pem)?;
            certificate.set_file_name("$ssl_server_name.pem");
        }
        let lines = format!(
            "        ssl_protocols {versions};\n        ssl_certificate \"{}\";\n        \
             ssl_certificate_key \"{}\";\n",
            certificate.display(),
            key.display()
        );
        Ok(Self { listen: " ssl", lines })
    }
}

/// Runs nginx with `http` in its `http` block, and `before` at the top.
pub(super) fn run(
    name: &'static str,
    setup: &Setup,
    folder: &Folder,
    root: PathBuf,
    before: &str,
    http: &str,
) -> Result<Running, ServerError> {
    let scratch = setup.scratch.display();
    folder.folder("temp")?;
    let temporary: Vec<_> = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .into_iter()
        .map(|kind| format!("    {kind}_temp_path \"{scratch}/temp/{kind}\";"))
        .collect();
    let temporary = temporary.join("\n");
    // Started by root, it switches to an ordinary user, given by name.
    let user = folder.owner.and_then(|(uid, gid)| {
        let (user, group) = (User::from_uid(uid).ok()??, Group::from_gid(gid).ok()??);
        Some(format!("user {} {};\n", user.name, group.name))
    });
    let user = user.unwrap_or_default();
    let configuration = format!(
        r#"{before}daemon off;
{user}worker_processes 2;
pid "{scratch}/pid";
error_log "{scratch}/error.log";
events {{
    worker_connections 512;
}}
http {{
    log_format with_tls '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $ssl_protocol $ssl_cipher';
    access_log "{scratch}/access.log" with_tls;
{temporary}
    keepalive_requests 1000000;
    keepalive_timeout 60s;
{http}}}
"#
    );
    let file = folder.file("nginx.conf", &configuration)?;
    let mut command = NGINX.command(setup.scratch)?;
    command.arg("-p").arg(setup.scratch).arg("-c").arg(file).args(["-e", "error.log"]);
    launch(name, setup, &mut command, folder, root)
}
