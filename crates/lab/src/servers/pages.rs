//! The server of recorded pages: it answers for all hosts of one, with every answer ready in memory.

use std::{net::TcpListener, sync::Arc};

use super::{Folder, Process, RequestLog, Running, Server, ServerError, Setup, embedded::Handle, url};
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

    fn http3(&self) -> bool {
        true
    }

    fn settings(&self) -> Vec<(String, String)> {
        [("version", env!("CARGO_PKG_VERSION")), ("TLS", "1.3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let failed = |why: String| ServerError::Start { server: NAME, address: setup.address, why };
        let page = setup.page.ok_or(ServerError::Unable { server: NAME, why: "there is no recorded page" })?;
        let site = page::replay::Site::new(&page.0).map_err(|error| failed(error.to_string()))?;
        let mut folder = Folder::new(NAME, setup.scratch)?;
        folder.owner = None;
        let root = folder.folder("root")?;
        let log = setup.scratch.join("access.log");
        let tls = setup.certificates.map(|certificates| folder.certificates(certificates)).transpose()?;
        let config = serve::Config {
            tls: tls.map(|(certificate, key)| serve::Tls::Files { certificate, key }),
            access_log: Some(serve::AccessLog::file(&log).map_err(|error| failed(error.to_string()))?),
            ..serve::Config::default()
        };
        let address = setup.address;
        let handle = Handle::start(NAME, setup, move || {
            let listener = TcpListener::bind(address).map_err(|error| error.to_string())?;
            serve::Server::answering(Arc::new(site), config, vec![listener]).map_err(|error| error.to_string())
        })?;
        let log = RequestLog::new(log);
        Ok(Running { url: url(setup), root, owner: None, log, process: Process::Embedded(handle) })
    }
}
