//! A recorded page as a web site, for any program: every host of the page at the ports of its URLs, over HTTP/1.1 and
//! HTTP/2, and over HTTP/3 where it has TLS.
//!
//! The names of the page must resolve to the site's addresses, and programs must trust its authority. Both are arranged
//! in the sandbox, for all programs in it: names in its /etc/hosts, the authority in the machine's lists of authorities
//! ([`trust`]).

pub mod trust;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::{IpAddr, SocketAddr, TcpListener},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use page::{
    Spec,
    replay::{PageHandler, TooLarge, over_tls},
};
use tokio::sync::oneshot;

use crate::{
    certs::{CertError, Certificates},
    spawn::Spawn,
};

/// The threads of the server, besides the one that starts it.
const WORKERS: usize = 2;

/// Why a page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Its bodies do not fit into memory.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// TLS could not be set up.
    #[error(transparent)]
    Certificates(#[from] CertError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The server could not be started.
    #[error("cannot serve the page: {0}")]
    Start(String),
}

/// Where the site listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: SocketAddr,
    /// Whether with TLS.
    pub is_secure: bool,
}

/// The endpoints for all URLs of a page on these addresses.
pub fn endpoints(page: &Spec, addresses: &[IpAddr]) -> Vec<Endpoint> {
    let mut ports: BTreeMap<u16, bool> = BTreeMap::new();
    for request in &page.requests {
        let (_, port) = name_and_port(&request.host);
        let port = port.unwrap_or(if request.secure { 443 } else { 80 });
        *ports.entry(port).or_default() |= request.secure;
    }
    let at = |address: &IpAddr| {
        let address = *address;
        let ports = ports.clone();
        ports.into_iter().map(move |(port, is_secure)| Endpoint { address: (address, port).into(), is_secure })
    };
    addresses.iter().flat_map(at).collect()
}

/// A host's name, and its port if it has one.
fn name_and_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port.parse().ok()),
        _ => (host, None),
    }
}

/// Whether no name can be made to resolve to the site: an address, or a name of the machine itself (RFC 6761, section
/// 6.3).
fn is_fixed(name: &str) -> bool {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

/// The page with a name in place of hosts that are addresses, or names of the machine itself, and these hosts. The bodies
/// keep absolute URLs of such hosts.
pub fn renamed(page: &Spec, name: &str) -> (Spec, Vec<String>) {
    let mut page = page.clone();
    let mut hosts = Vec::new();
    for request in &mut page.requests {
        let (old, port) = name_and_port(&request.host);
        if is_fixed(old) {
            let new = port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
            let old = std::mem::replace(&mut request.host, new);
            if !hosts.contains(&old) {
                hosts.push(old);
            }
        }
    }
    (page, hosts)
}

/// The names of a page's hosts, without ports, each once.
pub fn names(page: &Spec) -> Vec<String> {
    let mut names: Vec<String> = page.hosts().into_iter().map(|host| name_and_port(host).0.to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A running site; dropping it stops it.
pub struct Site {
    /// The certificates, if any endpoint has TLS.
    pub certificates: Option<Certificates>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    /// Serves a page on a host. `folder` gets the certificates.
    pub fn start(page: &Spec, host: &dyn Spawn, endpoints: Vec<Endpoint>, folder: &Path) -> Result<Self, SiteError> {
        let is_all_tls = endpoints.iter().all(|endpoint| endpoint.is_secure);
        let answered = if is_all_tls { over_tls(page) } else { Cow::Borrowed(page) };
        let handler = Arc::new(PageHandler::new(&answered)?);
        let certificates = endpoints.iter().any(|endpoint| endpoint.is_secure).then(|| {
            let addresses: Vec<IpAddr> = endpoints.iter().map(|endpoint| endpoint.address.ip()).collect();
            Certificates::make(folder, &addresses, &page.hosts())
        });
        let certificates = certificates.transpose()?;
        let tls = certificates.as_ref().map(|certificates| files(certificates, folder)).transpose()?;
        let (started, outcome) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // On this thread because the sockets belong to the host they are made on.
            let listen = || -> Result<_, String> {
                let mut servers = Vec::new();
                for is_secure in [false, true] {
                    let wanted = endpoints.iter().filter(|endpoint| endpoint.is_secure == is_secure);
                    let bind = |endpoint: &Endpoint| {
                        let bound = TcpListener::bind(endpoint.address);
                        bound.map_err(|error| format!("cannot listen on {}: {error}", endpoint.address))
                    };
                    let listeners = wanted.map(bind).collect::<Result<Vec<_>, _>>()?;
                    if !listeners.is_empty() {
                        let config =
                            serve::Config { tls: tls.clone().filter(|_| is_secure), ..serve::Config::default() };
                        let server = serve::Server::with_responder(handler.clone(), &config, listeners);
                        servers.push(server.map_err(|error| error.to_string())?);
                    }
                }
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                let runtime =
                    runtime.worker_threads(WORKERS).enable_all().build().map_err(|error| error.to_string())?;
                Ok((runtime, servers))
            };
            match listen() {
                Ok((runtime, servers)) => {
                    for server in servers {
                        runtime.spawn(server.run(std::future::pending()));
                    }
                    let _ = started.send(Ok(()));
                    let _ = runtime.block_on(stopped);
                    runtime.shutdown_background();
                }
                Err(why) => drop(started.send(Err(why))),
            }
        };
        let thread = host.thread("site", Box::new(run)).map_err(|error| SiteError::Start(error.to_string()))?;
        let site = Self { certificates, stop: Some(stop), thread: Some(thread) };
        match outcome.recv() {
            Ok(Ok(())) => Ok(site),
            Ok(Err(why)) => Err(SiteError::Start(why)),
            Err(_) => Err(SiteError::Start("its thread ended early".to_owned())),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes the certificates and their key, which only we can read.
fn files(certificates: &Certificates, folder: &Path) -> Result<serve::Tls, SiteError> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        match file.and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => Ok(path),
            Err(source) => Err(SiteError::Write { path, source }),
        }
    };
    fs::create_dir_all(folder).map_err(|source| SiteError::Write { path: folder.to_owned(), source })?;
    Ok(serve::Tls::Files {
        certificate: write("server.pem", &certificates.all_pem())?,
        key: write("server.key", &certificates.key_pem)?,
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn page(hosts: &[(&str, bool)]) -> Spec {
        let request = |(number, (host, secure)): (usize, &(&str, bool))| {
            let scheme = if *secure { "https" } else { "http" };
            format!(
                "[[request]]\nid = \"{number}\"\nscheme = \"{scheme}\"\nhost = \"{host}\"\npath = \"/\"\nresponse = {{}}\n"
            )
        };
        let requests: String = hosts.iter().enumerate().map(request).collect();
        Spec::parse(&format!("schema = \"longhaul.page/1\"\n{requests}"), "page.toml".as_ref()).unwrap()
    }

    #[test]
    fn site_listens_on_the_ports_of_the_urls() {
        let page =
            page(&[("a.example", true), ("a.example", false), ("b.example:8080", false), ("c.example:444", true)]);
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let found = endpoints(&page, &[address]).into_iter().map(|found| (found.address.port(), found.is_secure));
        assert_eq!(found.collect::<Vec<_>>(), [(80, false), (443, true), (444, true), (8080, false)]);
        assert_eq!(names(&page), ["a.example", "b.example", "c.example"]);
    }

    #[test]
    fn hosts_that_no_name_leads_to_get_another_name() {
        let (page, hosts) = renamed(
            &page(&[("127.0.0.1:8000", false), ("localhost", true), ("[::1]:81", false), ("a.b", true)]),
            "server",
        );
        assert_eq!(hosts, ["127.0.0.1:8000", "localhost", "[::1]:81"]);
        assert_eq!(page.hosts(), ["server:8000", "server", "server:81", "a.b"]);
    }
}
