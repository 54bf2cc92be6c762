//! `haul gateway smb`: Samba over a mount of each user's own. And the hidden commands that it and Samba start.

use std::{env, error::Error, ffi::OsString, net::IpAddr, path::PathBuf, process::ExitCode};

use ::gateway::{
    smb::{self, Encryption, Moment, Settings, SmbGateway},
    vault::UserName,
};
use link::sandbox;
use nix::sys::signal::SigSet;
use tokio::signal::unix::{SignalKind, signal};
use units::{Size, Span};

use super::{ServerOptions, place::Place};
use crate::{files::Outcome, say};

/// Share folders of a WebDAV server over SMB, each user's with their own account there, until Ctrl-C
///
/// Needs Samba (package samba), /dev/fuse, and users enrolled with `haul gateway enroll`, or a Kerberos realm (--kerberos, package
/// krb5-user). All others are refused. Without root it serves one user, on a port from 1024 on. See the book's page "Share
/// WebDAV folders over SMB".
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's folder, with `{user}` in place of the user's name there, as in `https://dav.example.org/files/{user}/`
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// Name of the share
    #[arg(long, value_name = "NAME")]
    share: String,
    /// Address to listen on; may be repeated [default: all]
    #[arg(long, value_name = "ADDR")]
    address: Vec<IpAddr>,
    /// TCP port to listen on. Windows uses no other than 445
    #[arg(long, value_name = "PORT", default_value = "445")]
    port: u16,
    /// Which clients must encrypt. All others must sign
    #[arg(long, value_enum, value_name = "WHICH", default_value = "required")]
    encryption: Encrypt,
    /// Keytab of the gateway's Kerberos principal, cifs/HOST. Users then log in with Kerberos only, and enrolments are not used:
    /// the gateway obtains a ticket to the server for each user, if the KDC allows it to
    #[arg(long, value_name = "KEYTAB")]
    kerberos: Option<PathBuf>,
    /// Time after a user's last session until their mount ends
    #[arg(long, value_name = "TIME", default_value = "600s")]
    idle: Span,
    /// How long to believe what the server has listed: after this time, changes made elsewhere are seen
    #[arg(long, value_name = "TIME", default_value = "10s")]
    fresh: Span,
    /// Maximum size of the cached contents of each user
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    cache_size: Size,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Encrypt {
    /// All; this refuses clients older than SMB 3 (Windows 8, Windows Server 2012)
    Required,
    /// Those that can
    Desired,
}

/// Asks the gateway to let a user in, or tells it that a user has left. Samba runs it
#[derive(clap::Args)]
pub(crate) struct SessionArgs {
    #[arg(long)]
    state: PathBuf,
    moment: SessionMoment,
    user: String,
    process: u32,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SessionMoment {
    Begin,
    End,
}

/// Gives a user who has logged in with Kerberos a Unix account of the gateway. Samba runs it
#[derive(clap::Args)]
pub(crate) struct AccountArgs {
    #[arg(long)]
    state: PathBuf,
    user: UserName,
}

/// Runs a program that sees the gateway's Unix accounts in place of the machine's
#[derive(clap::Args)]
pub(crate) struct AccountsArgs {
    #[arg(long)]
    state: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    args.server.warn();
    // Fail before there are namespaces.
    // With Kerberos there may never be an enrolment that creates the vault.
    let vault = if args.kerberos.is_some() { args.place.new_vault()? } else { args.place.vault()? };
    let settings = Settings {
        vault,
        vault_folder: args.place.vault_folder()?,
        state: args.place.state()?,
        program: env::current_exe()?,
        upstream: args.upstream.clone(),
        share: args.share.clone(),
        addresses: args.address.clone(),
        port: args.port,
        encryption: match args.encryption {
            Encrypt::Required => Encryption::Required,
            Encrypt::Desired => Encryption::Desired,
        },
        kerberos: args.kerberos.as_ref().map(std::path::absolute).transpose()?,
        idle: args.idle.0,
        mount_options: mount_options(args)?,
    };
    let _sandbox = sandbox::enter()?;
    // The sandbox blocks the signals that end it, and programs inherit that. Here tokio waits for them.
    SigSet::all().thread_unblock()?;
    let gateway = SmbGateway::new(settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        let greet = || {
            let host = args.address.first().map_or_else(|| "this machine".into(), IpAddr::to_string);
            say(format_args!(
                "sharing {} as \\\\{host}\\{}, port {}; Ctrl-C stops",
                args.upstream, args.share, args.port
            ));
        };
        Ok::<(), Box<dyn Error>>(gateway.run(stop, greet).await?)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The options of each user's `haul mount`.
fn mount_options(args: &Args) -> Result<Vec<String>, Box<dyn Error>> {
    let mut options: Vec<String> =
        vec!["--fresh".into(), args.fresh.to_string(), "--timeout".into(), args.server.timeout.to_string()];
    options.extend(["--cache-size".into(), args.cache_size.to_string()]);
    if let Some(path) = &args.server.ca {
        let path = std::path::absolute(path)?;
        let text = path.to_str().ok_or_else(|| format!("{}: not UTF-8", path.display()))?;
        options.extend(["--ca".into(), text.to_owned()]);
    }
    if args.server.insecure {
        options.push("--insecure".into());
    }
    Ok(options)
}

pub(crate) fn session(args: &SessionArgs) -> Outcome {
    let moment = match args.moment {
        SessionMoment::Begin => Moment::Begin,
        SessionMoment::End => Moment::End,
    };
    match smb::ask(&args.state, moment, &args.user, args.process) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(why) => Err(why.into()),
    }
}

pub(crate) fn account(args: &AccountArgs) -> Outcome {
    smb::add_account(&args.state, &args.user)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn with_accounts(args: &AccountsArgs) -> Outcome {
    let (program, arguments) = args.command.split_first().ok_or("no command")?;
    Err(smb::exec_with_accounts(&args.state, program.as_ref(), arguments).into())
}
