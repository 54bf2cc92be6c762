//! The client over loopback: cancellation and credentials.

mod cancellation;
mod credential_leaks;
#[path = "../../../transport/tests/connect/test_servers.rs"]
#[expect(dead_code, reason = "the rest is for the tests of `transport`")]
mod test_servers;
