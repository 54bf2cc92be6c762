//! `haul serve`: a folder as a WebDAV share.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::serve::{AccessLog, Config, Server, Tls};
use tokio::signal::unix::{SignalKind, signal};

/// Serve a folder over WebDAV until Ctrl-C
///
/// HTTP/1.1 and HTTP/2; with TLS also HTTP/3, on the UDP port of the same number.
///
/// Uploads are atomic, and on disk before the server responds. Symbolic links inside the folder are neither followed nor
/// listed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder to serve
    #[arg(value_name = "DIR")]
    root: PathBuf,
    /// Address and port to listen on; may be repeated. Port 0 lets the system choose
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Serve over TLS, with a generated certificate or with the PEM files CERT,KEY
    #[arg(long, value_name = "self-signed|CERT,KEY")]
    tls: Option<Tls>,
    /// Write the server's certificate to FILE as PEM, for clients to trust
    #[arg(long, value_name = "FILE", requires = "tls")]
    cert_out: Option<PathBuf>,
    /// Require a password; FILE has lines from `htpasswd -nB USER`
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Additional host name to accept, such as dav.example.org; may be repeated. Needed only without TLS and passwords
    #[arg(long, value_name = "NAME", value_parser = host)]
    host: Vec<String>,
    /// Refuse every request that would change a file
    #[arg(long)]
    read_only: bool,
    /// Maximum number of connections; at the limit, idle and slow ones are closed for new ones
    #[arg(long, value_name = "N", default_value = "1024")]
    connections: NonZeroUsize,
    /// Write an access log to FILE, or to standard output with `-`
    #[arg(long, value_name = "FILE|-")]
    log: Option<PathBuf>,
}

/// Host names are not resolved: the address to listen on must not depend on DNS.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an address and a port, like 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080")
}

/// A host name without a port.
fn host(text: &str) -> Result<String, &'static str> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let name = (is_name && !text.is_empty()).then(|| text.to_owned());
    name.ok_or("write a host name without a port, like dav.example.org; an internationalized one in ASCII form (xn--…)")
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
    // Do not wait for threads that block on a broken disk.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// Prints what is served, on which address. To standard error: standard output belongs to the log. Errors are ignored.
fn greet(server: &Server, root: &Path, read_only: bool, open_to_all: bool, written: bool) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let scheme = if server.certificate().is_some() { "https" } else { "http" };
    let how = if read_only { " (read-only)" } else { "" };
    for address in server.local_addrs() {
        writeln!(out, "Serving {}{how} at {scheme}://{address}/", root.display())?;
        if open_to_all && !address.ip().is_loopback() {
            writeln!(
                out,
                "Warning: anyone who can connect to {address} can change these files; use --auth or --read-only."
            )?;
        }
    }
    if let Some(certificate) = server.certificate() {
        if !server.offers_http3() {
            writeln!(out, "Warning: HTTP/3 is disabled, because another program uses the UDP port.")?;
        }
        writeln!(out, "Certificate SHA-256 {}", certificate.fingerprint)?;
        if !written {
            writeln!(out, "To let clients trust it, write it to a file with --cert-out FILE.")?;
        }
    }
    writeln!(out, "Stop with Ctrl-C.")
}
