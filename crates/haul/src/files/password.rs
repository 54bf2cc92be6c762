//! `haul password`: store passwords in the kernel's keyring, and remove them.

use std::{
    error::Error,
    fs::File,
    io::{self, BufReader, IsTerminal, Read},
    os::fd::AsFd,
    process::ExitCode,
};

use haul_http::auth::{Environment, Keyring, MAX_KEY_SIZE, Secret};
use zeroize::Zeroizing;

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
        first_line(File::from(io::stdin().as_fd().try_clone_to_owned()?))?
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

/// Reads the first line. A line longer than a key can be is an error, not truncated.
fn first_line(input: impl Read) -> Result<Secret, Box<dyn Error>> {
    // Never reallocated, so that no copy stays in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_SIZE + 2));
    for byte in BufReader::with_capacity(1, input).bytes() {
        match byte? {
            b'\n' => break,
            _ if bytes.len() > MAX_KEY_SIZE => return Err("the password on standard input is too long".into()),
            byte => bytes.push(byte),
        }
    }
    let text = str::from_utf8(&bytes).map_err(|_| "the password on standard input is not UTF-8")?;
    Ok(text.strip_suffix('\r').unwrap_or(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_first_line_and_never_cut_off() {
        let read = |text: &[u8]| first_line(text).map(|secret| secret.reveal().to_owned());
        for (input, password) in [("a b\nc\n", "a b"), ("ä\r\n", "ä"), ("x", "x"), ("", ""), ("\n", "")] {
            assert_eq!(read(input.as_bytes()).unwrap(), password);
        }
        assert_eq!(read(&vec![b'a'; MAX_KEY_SIZE]).unwrap().len(), MAX_KEY_SIZE);
        assert!(read(&vec![b'a'; MAX_KEY_SIZE + 2]).is_err());
        assert!(read(b"\xff\n").is_err());
    }
}
