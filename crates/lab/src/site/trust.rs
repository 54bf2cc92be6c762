//! Programs in a sandbox trust an authority, as far as they can be made to.
//!
//! Most read a list of authorities that the distribution keeps in one file: GnuTLS (wget), curl, Go, Rust. The list is
//! replaced in the sandbox's own mounts, so that nothing on the machine changes. Others read a folder, or bring their own
//! list, and take a file from an environment variable ([`VARIABLES`]). Browsers do neither: Chromium takes the hash of
//! the key on its command line, Firefox has to be told by hand.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use link::sandbox::Sandbox;
use nix::mount::{MsFlags, mount};

/// Where distributions keep the list: Debian, Arch and Gentoo; Fedora; openSUSE; Alpine and OpenBSD.
const LISTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Variables that name a list of authorities: of OpenSSL (also Python, Ruby and Go), curl, Python's requests, Node.js and
/// git.
pub const VARIABLES: [&str; 5] =
    ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"];

/// Adds an authority, a PEM file, to those that all programs in the sandbox trust. Returns the list of all of them, for
/// [`VARIABLES`].
pub fn install(sandbox: &Sandbox, authority: &Path) -> io::Result<PathBuf> {
    let mut lists: Vec<PathBuf> = LISTS.iter().filter_map(|list| fs::canonicalize(list).ok()).collect();
    lists.sort_unstable();
    lists.dedup();
    let of_machine = lists.first().map_or_else(|| Ok(Vec::new()), fs::read)?;
    let list = sandbox.scratch().join("authorities.pem");
    fs::write(&list, [fs::read(authority)?, of_machine].concat())?;
    for replaced in &lists {
        mount(Some(&list), replaced, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    Ok(list)
}
