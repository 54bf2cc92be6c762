//! `haul gateway`: the middle box between clients nearby and a server far away.

mod enroll;
mod place;
mod smb;
mod status;

use std::{cell::Cell, error::Error, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use ::gateway::{DiskCache, Gateway, Settings, WriteBack};
use ::serve::{Config, Server};
use haul_http::Timeouts;
use http::Uri;
use transport::{ConnectSettings, TlsSettings};
use units::{Size, Span};

use crate::{
    files::{Outcome, runtime::run_until_stopped},
    listening::ListeningOptions,
    say,
};

/// How long a gateway that starts waits for the server.
const START_CHECK: Duration = Duration::from_secs(5);

/// Pass requests on to a WebDAV server, each with its client's own credentials, until Ctrl-C
///
/// For clients nearby, such as Windows machines, of a server far away. The paths are the server's. The gateway has no
/// credentials and stores none: whoever may not read a file at the server may not read it here.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The server's folder, as in `https://dav.example.org/files/`
    #[arg(long, value_name = "URL", required = true)]
    upstream: Option<Uri>,
    /// How long to believe what the server has listed: after this time, changes made elsewhere are seen
    #[arg(long, value_name = "TIME", default_value = "5s")]
    fresh: Span,
    /// When a file that a client saves is acknowledged
    #[arg(long, value_enum, value_name = "MODE", default_value = "through")]
    write: WriteMode,
    /// With --write back: maximum size of the saved files that the server does not have yet. Files beyond it are acknowledged
    /// once the server has them
    #[arg(long, value_name = "SIZE", default_value = "10GiB")]
    journal_size: Size,
    /// With --write back: folder of the gateway's state [default: /var/lib/longhaul/gateway, without root
    /// ~/.local/state/longhaul/gateway]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Maximum size of the cache of large files, which are only revalidated when they are read again; 0: no cache. It is
    /// deleted when the gateway ends
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    cache_size: Size,
    /// Folder for that cache; its files have no names, and nobody else can read them [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// How long requests in flight may take to complete after Ctrl-C or SIGTERM
    #[arg(long, value_name = "TIME", default_value = "30s")]
    drain: Span,
    #[command(flatten)]
    listening: ListeningOptions,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WriteMode {
    /// Once the server has it
    Through,
    /// Once it is safe in a journal on the local disk, if its client holds its lock; the upload follows
    Back,
}

/// How to speak with the server.
#[derive(clap::Args)]
struct ServerOptions {
    /// PEM file with additional CA certificates to trust for the server
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Accept any certificate of the server. Anyone on the network path can then read and change everything
    #[arg(long)]
    insecure: bool,
    /// Timeout for connecting to the server, for the first byte of a response, and for stalled transfers
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::timeout)]
    timeout: Span,
}

impl ServerOptions {
    fn warn(&self) {
        if self.insecure {
            say("--insecure: anyone on the network path to the server can read and change everything");
        }
    }
}

#[derive(clap::Subcommand)]
enum Command {
    Smb(Box<smb::Args>),
    Enroll(enroll::Args),
    Status(status::Args),
    #[command(hide = true)]
    SmbSession(smb::SessionArgs),
    #[command(hide = true)]
    SmbAccount(smb::AccountArgs),
    #[command(hide = true)]
    SmbAccounts(smb::AccountsArgs),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Some(Command::Smb(args)) => smb::run(&args),
        Some(Command::SmbSession(args)) => smb::session(&args),
        Some(Command::SmbAccount(args)) => smb::account(&args),
        Some(Command::SmbAccounts(args)) => smb::with_accounts(&args),
        Some(Command::Enroll(args)) => run_until_stopped(|_| enroll::run(args)),
        Some(Command::Status(args)) => status::run(&args),
        None => serve(&args).map(|()| ExitCode::SUCCESS),
    }
}

fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    args.server.warn();
    let tls = TlsSettings {
        authorities: args.server.ca.iter().cloned().collect(),
        unverified: args.server.insecure,
        ..TlsSettings::default()
    };
    let timeouts = Timeouts {
        connect: args.server.timeout.0.min(Timeouts::default().connect),
        first_byte: args.server.timeout.0,
        stall: args.server.timeout.0.min(Timeouts::default().stall),
        ..Timeouts::default()
    };
    let client = haul_http::Settings {
        connect: ConnectSettings { tls, ..ConnectSettings::default() },
        timeouts,
        ..haul_http::Settings::default()
    };
    let upstream = args.upstream.clone().unwrap_or_default();
    let write_back = match args.write {
        WriteMode::Through => None,
        WriteMode::Back => Some(WriteBack { state: place::state(args.state.as_deref())?, size: args.journal_size.0 }),
    };
    let folder = args.cache_dir.clone().unwrap_or_else(|| "/var/tmp".into());
    let cache = (args.cache_size.0 > 0).then_some(DiskCache { folder, size: args.cache_size.0 });
    let settings = Settings { upstream: upstream.clone(), client, fresh: args.fresh.0, write_back, cache };
    let gateway = match Gateway::new(settings.clone()) {
        Err(error @ ::gateway::Error::Cache { .. }) if args.cache_dir.is_none() => {
            say(error.to_string());
            Gateway::new(Settings { cache: None, ..settings })?
        }
        gateway => gateway?,
    };
    let gateway = Arc::new(gateway);
    let config = Config { drain: Some(args.drain.0), ..args.listening.config()? };
    let server = match ListeningOptions::inherited()? {
        inherited if inherited.is_empty() => Server::with_service(gateway.clone(), &config)?,
        inherited => Server::with_service_on(gateway.clone(), &config, inherited)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let problem = runtime.block_on(gateway.find_problem(START_CHECK.min(args.server.timeout.0)));
    drop(runtime);
    // Once, however many addresses there are.
    let warning = Cell::new(problem.map(|why| format!("requests may fail: {why}")));
    args.listening.run(server, &upstream.to_string(), |_| warning.take(), Some(gateway))
}
