//! `haul gateway status`: who is enrolled.

use std::{fmt::Write, process::ExitCode};

use ::gateway::vault;

use super::place::Place;
use crate::files::Outcome;

/// List the enrolled users of the SMB gateway
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = args.place.vault_folder()?;
    let users = vault::users(&folder)?;
    if users.is_empty() {
        crate::print(b"nobody is enrolled\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let vault = args.place.vault()?;
    let mut text = String::new();
    for user in users {
        // A record that cannot be opened is the news that an administrator looks for here.
        match vault.load(&user) {
            Ok(Some(enrolment)) => {
                let account = dav::terminal_safe(enrolment.account().as_bytes());
                writeln!(text, "{user}: enrolled as {account}")?;
            }
            Ok(None) => {}
            Err(error) => writeln!(text, "{user}: {error}")?,
        }
    }
    crate::print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
