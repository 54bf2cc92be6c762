//! The commands on files as real processes, over loopback, against `haul serve`.

#[path = "../common/mod.rs"]
mod common;

mod between_servers;
mod check;
mod copying;
mod credentials;
mod filters;
mod fixture;
mod http3;
mod interrupt;
mod keyring;
mod listing;
mod lost_responses;
mod many_failures;
mod moving;
mod network;
mod other_servers;
mod pipes;
mod probing;
mod probing_far;
mod retries;
mod safety;
mod settings;
mod trees;
mod usage_errors;
mod verbosity;
mod wildcards;
