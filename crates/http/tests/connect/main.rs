//! Connections over loopback: to servers that speak TLS in every mood, and through proxies of every kind.

mod doubles;
mod given_up;
mod leaks;
mod named;
mod plain;
mod proxy;
mod tls;
