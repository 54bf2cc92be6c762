//! The user's own Kerberos tickets.
//!
//! `haul` does not speak to the KDC. If the user has logged in (`kinit`) and has no ticket for the server yet, MIT's `kvno` gets
//! one into the same credential cache, where other programs find it too.

use std::{env, error::Error, io::ErrorKind, process::Stdio, time::Duration};

use haul_http::auth::{Kerberos, KerberosError};
use nix::unistd::geteuid;
use tokio::{process::Command, time::timeout};

/// How long `kvno` may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Tickets with one for a web server.
pub(super) async fn tickets(host: &str) -> Result<Kerberos, Box<dyn Error>> {
    let kerberos = Kerberos::from_environment(|name| env::var_os(name), geteuid().as_raw())?;
    let lacking = match kerberos.expires(host) {
        Ok(_) => return Ok(kerberos),
        Err(lacking @ (KerberosError::NoTicket { .. } | KerberosError::Expired { .. })) => lacking,
        Err(error) => return Err(error.into()),
    };
    let mut kvno = Command::new("kvno");
    kvno.arg("-q").arg(format!("HTTP/{host}")).env("LC_ALL", "C").kill_on_drop(true);
    kvno.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = match timeout(LIMIT, kvno.output()).await {
        Ok(Ok(output)) => output,
        // The error says what to do.
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => return Err(lacking.into()),
        Ok(Err(error)) => return Err(format!("cannot start kvno: {error}").into()),
        Err(_) => {
            return Err(format!("kvno has not got a ticket within {} s: is the KDC there?", LIMIT.as_secs()).into());
        }
    };
    if output.status.success() {
        kerberos.expires(host)?;
        return Ok(kerberos);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("kvno does not say why");
    Err(format!("no ticket for HTTP/{host}: {}", dav::terminal_safe(line.trim().as_bytes())).into())
}
