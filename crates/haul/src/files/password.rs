//! `haul password`: store passwords in the kernel's keyring, and remove them.

use std::{
    error::Error,
    fs::File,
    io::{self, IsTerminal},
    os::fd::AsFd,
    process::ExitCode,
};

use haul_http::auth::{Environment, Keyring};

use crate::files::{
    Outcome,
    options::{ConnectionOptions, TransferOptions},
    session::location::{self, Remote},
    session::prompt,
    session::settings::Settings,
};
use crate::{say, usage};

/// Store passwords in the kernel's keyring until the next reboot, or for three days without use
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Store a password, typed at the terminal or from the first line of standard input
    Set(Args),
    /// Remove the password of the user in the URL, or of the user stored last
    Remove(Args),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Server, as in https://USER@HOST/; the password is valid for all its paths
    url: String,
}

pub(super) async fn run(command: Command) -> Outcome {
    match command {
        Command::Set(Args { url }) => set(&location::remote(&url).map_err(usage)?).await,
        Command::Remove(Args { url }) => remove(&location::remote(&url).map_err(usage)?),
    }
}

async fn set(remote: &Remote) -> Outcome {
    let origin = &remote.origin;
    // Fail before the user types a password that cannot be stored.
    Keyring::open()?;
    let user = match known_user(remote)? {
        Some(user) => user,
        None if prompt::possible() => prompt::ask(&format!("User at {origin}: ")).await?,
        None => String::new(),
    };
    if user.is_empty() {
        let host = origin.host();
        return Err(usage(format_args!(
            "the password for {origin} needs a user; write USER@{host} in the URL, or set HAUL_USER"
        )));
    }
    let password = if io::stdin().is_terminal() {
        prompt::ask_secret(&format!("Password of {user} at {origin}: ")).await?
    } else {
        // Not with `io::stdin`, whose buffer would keep the password in memory.
        prompt::line_of(File::from(io::stdin().as_fd().try_clone_to_owned()?))?
    };
    if password.reveal().is_empty() {
        return Err(format!("the password of {user} at {origin} is empty; nothing stored").into());
    }
    Keyring::open()?.set(origin, &user, &password)?;
    say(format_args!("stored the password of {user} at {origin} in the kernel's keyring"));
    Ok(ExitCode::SUCCESS)
}

fn remove(remote: &Remote) -> Outcome {
    let origin = &remote.origin;
    let user = known_user(remote)?;
    if let Some(user) = Keyring::open()?.remove(origin, user.as_deref())? {
        say(format_args!("removed the password of {user} at {origin} from the kernel's keyring"));
        return Ok(ExitCode::SUCCESS);
    }
    let whose = user.map(|user| format!(" of {user}")).unwrap_or_default();
    Err(format!("the kernel's keyring has no password{whose} for {origin}; give the user and server as for `set`")
        .into())
}

/// The user by the URL, the environment or the settings file, as for all commands.
fn known_user(remote: &Remote) -> Result<Option<String>, Box<dyn Error>> {
    if remote.user.is_some() {
        return Ok(remote.user.clone());
    }
    let environment = Environment::read(|name| std::env::var_os(name))?;
    let settings = Settings::of(&remote.origin, &ConnectionOptions::default(), &TransferOptions::default())?;
    Ok(environment.user.or(settings.user))
}
