//! Connections over loopback: to TLS servers of every kind, and through proxies of every kind.

mod doubles;
mod named;
mod plain;
mod proxy;
mod tls;
