//! Connections over loopback: to TLS servers of every kind, and through proxies of every kind.

mod named_certificates;
mod proxy;
mod tcp;
mod test_servers;
mod tls;
