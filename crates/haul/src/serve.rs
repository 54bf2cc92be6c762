//! `haul serve`: a folder as a WebDAV share.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::serve::{AccessLog, Config, Server, Tls};
use tokio::signal::unix::{SignalKind, signal};

/// Serve a folder over WebDAV, HTTP/1.1 and HTTP/2, until Ctrl-C.
///
/// With TLS, HTTP/3 is offered as well, over UDP on the same port.
///
/// Uploads appear whole or not at all, and are on disk when the client is told they are done. Links
/// inside the folder are neither followed nor shown.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder to serve.
    #[arg(value_name = "DIR")]
    root: PathBuf,
    /// Where to listen; may be given several times. Port 0 lets the system choose.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Serve over TLS, with a certificate made on the spot or with the PEM files CERT,KEY.
    #[arg(long, value_name = "self-signed|CERT,KEY")]
    tls: Option<Tls>,
    /// Write the server's certificate to FILE (PEM), for clients to trust.
    #[arg(long, value_name = "FILE", requires = "tls")]
    cert_out: Option<PathBuf>,
    /// Let in only the users of FILE, with lines as `htpasswd -nB USER` prints them.
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Name of this server besides localhost and the machine's, such as dav.example.org; may be repeated. Without TLS
    /// and passwords it answers to no other.
    #[arg(long, value_name = "NAME", value_parser = host)]
    host: Vec<String>,
    /// Refuse everything that would change a file.
    #[arg(long)]
    read_only: bool,
    /// Maximum number of connections. For one more, an idle or slow one is closed.
    #[arg(long, value_name = "N", default_value = "1024")]
    connections: NonZeroUsize,
    /// Write a line per request to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE|-")]
    log: Option<PathBuf>,
}

/// Names are not resolved: what listens where should not depend on an answer from elsewhere.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an address and a port, like 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080")
}

/// A name, without a port.
fn host(text: &str) -> Result<String, &'static str> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let name = (is_name && !text.is_empty()).then(|| text.to_owned());
    name.ok_or("write a name without a port, like dav.example.org; an international one as in DNS (xn--…)")
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let access_log = match args.log {
        Some(path) if path.as_os_str() == "-" => Some(AccessLog::new(io::stdout())),
        Some(path) => Some(AccessLog::file(&path)?),
        None => None,
    };
    let open_to_all = args.auth.is_none() && !args.read_only;
    let server = Server::bind(Config {
        root: args.root.clone(),
        listen: args.listen,
        tls: args.tls,
        auth: args.auth,
        read_only: args.read_only,
        access_log,
        hosts: args.host,
        connections: Some(args.connections),
    })?;
    if let (Some(path), Some(certificate)) = (&args.cert_out, server.certificate()) {
        output::write(path, |to| to.write_all(certificate.pem.as_bytes()))
            .map_err(|error| format!("cannot write the certificate to {}: {error}", path.display()))?;
    }
    let _ = greet(&server, &args.root, args.read_only, open_to_all, args.cert_out.is_some());

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        Ok(server.run(stop).await?)
    });
    // What still blocks on a broken disk must not keep the program.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// Tells a person what is served where. Standard output belongs to the log. That nobody listens is no error.
fn greet(server: &Server, root: &Path, read_only: bool, open_to_all: bool, written: bool) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let scheme = if server.certificate().is_some() { "https" } else { "http" };
    let how = if read_only { " (read-only)" } else { "" };
    for address in server.local_addrs() {
        writeln!(out, "Serving {}{how} at {scheme}://{address}/", root.display())?;
        if open_to_all && !address.ip().is_loopback() {
            writeln!(
                out,
                "Warning: whoever reaches {address} can change these files; --auth or --read-only prevents it."
            )?;
        }
    }
    if let Some(certificate) = server.certificate() {
        if !server.offers_http3() {
            writeln!(out, "Warning: HTTP/3 is not offered, since another program has the port for UDP.")?;
        }
        writeln!(out, "Certificate SHA-256 {}", certificate.fingerprint)?;
        if !written {
            writeln!(out, "For a client to trust it, write it to a file with --cert-out FILE.")?;
        }
    }
    writeln!(out, "Stop with Ctrl-C.")
}
