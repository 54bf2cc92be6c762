//! placeholder
use super::{Running, Server, ServerError, Setup};
use crate::process::{Missing, ProcessError};
pub(super) struct Embedded;
pub(super) struct Handle;
impl Handle {
    pub(super) fn check(&mut self) -> Result<(), ProcessError> {
        Ok(())
    }
}
impl Server for Embedded {
    fn name(&self) -> &'static str {
        "embedded"
    }
    fn describe(&self) -> &'static str {
        "x"
    }
    fn missing(&self) -> Option<Missing> {
        Some(Missing { what: "the embedded server".into(), package: "x" })
    }
    fn settings(&self) -> Vec<(String, String)> {
        vec![]
    }
    fn start(&self, _setup: &Setup) -> Result<Running, ServerError> {
        Err(ServerError::Unable { server: "embedded", why: "x" })
    }
}
