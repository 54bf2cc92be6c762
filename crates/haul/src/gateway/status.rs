//! `haul gateway status`: who is enrolled, and who is there.

use std::{fmt::Write, process::ExitCode};

use ::gateway::{smb, vault};

use super::place::Place;
use crate::files::Outcome;

/// List the users of the SMB gateway, and their sessions
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
    let mounted = smb::status(&args.place.state()?)?;
    let session_count = |user: &str| {
        let mut lines = mounted.as_deref().unwrap_or_default().lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == user).map(|(_, count)| count.to_owned())
    };
    let mut text = String::new();
    for user in users {
        // A record that cannot be opened is the news that an administrator looks for here.
        match vault.load(&user) {
            Ok(Some(enrolment)) => {
                let account = dav::terminal_safe(enrolment.account().as_bytes());
                write!(text, "{user}: enrolled as {account}")?;
                match session_count(user.as_str()).as_deref() {
                    Some("1") => writeln!(text, ", mounted, 1 session")?,
                    Some(count) => writeln!(text, ", mounted, {count} sessions")?,
                    None => writeln!(text)?,
                }
            }
            Ok(None) => {}
            Err(error) => writeln!(text, "{user}: {error}")?,
        }
    }
    crate::print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
