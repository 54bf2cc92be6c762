//! Servers, clients and links that fail in the middle of a request: no half file, no file lost, no wait without an end.

mod bounds;
mod clients;
#[path = "../common/apache.rs"]
mod common;
#[path = "../common/holding.rs"]
mod holding;
mod late;
#[path = "../common/passwords.rs"]
mod passwords;
mod servers;
mod world;
