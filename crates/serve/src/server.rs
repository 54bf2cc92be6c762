//! Listening, accepting, and shutting down in bounded time.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::HeaderValue;
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::auth::Users;
use crate::connection::{self, ListenerConfig, TaskGroup};
use crate::cross_site::HostNames;
use crate::fd_limit::Capacity;
use crate::handler::{Folder, Handler};
use crate::http3;
use crate::memory;
use crate::responder::{Responder, ResponderHandler};
use crate::service::{Service, ServiceHandler};
use crate::status::Watched;
use crate::store::Store;
use crate::tls::{self, Certificate, Setup, Tls};
use crate::{AccessLog, Error};

/// Default connection limit.
const DEFAULT_MAX_CONNECTIONS: usize = 1024;

/// How long requests in flight may take to complete at shutdown by default.
const DRAIN: Duration = Duration::from_secs(3);

/// How long aborted requests may take to clean up.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a service may go on after the last answer.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after `accept` fails, for lack of descriptors perhaps.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Lifetime of the HTTP/3 announcement in seconds (`ma` of RFC 7838 §3.1): a day.
const ALT_SVC_MAX_AGE: u32 = 24 * 3600;

/// What to serve, and how.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The directory to serve.
    pub root: PathBuf,
    /// Addresses to listen on; unused by [`Server::on`].
    pub listen: Vec<SocketAddr>,
    /// `None` serves cleartext.
    pub tls: Option<Tls>,
    /// A password file with `user:bcrypt` lines; `None` admits everyone.
    pub auth: Option<PathBuf>,
    /// Refuse every request that would change a file.
    pub read_only: bool,
    /// The access log.
    pub access_log: Option<AccessLog>,
    /// Additional names of this server. In cleartext without passwords it refuses requests for other names, and a
    /// `Destination` may use these names.
    pub hosts: Vec<String>,
    /// Connection limit; 1024 if `None`. At the limit, idle and slow connections are closed for new ones.
    pub connections: Option<NonZeroUsize>,
    /// How long requests in flight may take to complete at shutdown; three seconds if `None`.
    pub drain: Option<Duration>,
    /// What it does like another server, for experiments; unused with a responder or a service.
    pub quirks: Quirks,
}

/// Habits of other servers that decide how fast their clients are. By default it has none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks {
    /// How long each response waits after it is ready, as if the server had computed for it.
    pub think_time: Duration,
    /// Whether each connection of HTTP/1.1 ends after one response, as with Apache's `KeepAlive Off`.
    pub closes_connections: bool,
    /// Whether it responds as Apache does to PUT, without `ETag` and `Last-Modified`, and to a LOCK that creates a file, with
    /// 200 instead of 201; the file may then be uploaded as a new one, with `If-None-Match: *`. davfs2 then sends it the same
    /// requests as Apache.
    pub is_like_apache: bool,
}

/// A server that listens but does not serve yet. Clients can connect and wait.
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    /// UDP sockets for HTTP/3, one per listener whose port was free.
    udp_sockets: Vec<Option<UdpSocket>>,
    tls: Option<Setup>,
    handler: Arc<Handler>,
    /// The folder to sweep for unfinished uploads of an earlier server.
    sweep: Option<Store>,
    admission: Arc<Admission>,
    drain: Duration,
}

impl Server {
    /// Listens on the configured addresses. Port 0 lets the system choose.
    pub fn bind(config: Config) -> Result<Self, Error> {
        let listeners = listeners(&config)?;
        Self::on(config, listeners)
    }

    /// Uses sockets that listen already, for example in another network namespace.
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
        let names = HostNames::new(users.is_some() || tls.is_some(), &config.hosts);
        let folder =
            Folder::new(store.clone(), users, names, config.access_log, config.read_only).with_quirks(config.quirks);
        let handler = Arc::new(Handler::Folder(Box::new(folder)));
        let udp_sockets = udp_sockets(&addresses, tls.is_some());
        let sweep = (!config.read_only).then_some(store);
        let (admission, drain) = (admission(config.connections), config.drain.unwrap_or(DRAIN));
        Ok(Server { listeners, addresses, udp_sockets, tls, handler, sweep, admission, drain })
    }

    /// A server with a responder in place of a folder, on sockets that listen already. Uses `tls`, `access_log` and
    /// `connections` of the configuration.
    pub fn with_responder(
        responder: Arc<dyn Responder>,
        config: &Config,
        listeners: Vec<TcpListener>,
    ) -> Result<Self, Error> {
        let handler = Handler::Responder(ResponderHandler::new(responder, config.access_log.clone()));
        Self::with_handler(handler, config, listeners)
    }

    /// A server with a service in place of a folder. Uses `listen`, `tls`, `access_log` and `connections` of the
    /// configuration. Requests carry passwords, so without TLS it listens only on loopback.
    pub fn with_service(service: Arc<dyn Service>, config: &Config) -> Result<Self, Error> {
        refuse_cleartext(config, &config.listen)?;
        Self::with_service_on(service, config, listeners(config)?)
    }

    /// The same on sockets that listen already.
    pub fn with_service_on(
        service: Arc<dyn Service>,
        config: &Config,
        listeners: Vec<TcpListener>,
    ) -> Result<Self, Error> {
        refuse_cleartext(config, &addresses(&listeners)?)?;
        Self::with_handler(Handler::Service(ServiceHandler::new(service, config.access_log.clone())), config, listeners)
    }

    fn with_handler(handler: Handler, config: &Config, listeners: Vec<TcpListener>) -> Result<Self, Error> {
        let addresses = addresses(&listeners)?;
        let tls = config.tls.as_ref().map(|tls| tls::configure(tls, &addresses)).transpose()?;
        let udp_sockets = udp_sockets(&addresses, tls.is_some());
        let (admission, drain) = (admission(config.connections), config.drain.unwrap_or(DRAIN));
        Ok(Server { listeners, addresses, udp_sockets, tls, handler: Arc::new(handler), sweep: None, admission, drain })
    }

    /// The first address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// All addresses listened on.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What its clients make it hold.
    pub fn watched(&self) -> Arc<dyn Watched> {
        self.admission.clone()
    }

    /// The certificate that clients have to trust; `None` without TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.tls.as_ref().map(|tls| &tls.certificate)
    }

    /// Whether HTTP/3 is offered on all addresses.
    pub fn offers_http3(&self) -> bool {
        self.udp_sockets.iter().all(Option::is_some)
    }

    /// Serves until `shutdown` completes, on the current tokio runtime (with I/O and time enabled).
    ///
    /// Then it accepts no more connections and lets requests in flight complete ([`Config::drain`]). After that it aborts
    /// them, removes their unfinished uploads, and returns. A service has ten more seconds to finish.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let group =
            TaskGroup { closing: CancellationToken::new(), abort: CancellationToken::new(), tasks: TaskTracker::new() };
        let listeners =
            self.listeners.into_iter().map(tokio::net::TcpListener::from_std).collect::<Result<Vec<_>, _>>();
        if let Some(store) = self.sweep {
            let stop = group.closing.clone();
            group.tasks.spawn_blocking(move || match store.sweep(&stop) {
                0 => {}
                removed => tracing::info!("removed {removed} unfinished uploads of an earlier server"),
            });
        }
        let give_back = memory::give_back(Arc::clone(&self.admission.all));
        group.spawn(group.closing.clone().run_until_cancelled_owned(give_back).map(drop));
        for (listener, udp_sockets) in listeners.map_err(Error::Listener)?.into_iter().zip(self.udp_sockets) {
            let tls = self.tls.as_ref().map(|tls| Arc::clone(&tls.tcp));
            let (handler, admission) = (Arc::clone(&self.handler), Arc::clone(&self.admission));
            let mut config = ListenerConfig { handler, tls, alt_svc: None, admission };
            if let (Some(socket), Some(tls)) = (udp_sockets, &self.tls) {
                let port = socket.local_addr().map_err(Error::Listener)?.port();
                let endpoint = http3::listen(socket, tls.quic.clone()).map_err(Error::Listener)?;
                config.alt_svc = HeaderValue::from_str(&format!("h3=\":{port}\"; ma={ALT_SVC_MAX_AGE}")).ok();
                let accept = accept_quic(endpoint, config.clone(), group.clone());
                group.spawn(accept);
            }
            let accept = accept(listener, config, group.clone());
            let closing = group.closing.clone();
            group.spawn(async move {
                closing.run_until_cancelled_owned(accept).await;
            });
        }
        shutdown.await;
        group.closing.cancel();
        group.tasks.close();
        if tokio::time::timeout(self.drain, group.tasks.wait()).await.is_err() {
            group.abort.cancel();
            let _ = tokio::time::timeout(CLEANUP_TIMEOUT, group.tasks.wait()).await;
        }
        let _ = tokio::time::timeout(FINISH_TIMEOUT, self.handler.finish()).await;
        Ok(())
    }
}

fn admission(connections: Option<NonZeroUsize>) -> Arc<Admission> {
    Admission::new(Capacity::new(connections.map_or(DEFAULT_MAX_CONNECTIONS, NonZeroUsize::get)))
}

/// Requests carry passwords.
fn refuse_cleartext(config: &Config, addresses: &[SocketAddr]) -> Result<(), Error> {
    let open = addresses.iter().find(|address| !address.ip().is_loopback());
    match (&config.tls, open) {
        (None, Some(open)) => Err(Error::ClearPasswords(*open)),
        _ => Ok(()),
    }
}

/// Listens on the configured addresses.
fn listeners(config: &Config) -> Result<Vec<TcpListener>, Error> {
    let listen = |&address: &SocketAddr| TcpListener::bind(address).map_err(|error| Error::Listen { address, error });
    config.listen.iter().map(listen).collect()
}

/// Prepares the listeners for tokio, and returns their addresses.
fn addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>, Error> {
    for listener in listeners {
        listener.set_nonblocking(true).map_err(Error::Listener)?;
        // Enables TCP Fast Open where the kernel has it.
        let _ = transport::listen_fast_open(listener);
    }
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
    let addresses = addresses.map_err(Error::Listener)?;
    if addresses.is_empty() { Err(Error::NoAddress) } else { Ok(addresses) }
}

/// UDP sockets for HTTP/3 on the same ports, if it is offered.
fn udp_sockets(addresses: &[SocketAddr], offered: bool) -> Vec<Option<UdpSocket>> {
    let beside = |address: &SocketAddr| {
        let bound = UdpSocket::bind(address);
        if let Err(error) = &bound {
            tracing::warn!("HTTP/3 is disabled on {address}: cannot bind the UDP port: {error}");
        }
        bound.ok()
    };
    addresses.iter().map(|address| if offered { beside(address) } else { None }).collect()
}

async fn accept_quic(endpoint: quinn::Endpoint, config: ListenerConfig, group: TaskGroup) {
    let admission = Arc::clone(&config.admission);
    while let Some(Some(incoming)) = group.closing.run_until_cancelled(endpoint.accept()).await {
        // Source addresses can be spoofed; when connections run short, clients have to validate theirs first (RFC 9000
        // §8.1).
        if !incoming.remote_address_validated() && admission.is_crowded() {
            let _ = incoming.retry();
            continue;
        }
        let admitted = admission.admit(incoming.remote_address().ip());
        let Some(guard) = group.closing.run_until_cancelled(admitted).await else { break };
        group.spawn(connection::serve_quic(incoming, config.clone(), group.clone(), guard));
    }
    // New connections are refused from now on. The port is free only when the last connection has drained (RFC 9000
    // §10.2).
    endpoint.set_server_config(None);
    endpoint.wait_idle().await;
}

async fn accept(listener: tokio::net::TcpListener, config: ListenerConfig, group: TaskGroup) {
    let admission = Arc::clone(&config.admission);
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                let guard = admission.admit(client.ip()).await;
                group.spawn(connection::serve(stream, client, config.clone(), group.clone(), guard));
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                let scarce = Errno::from_io_error(&error);
                if matches!(scarce, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) {
                    admission.make_room();
                }
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}
