//! A page on an address of this machine, until Ctrl-C.

use std::{error::Error, fmt::Write as _, net::SocketAddr, process::ExitCode};

use ::page::Spec;
use lab::{
    site::{Endpoint, Site},
    spawn::Local,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{describe, url};

/// Serves the page, all its hosts on one address: with TLS if any of its URLs has it.
pub(super) fn serve(page: &Spec, address: SocketAddr) -> Result<ExitCode, Box<dyn Error>> {
    // Before the server, which names the port in messages.
    let address = free_port(address)?;
    let is_secure = page.requests.iter().any(|request| request.secure);
    let folder = tempfile::Builder::new().prefix("longhaul-site-").tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let site = Site::start(page, &Local, vec![Endpoint { address, is_secure }], folder.path())?;
        crate::print(greeting(page, address, &site).as_bytes())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The address, with a port that the system chose in place of port 0.
fn free_port(address: SocketAddr) -> Result<SocketAddr, Box<dyn Error>> {
    if address.port() != 0 {
        return Ok(address);
    }
    let chosen = std::net::TcpListener::bind(address).and_then(|listener| listener.local_addr());
    chosen.map_err(|error| format!("cannot listen on {address}: {error}").into())
}

/// How programs reach the page.
fn greeting(page: &Spec, address: SocketAddr, site: &Site) -> String {
    let url = url(page);
    // An address in a URL of the browser stands for itself, and the resolver of Chromium does not see it.
    let mut text = format!("{} at {address}, until Ctrl-C\n", describe(page));
    let (mut curl, mut chromium) = (String::new(), String::new());
    if let Some(certificates) = &site.certificates {
        curl = format!(" --cacert {}", certificates.ca_file.display());
        chromium = format!(" --ignore-certificate-errors-spki-list={}", certificates.server_key_hash);
    }
    let _ = writeln!(text, "curl{curl} --connect-to ::{address} '{url}'");
    let _ = writeln!(
        text,
        "chromium --user-data-dir=\"$(mktemp -d)\" --host-resolver-rules='MAP * {address}'{chromium} '{url}'"
    );
    text
}
