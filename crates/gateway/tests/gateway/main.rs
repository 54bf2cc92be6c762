//! Requests through a gateway to a real server with two users.

mod passing;
mod redirector;
mod world;
