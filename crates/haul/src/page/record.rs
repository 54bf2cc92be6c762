//! `haul page record`.

use std::{
    error::Error,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ::page::{
    browser::{Options, Trust},
    import::Imported,
    record::record,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
};
use units::Span;
use url::{Host, Url};

/// Record the page load of a URL in headless Chromium
///
/// The spec contains the requests, their dependencies, the server's think times and the bodies, so that the page can be
/// replayed offline. It keeps the requests that occur in more than half of the loads, the dependencies that hold in all of
/// them, and the shortest computation and think times. Frames of other sites and workers are recorded as well; event
/// streams, WebSockets and polls do not prolong the recording. Cookies and credentials are not kept.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// URL of the page; without a scheme https://, and http:// for localhost and addresses
    #[arg(value_name = "URL", value_parser = address)]
    url: Url,

    /// The spec to write; bodies go into the folder of the same name [default: HOST.toml]
    #[arg(value_name = "SPEC")]
    to: Option<PathBuf>,

    /// Number of loads
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,

    /// Maximum time of each load; it ends earlier when the page is complete
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = crate::timeout)]
    timeout: Span,

    /// PEM file with additional CA certificates to trust; needs certutil (Debian's libnss3-tools)
    #[arg(long, env = "HAUL_CA", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Accept any server certificate. Anyone on the network path can then read and change everything
    #[arg(long)]
    insecure: bool,
}

/// Reads a URL. Without a scheme it is https://, as browsers have it, and http:// for this machine and for addresses, which
/// rarely have a certificate.
fn address(text: &str) -> Result<Url, String> {
    let bad = |error| format!("{error}; write a URL like https://example.org/");
    let with = |scheme: &str| Url::parse(&format!("{scheme}://{text}")).map_err(bad);
    let url = if text.contains("://") { Url::parse(text).map_err(bad)? } else { with("https")? };
    let is_plain = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
        None => false,
    };
    let url = if is_plain && !text.contains("://") { with("http")? } else { url };
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err("only http and https URLs can be recorded".to_owned())
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let host = args.url.host_str().unwrap_or("page").replace(['[', ']', ':'], "");
    let to = args.to.clone().unwrap_or_else(|| format!("{host}.toml").into());
    super::is_new(&to)?;
    let trust = match &args.ca {
        _ if args.insecure => Trust::Anyone,
        Some(file) => Trust::Authorities(file.clone()),
        None => Trust::System,
    };
    let options = Options { trust, ..Options::default() };
    crate::say(format_args!("recording {}", args.url));
    let recorded = conduct(args.url.clone(), to.clone(), args.runs, args.timeout.0, options)?;
    super::write(&recorded.spec, &recorded.notes, &to)?;
    Ok(ExitCode::SUCCESS)
}

/// Records; after Ctrl-C the browser and its folder go before we do.
fn conduct(url: Url, to: PathBuf, runs: u32, timeout: Duration, options: Options) -> Result<Imported, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = Arc::new(AtomicBool::new(false));
        let wish = stop.clone();
        let mut work = spawn_blocking(move || record(&url, &to, runs, timeout, &options, &wish));
        let done = tokio::select! {
            done = &mut work => done,
            () = async { tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} } } => {
                stop.store(true, Ordering::Relaxed);
                work.await
            }
        };
        Ok(done??)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_without_a_scheme_gets_that_of_a_browser() {
        for (text, url) in [
            ("example.org", "https://example.org/"),
            ("example.org:8443/a?b", "https://example.org:8443/a?b"),
            ("http://example.org", "http://example.org/"),
            ("localhost:8000", "http://localhost:8000/"),
            ("127.0.0.1/x", "http://127.0.0.1/x"),
            ("[::1]:80", "http://[::1]/"),
        ] {
            assert_eq!(address(text).unwrap().as_str(), url);
        }
        for wrong in ["ftp://example.org", "", "a b", "example.org:port"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
