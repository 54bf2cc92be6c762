//! The replay server: it answers for all hosts of one recorded page, with every response ready in memory.

use std::sync::Arc;

use page::replay::PageHandler;

use super::{Running, Server, ServerError, Setup, embedded};
use crate::process::Missing;

const NAME: &str = "pages";

pub(super) struct Pages;

impl Server for Pages {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> &'static str {
        "Longhaul's replay server, which answers for all hosts of a recorded page"
    }

    fn missing(&self) -> Option<Missing> {
        None
    }

    fn replays(&self) -> bool {
        true
    }

    fn thinks_and_validates(&self) -> bool {
        true
    }

    fn http3(&self) -> bool {
        true
    }

    fn settings(&self) -> Vec<(String, String)> {
        [("version", env!("CARGO_PKG_VERSION")), ("TLS", "1.3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let page = setup.page.ok_or(ServerError::Unable { server: NAME, why: "there is no recorded page" })?;
        let handler = PageHandler::new(&page.over(setup.certificates.is_some()));
        let handler = handler.map_err(|error| ServerError::Start {
            server: NAME,
            address: setup.address,
            why: error.to_string(),
        })?;
        embedded::start(NAME, setup, |config, listener| {
            serve::Server::with_responder(Arc::new(handler), &config, vec![listener])
        })
    }
}
