//! `haul gateway status`: who is enrolled, who is there, and what the server does not have yet.

use std::{collections::BTreeMap, error::Error, fmt::Write, path::Path, process::ExitCode, time::Duration};

use ::gateway::{Pending, Report, smb, vault};
use units::{Span, rounded::binary_size};

use super::place::Place;
use crate::files::Outcome;

/// List the users of the SMB gateway and their sessions, and the saved files that the server does not have yet
///
/// The exit status is 1 if the upload of a saved file has failed, or there is a message that nobody has acknowledged.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Acknowledge the messages: they are not shown again
    #[arg(long)]
    acknowledge: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let state = args.place.state()?;
    let reports = Report::read_all(&state)?;
    let files = reports.iter().flat_map(|report| &report.pending);
    let is_failing = files.clone().any(|file| file.failure.is_some());
    let is_told = reports.iter().any(|report| !report.messages.is_empty());
    crate::print((users(args, &state)? + &saved(files) + &told(&reports)).as_bytes())?;
    if args.acknowledge {
        reports.iter().try_for_each(Report::acknowledge)?;
    }
    Ok(if is_failing || (is_told && !args.acknowledge) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The saved files that the server does not have yet.
fn saved<'a>(pending: impl Iterator<Item = &'a Pending>) -> String {
    let mut text = String::new();
    for file in pending {
        let user = dav::terminal_safe(file.details.user.as_deref().unwrap_or_default().as_bytes());
        let age = file.closed.elapsed().map_or(0, |age| age.as_secs());
        let (path, age, size) = (file.path.target(), Span(Duration::from_secs(age)), binary_size(file.length));
        let _ = write!(text, "{path} of {user}: {size}, saved {age} ago, not at the server yet");
        let why = file.failure.as_ref().map(|(_, why)| format!(": {}", dav::terminal_safe(why.as_bytes())));
        let _ = writeln!(text, "{}", why.unwrap_or_default());
    }
    text
}

/// What somebody has to know.
fn told(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        for message in &report.messages {
            let _ = writeln!(text, "{}: {}", report.share, message.what);
        }
    }
    text
}

fn users(args: &Args, state: &Path) -> Result<String, Box<dyn Error>> {
    let mounted = smb::status(state)?;
    let mut sessions: BTreeMap<_, _> =
        mounted.as_deref().unwrap_or_default().lines().filter_map(|line| line.split_once(' ')).collect();
    let users = vault::users(&args.place.vault_folder()?)?;
    let mut text = String::new();
    if users.is_empty() {
        text.push_str("nobody is enrolled\n");
    } else {
        let vault = args.place.vault()?;
        for user in users {
            // A record that cannot be opened is the news that an administrator looks for here.
            match vault.load(&user) {
                Ok(Some(enrolment)) => {
                    let account = dav::terminal_safe(enrolment.account().as_bytes());
                    let mounted = sessions.remove(user.as_str()).map(mounted_with).unwrap_or_default();
                    writeln!(text, "{user}: enrolled as {account}{mounted}")?;
                }
                Ok(None) => {}
                Err(error) => writeln!(text, "{user}: {error}")?,
            }
        }
    }
    // Who has a mount and is not enrolled has it with Kerberos.
    for (user, count) in sessions {
        writeln!(text, "{user}: by Kerberos{}", mounted_with(count))?;
    }
    Ok(text)
}

fn mounted_with(sessions: &str) -> String {
    format!(", mounted, {sessions} session{}", if sessions == "1" { "" } else { "s" })
}
