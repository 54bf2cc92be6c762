//! The client over loopback: requests that are given up, and credentials that stay where they belong.

#[path = "../../../transport/tests/connect/doubles.rs"]
#[expect(dead_code, reason = "the rest is for the tests of `transport`")]
mod doubles;
mod given_up;
mod leaks;
