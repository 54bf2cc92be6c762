//! `haul gateway enroll`: stores what a user of the SMB gateway shows the WebDAV server.

use std::{
    error::Error,
    fs::File,
    io::{self, IsTerminal},
    os::fd::AsFd,
    process::ExitCode,
};

use ::gateway::vault::{self, Enrolment, UserName};
use haul_http::auth::Secret;

use super::place::Place;
use crate::{
    files::{Outcome, session::prompt},
    say, usage,
};

/// Store a user's password or token for the WebDAV server, for the SMB gateway
///
/// SMB clients never reveal a password, so the gateway needs one of each user. It is typed at the terminal, or is the first
/// line of standard input, and is stored encrypted. An app password that can be revoked by itself is best.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The user's name at the gateway: up to 32 of a-z, 0-9, `.`, `_` and `-`
    #[arg(value_name = "USER")]
    user: String,
    /// The user's name at the WebDAV server [default: USER]
    #[arg(long, value_name = "NAME", conflicts_with = "remove")]
    account: Option<String>,
    /// It is a token (`Authorization: Bearer`), not a password
    #[arg(long, conflicts_with = "remove")]
    token: bool,
    /// Remove the user's enrolment
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    place: Place,
}

pub(crate) async fn run(args: Args) -> Outcome {
    let user: UserName = args.user.parse().map_err(usage)?;
    if args.remove {
        if !vault::remove(&args.place.vault_folder()?, &user)? {
            return Err(format!("{user} is not enrolled; `haul gateway status` lists who is").into());
        }
        say(format_args!("removed the enrolment of {user}"));
        return Ok(ExitCode::SUCCESS);
    }
    let account = args.account.clone().unwrap_or_else(|| user.to_string());
    if account.is_empty() || account.contains(|char: char| char == ':' || char.is_control()) {
        return Err(usage("--account needs a user name, which has neither colons nor control characters"));
    }
    // Fail before somebody types a password that cannot be stored.
    let vault = args.place.new_vault()?;
    let what = if args.token { "token" } else { "password" };
    let secret = secret(&format!("WebDAV {what} of {account}: ")).await?;
    if secret.reveal().is_empty() {
        return Err(format!("the {what} of {user} is empty; nothing stored").into());
    }
    let enrolment = if args.token {
        Enrolment::Token { account, token: secret }
    } else {
        Enrolment::Password { account, password: secret }
    };
    vault.store(&user, &enrolment)?;
    say(format_args!("enrolled {user}"));
    Ok(ExitCode::SUCCESS)
}

/// A secret from the terminal, or the next line of standard input.
async fn secret(question: &str) -> Result<Secret, Box<dyn Error>> {
    if io::stdin().is_terminal() {
        return Ok(prompt::ask_secret(question).await?);
    }
    // Not with `io::stdin`, whose buffer would keep the password in memory.
    prompt::line_of(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}
