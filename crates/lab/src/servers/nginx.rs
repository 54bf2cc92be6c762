//! nginx with its own `dav` module and Debian's `dav-ext`, which adds PROPFIND, OPTIONS,
//! LOCK and UNLOCK. It has no PROPPATCH.

use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User};

use super::{Folder, Http, Running, Server, ServerError, Setup, launch};
use crate::process::{Missing, Program};

const NGINX: Program = Program { name: "nginx", package: "nginx", version: "-v" };
const MODULE: &str = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so";
const MODULE_PACKAGE: &str = "libnginx-mod-http-dav-ext";

pub(super) struct Nginx;

impl Server for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn describe(&self) -> &'static str {
        "nginx with its dav module and dav-ext"
    }

    fn missing(&self) -> Option<Missing> {
        let module = || {
            let what = "nginx's dav-ext module".to_owned();
            (!Path::new(MODULE).is_file()).then_some(Missing { what, package: MODULE_PACKAGE })
        };
        NGINX.find().err().or_else(module)
    }

    fn proppatch(&self) -> bool {
        false
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("version", NGINX.version().as_str()),
            ("ssl_protocols", "TLSv1.2 TLSv1.3"),
            ("keepalive_requests", "1000000"),
            ("http2_body_preread_size", "default (64k)"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let folder = Folder::new(self.name(), setup.scratch)?;
        let root = folder.folder("root")?;
        folder.folder("temp")?;
        let tls = setup.certificates.map(|certificates| folder.certificates(certificates)).transpose()?;
        let file = folder.file("nginx.conf", &configuration(setup, &root, folder.owner, tls.as_ref()))?;

        let mut command = NGINX.command(setup.scratch)?;
        command.arg("-p").arg(setup.scratch).arg("-c").arg(file).args(["-e", "error.log"]);
        launch(self.name(), setup, &mut command, &folder, root)
    }
}

fn configuration(setup: &Setup, root: &Path, owner: Option<(Uid, Gid)>, tls: Option<&(PathBuf, PathBuf)>) -> String {
    let scratch = setup.scratch.display();
    let temporary: Vec<_> = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .into_iter()
        .map(|kind| format!("    {kind}_temp_path \"{scratch}/temp/{kind}\";"))
        .collect();
    let temporary = temporary.join("\n");
    // Started by root, it works as an ordinary user, whom it wants by name.
    let user = owner.and_then(|(uid, gid)| {
        let (user, group) = (User::from_uid(uid).ok()??, Group::from_gid(gid).ok()??);
        Some(format!("user {} {};\n", user.name, group.name))
    });
    let user = user.unwrap_or_default();
    let http2 = if setup.http == Http::Two { " http2" } else { "" };
    let ssl = if tls.is_some() { " ssl" } else { "" };
    let tls = tls.map_or(String::new(), |(certificate, key)| {
        format!(
            "        ssl_protocols TLSv1.2 TLSv1.3;\n        ssl_certificate \"{}\";\n        \
             ssl_certificate_key \"{}\";\n",
            certificate.display(),
            key.display()
        )
    });
    format!(
        r#"load_module {MODULE};
daemon off;
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
    client_max_body_size 0;
    keepalive_requests 1000000;
    keepalive_timeout 60s;
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
}}
"#,
        address = setup.address,
        root = root.display(),
    )
}
