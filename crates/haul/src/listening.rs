//! What the commands that listen have in common: their options, the greeting, and serving until Ctrl-C.

use std::{
    error::Error,
    io::{self, Write},
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ::serve::{AccessLog, Config, Server, Status, Tls, Watched};
use listenfd::ListenFd;
use tokio::signal::unix::{SignalKind, signal};

/// Where to listen, and how.
#[derive(clap::Args)]
pub(crate) struct ListeningOptions {
    /// Address and port to listen on; may be repeated. Port 0 lets the system choose
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Serve over TLS, with a generated certificate or with the PEM files CERT,KEY
    #[arg(long, value_name = "self-signed|CERT,KEY")]
    tls: Option<Tls>,
    /// Write the server's certificate to FILE as PEM, for clients to trust
    #[arg(long, value_name = "FILE", requires = "tls")]
    cert_out: Option<PathBuf>,
    /// Maximum number of connections; at the limit, idle and slow ones are closed for new ones. Twice as many requests may be in
    /// flight, 512 of them from one address
    #[arg(long, value_name = "N", default_value = "1024")]
    connections: NonZeroUsize,
    /// Also answer /healthz and /metrics (Prometheus), at this address and without TLS
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    status: Option<SocketAddr>,
    /// Write an access log to FILE, or to standard output with `-`
    #[arg(long, value_name = "FILE|-")]
    log: Option<PathBuf>,
}

/// Host names are not resolved: the address to listen on must not depend on DNS.
pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an address and a port, like 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080")
}

impl ListeningOptions {
    /// The configuration of a server that serves nothing yet.
    pub(crate) fn config(&self) -> Result<Config, Box<dyn Error>> {
        let access_log = match &self.log {
            Some(path) if path.as_os_str() == "-" => Some(AccessLog::new(io::stdout())),
            Some(path) => Some(AccessLog::file(path)?),
            None => None,
        };
        Ok(Config {
            listen: self.listen.clone(),
            tls: self.tls.clone(),
            access_log,
            connections: Some(self.connections),
            ..Config::default()
        })
    }

    /// The sockets that systemd has passed, if it has (`sd_listen_fds(3)`): they outlive this process, so that no client is
    /// refused while another takes its place.
    pub(crate) fn inherited() -> Result<Vec<TcpListener>, Box<dyn Error>> {
        let mut passed = ListenFd::from_env();
        let count = passed.len();
        let take = |index| {
            let listener = passed.take_tcp_listener(index).map_err(|error| {
                format!("socket {index} of LISTEN_FDS: {error}; use ListenStream= with an address and a port")
            })?;
            listener.ok_or_else(|| format!("socket {index} of LISTEN_FDS is missing").into())
        };
        (0..count).map(take).collect()
    }

    /// Writes the certificate, greets, and serves until Ctrl-C. `what` is what the greeting says is served at the URLs; a
    /// warning may depend on the address. `watched` has more to tell than the server.
    pub(crate) fn run(
        &self,
        server: Server,
        what: &str,
        warning: impl Fn(&SocketAddr) -> Option<String>,
        watched: Option<Arc<dyn Watched>>,
    ) -> Result<(), Box<dyn Error>> {
        if let (Some(path), Some(certificate)) = (&self.cert_out, server.certificate()) {
            output::write(path, |to| to.write_all(certificate.pem.as_bytes()))
                .map_err(|error| format!("cannot write the certificate to {}: {error}", path.display()))?;
        }
        let status = self.status(server.watched(), watched)?;
        let _ = self.greet(&server, what, warning, status.as_ref());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let outcome = runtime.block_on(async {
            let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let stop = async move {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            };
            if let Some(status) = status {
                tokio::spawn(status.run(std::future::pending()));
            }
            Ok(server.run(stop).await?)
        });
        // Do not wait for threads that block on a broken disk.
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    }

    /// A server of `/healthz` and `/metrics`, if it is wanted.
    fn status(
        &self,
        server: Arc<dyn Watched>,
        more: Option<Arc<dyn Watched>>,
    ) -> Result<Option<Server>, ::serve::Error> {
        let Some(address) = self.status else { return Ok(None) };
        let config = Config { listen: vec![address], ..Config::default() };
        let watched = more.into_iter().chain([server]).collect();
        Server::with_service(Arc::new(Status::new(watched)), &config).map(Some)
    }

    /// To standard error: standard output belongs to the log. Errors are ignored.
    fn greet(
        &self,
        server: &Server,
        what: &str,
        warning: impl Fn(&SocketAddr) -> Option<String>,
        status: Option<&Server>,
    ) -> io::Result<()> {
        let mut out = io::stderr().lock();
        let scheme = if server.certificate().is_some() { "https" } else { "http" };
        for address in server.local_addrs() {
            writeln!(out, "Serving {what} at {scheme}://{address}/")?;
            if let Some(warning) = warning(address) {
                writeln!(out, "Warning: {warning}")?;
            }
        }
        if let Some(certificate) = server.certificate() {
            if !server.offers_http3() {
                writeln!(out, "Warning: HTTP/3 is disabled, because another program uses the UDP port.")?;
            }
            writeln!(out, "Certificate SHA-256 {}", certificate.fingerprint)?;
            if self.cert_out.is_none() {
                writeln!(out, "To let clients trust it, write it to a file with --cert-out FILE.")?;
            }
        }
        if let Some(status) = status {
            writeln!(out, "Metrics at http://{}/metrics", status.local_addr())?;
        }
        writeln!(out, "Stop with Ctrl-C.")
    }
}
