//! `haul serve`: a folder as a WebDAV share.

use std::{error::Error, net::SocketAddr, path::PathBuf};

use ::serve::{Config, Server};

use crate::listening::ListeningOptions;

/// Serve a folder over WebDAV until Ctrl-C
///
/// HTTP/1.1 and HTTP/2; with TLS also HTTP/3, on the UDP port of the same number.
///
/// Uploads are atomic, and on disk before the server responds. Symbolic links inside the folder are neither followed nor
/// listed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder to serve
    #[arg(value_name = "DIR")]
    root: PathBuf,
    #[command(flatten)]
    listening: ListeningOptions,
    /// Require a password; FILE has lines from `htpasswd -nB USER`
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Additional host name to accept, such as dav.example.org; may be repeated. Needed only without TLS and passwords
    #[arg(long, value_name = "NAME", value_parser = host)]
    host: Vec<String>,
    /// Refuse every request that would change a file
    #[arg(long)]
    read_only: bool,
}

/// A host name without a port.
fn host(text: &str) -> Result<String, &'static str> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let name = (is_name && !text.is_empty()).then(|| text.to_owned());
    name.ok_or("write a host name without a port, like dav.example.org; an internationalized one in ASCII form (xn--…)")
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let open_to_all = args.auth.is_none() && !args.read_only;
    let what = format!("{}{}", args.root.display(), if args.read_only { " (read-only)" } else { "" });
    let server = Server::bind(Config {
        root: args.root,
        auth: args.auth,
        read_only: args.read_only,
        hosts: args.host,
        ..args.listening.config()?
    })?;
    let warning = |address: &SocketAddr| {
        (open_to_all && !address.ip().is_loopback())
            .then(|| format!("anyone who can connect to {address} can change these files; use --auth or --read-only."))
    };
    args.listening.run(server, &what, warning, None)
}
