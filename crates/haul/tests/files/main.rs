//! The commands on files, as a person meets them: real processes, over loopback, against `haul serve`.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod between;
mod check;
mod copying;
mod credentials;
mod ends;
mod filters;
mod http3;
mod keyring;
mod listing;
mod mistakes;
mod network;
mod others;
mod pipes;
mod place;
mod probing;
mod safety;
mod settings;
mod verbosity;
