//! nginx as a plain reverse proxy in front of another server, as its manual has it: `proxy_pass` over kept connections.

use std::net::SocketAddr;

use super::{
    Folder, Running, ServerError, Setup,
    nginx::{Tls, run},
};

const NAME: &str = "nginx as a proxy";

/// Starts it where `setup` says, in front of the server at `upstream`, over TLS where it serves TLS itself.
pub(crate) fn reverse_proxy(setup: &Setup, upstream: SocketAddr) -> Result<Running, ServerError> {
    let folder = Folder::new(NAME, setup.scratch)?;
    let root = folder.folder("root")?;
    let tls = Tls::of(setup, &folder, "TLSv1.2 TLSv1.3")?;
    let scheme = if setup.certificates.is_some() { "https" } else { "http" };
    let http = format!(
        r#"    client_max_body_size 0;
    upstream origin {{
        server {upstream};
        keepalive 16;
        keepalive_requests 1000000;
    }}
    server {{
        listen {address}{ssl};
{tls}        location / {{
            proxy_pass {scheme}://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_ssl_protocols TLSv1.2 TLSv1.3;
        }}
    }}
"#,
        address = setup.address,
        ssl = tls.listen,
        tls = tls.lines,
    );
    run(NAME, setup, &folder, root, "", &http)
}
