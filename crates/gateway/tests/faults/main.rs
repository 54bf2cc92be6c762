//! Servers, clients and links that fail in the middle of a request: no half file, no file lost, no wait without an end.

mod bounds;
mod clients;
mod late;
#[path = "../common/passwords.rs"]
mod passwords;
mod servers;
mod world;
