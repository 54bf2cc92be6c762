//! Requests through a gateway to a real server with two users.

mod editing;
mod finder;
mod large_files;
mod passing;
mod reading;
mod redirector;
mod reserved_names;
mod world;
mod write_back;
