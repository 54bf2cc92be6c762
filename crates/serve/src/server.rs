//! Listening, accepting, and ending in bounded time.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::auth::Users;
use crate::connection::{self, Life, Manner};
use crate::descriptors;
use crate::http3;
use crate::origin::Names;
use crate::other::{Answers, Other};
use crate::site::{Folder, Site};
use crate::store::Store;
use crate::tls::{self, Certificate, Setup, Tls};
use crate::{AccessLog, Error};

/// Connections at once, unless the configuration says otherwise.
const CONNECTIONS: usize = 1024;

/// How long requests under way may take to finish once the server is told to stop.
const GRACE: Duration = Duration::from_secs(3);

/// How long what is aborted after that may take to clean up.
const CLEANUP: Duration = Duration::from_secs(2);

/// The pause after a connection could not be accepted, for want of descriptors perhaps.
const BREATH: Duration = Duration::from_millis(50);

/// For how many seconds clients may rely on there being HTTP/3 (RFC 7838 §3.1): a day.
const FRESH: u32 = 24 * 3600;

/// What to serve, and how.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The directory to serve.
    pub root: PathBuf,
    /// Where to listen; unused by [`Server::on`].
    pub listen: Vec<SocketAddr>,
    /// `None` serves in the clear.
    pub tls: Option<Tls>,
    /// A password file with `user:bcrypt` lines; `None` lets everybody in.
    pub auth: Option<PathBuf>,
    /// Refuse everything that would change a file.
    pub read_only: bool,
    /// Where to write a line per request.
    pub access_log: Option<AccessLog>,
    /// Names of this server besides `localhost` and the machine's: what it answers to in the clear without passwords, and
    /// what a `Destination` may call it.
    pub hosts: Vec<String>,
    /// Connections at once, 1024 if `None`. For one more, an idle or slow one is closed.
    pub connections: Option<NonZeroUsize>,
}

/// A server that listens but does not serve yet. Clients may already connect; they wait.
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    /// For HTTP/3, one beside each listener, as far as the port was free.
    datagrams: Vec<Option<UdpSocket>>,
    tls: Option<Setup>,
    site: Arc<Site>,
    /// The folder that an earlier server may have left unfinished uploads in.
    swept: Option<Store>,
    connections: usize,
}

impl Server {
    /// Listens on the configuration's addresses. A port of 0 is chosen by the system.
    pub fn bind(config: Config) -> Result<Self, Error> {
        let listen =
            |&address: &SocketAddr| TcpListener::bind(address).map_err(|error| Error::Listen { address, error });
        let listeners = config.listen.iter().map(listen).collect::<Result<_, _>>()?;
        Self::on(config, listeners)
    }

    /// Takes sockets that listen already, wherever they were made: in another network namespace, say.
    pub fn on(config: Config, listeners: Vec<TcpListener>) -> Result<Self, Error> {
        let store = Store::open(&config.root).map_err(|errno| match errno {
            Errno::NOSYS => Error::Kernel,
            errno => Error::Root { root: config.root.clone(), error: errno.into() },
        })?;
        let addresses = addresses(&listeners)?;
        let tls = config.tls.as_ref().map(|tls| tls::configure(tls, &addresses)).transpose()?;
        if let (Some(_), None, Some(open)) = (&config.auth, &tls, addresses.iter().find(|a| !a.ip().is_loopback())) {
            return Err(Error::ClearPasswords(*open));
        }
        let users = config.auth.as_deref().map(Users::read).transpose()?;
        let names = Names::new(users.is_some() || tls.is_some(), &config.hosts);
        let folder = Folder::new(store.clone(), users, names, config.access_log, config.read_only);
        let site = Arc::new(Site::Folder(Box::new(folder)));
        let datagrams = datagrams(&addresses, tls.is_some());
        let swept = (!config.read_only).then_some(store);
        let connections = config.connections.map_or(CONNECTIONS, NonZeroUsize::get);
        Ok(Server { listeners, addresses, datagrams, tls, site, swept, connections })
    }

    /// A server with these answers in place of a folder's files, on sockets that listen already. Of the configuration
    /// count `tls`, `access_log` and `connections`.
    pub fn answering(answers: Arc<dyn Answers>, config: Config, listeners: Vec<TcpListener>) -> Result<Self, Error> {
        let addresses = addresses(&listeners)?;
        let tls = config.tls.as_ref().map(|tls| tls::configure(tls, &addresses)).transpose()?;
        let site = Arc::new(Site::Other(Other::new(answers, config.access_log)));
        let datagrams = datagrams(&addresses, tls.is_some());
        let connections = config.connections.map_or(CONNECTIONS, NonZeroUsize::get);
        Ok(Server { listeners, addresses, datagrams, tls, site, swept: None, connections })
    }

    /// The first address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// All addresses listened on.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What a client needs to trust the server; `None` without TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.tls.as_ref().map(|tls| &tls.certificate)
    }

    /// Whether HTTP/3 is offered too, on all addresses.
    pub fn offers_http3(&self) -> bool {
        self.datagrams.iter().all(Option::is_some)
    }

    /// Serves until `shutdown` is ready, on whatever tokio runtime it is called (it needs I/O and time).
    ///
    /// Then no more connections are taken and what is under way may finish for three seconds; after that
    /// it is given up, its unfinished uploads are removed, and this returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let life =
            Life { closing: CancellationToken::new(), abort: CancellationToken::new(), tasks: TaskTracker::new() };
        let listeners =
            self.listeners.into_iter().map(tokio::net::TcpListener::from_std).collect::<Result<Vec<_>, _>>();
        if let Some(store) = self.swept {
            let stop = life.closing.clone();
            life.tasks.spawn_blocking(move || match store.sweep(&stop) {
                0 => {}
                removed => tracing::info!("removed {removed} unfinished uploads of an earlier server"),
            });
        }
        let admission = Admission::new(descriptors::enough_for(self.connections));
        for (listener, datagrams) in listeners.map_err(Error::Listener)?.into_iter().zip(self.datagrams) {
            let mut alt_svc = None;
            if let (Some(socket), Some(tls)) = (datagrams, &self.tls) {
                let port = socket.local_addr().map_err(Error::Listener)?.port();
                let endpoint = http3::listen(socket, tls.quic.clone()).map_err(Error::Listener)?;
                alt_svc = HeaderValue::from_str(&format!("h3=\":{port}\"; ma={FRESH}")).ok();
                let accept = accept_quic(endpoint, Arc::clone(&self.site), life.clone(), Arc::clone(&admission));
                life.spawn(accept);
            }
            let tls = self.tls.as_ref().map(|tls| Arc::clone(&tls.tcp));
            let manner = Manner { site: Arc::clone(&self.site), tls, alt_svc };
            let accept = accept(listener, manner, life.clone(), Arc::clone(&admission));
            let closing = life.closing.clone();
            life.spawn(async move {
                closing.run_until_cancelled_owned(accept).await;
            });
        }
        shutdown.await;
        life.closing.cancel();
        life.tasks.close();
        if tokio::time::timeout(GRACE, life.tasks.wait()).await.is_err() {
            life.abort.cancel();
            let _ = tokio::time::timeout(CLEANUP, life.tasks.wait()).await;
        }
        Ok(())
    }
}

/// Where sockets listen, once they are fit for tokio.
fn addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>, Error> {
    for listener in listeners {
        listener.set_nonblocking(true).map_err(Error::Listener)?;
        // A request in a SYN is answered at once; where the kernel has no such thing, TCP is as it was.
        let _ = haul_http::connect::listen_fast_open(listener);
    }
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
    let addresses = addresses.map_err(Error::Listener)?;
    if addresses.is_empty() { Err(Error::NoAddress) } else { Ok(addresses) }
}

/// Sockets for HTTP/3 on the same ports, if it is to be offered.
fn datagrams(addresses: &[SocketAddr], offered: bool) -> Vec<Option<UdpSocket>> {
    let beside = |address: &SocketAddr| {
        let bound = UdpSocket::bind(address);
        if let Err(error) = &bound {
            tracing::warn!("HTTP/3 is not offered on {address}, which is taken for UDP: {error}");
        }
        bound.ok()
    };
    addresses.iter().map(|address| if offered { beside(address) } else { None }).collect()
}

async fn accept_quic(endpoint: quinn::Endpoint, site: Arc<Site>, life: Life, admission: Arc<Admission>) {
    while let Some(Some(incoming)) = life.closing.run_until_cancelled(endpoint.accept()).await {
        // Anybody can send packets in another's name; where places run short, who comes proves the address first
        // (RFC 9000 §8.1).
        if !incoming.remote_address_validated() && admission.is_crowded() {
            let _ = incoming.retry();
            continue;
        }
        let admitted = admission.admit(incoming.remote_address().ip());
        let Some(seat) = life.closing.run_until_cancelled(admitted).await else { break };
        life.spawn(connection::serve_quic(incoming, Arc::clone(&site), life.clone(), seat));
    }
    // Who comes now is sent away at once. The port is free only when the last connection has drained (RFC 9000 §10.2).
    endpoint.set_server_config(None);
    endpoint.wait_idle().await;
}

async fn accept(listener: tokio::net::TcpListener, manner: Manner, life: Life, admission: Arc<Admission>) {
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                let seat = admission.admit(client.ip()).await;
                life.spawn(connection::serve(stream, client, manner.clone(), life.clone(), seat));
            }
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                let scarce = Errno::from_io_error(&error);
                if matches!(scarce, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) {
                    admission.make_room();
                }
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}
