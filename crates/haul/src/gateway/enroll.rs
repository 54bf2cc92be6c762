//! `haul gateway enroll`: stores what a user of the SMB gateway shows the WebDAV server.

use std::{
    env,
    error::Error,
    fs::File,
    io::{self, IsTerminal},
    os::fd::AsFd,
    process::ExitCode,
};

use ::gateway::{
    smb::Passwords,
    vault::{self, Enrolment, UserName},
};
use haul_http::auth::Secret;

use super::place::Place;
use crate::{
    files::{Outcome, session::prompt},
    say, usage,
};

/// Store a user's password or token for the WebDAV server, and set their SMB password
///
/// SMB clients never reveal a password, so the gateway needs one of each user for the server. Both are typed at the terminal,
/// or are the first two lines of standard input. The first is stored encrypted; an app password that can be revoked by
/// itself is best.
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
    /// Do not ask for an SMB password, and keep the one that there is
    #[arg(long, conflicts_with = "remove")]
    keep_smb_password: bool,
    /// Remove the user's enrolment and SMB password
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    place: Place,
}

pub(crate) async fn run(args: Args) -> Outcome {
    let user: UserName = args.user.parse().map_err(usage)?;
    if args.remove {
        let is_removed = vault::remove(&args.place.vault_folder()?, &user)?;
        // Without it, nothing has ever been shared here.
        let passwords = Passwords::open(&args.place.state()?, env::current_exe()?).ok();
        if let Some(passwords) = passwords.filter(|passwords| passwords.has(&user)) {
            passwords.remove(&user)?;
        } else if !is_removed {
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
    let smb =
        if args.keep_smb_password { None } else { Some(Passwords::open(&args.place.state()?, env::current_exe()?)?) };
    let mut input = Input::open()?;
    let what = if args.token { "token" } else { "password" };
    let secret = input.secret(&format!("WebDAV {what} of {account}: ")).await?;
    if secret.reveal().is_empty() {
        return Err(format!("the {what} of {user} is empty; nothing stored").into());
    }
    if let Some(smb) = smb {
        let password = input.secret(&format!("New SMB password of {user}: ")).await?;
        if password.reveal().is_empty() {
            return Err(format!("the SMB password of {user} is empty; nothing stored").into());
        }
        if input.is_terminal && input.secret("Again: ").await? != password {
            return Err("the two SMB passwords differ; nothing stored".into());
        }
        smb.set(&user, &password)?;
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

/// Where secrets come from: the terminal, or the lines of standard input.
struct Input {
    is_terminal: bool,
    /// Not `io::stdin`, whose buffer would keep the secrets in memory.
    stdin: File,
}

impl Input {
    fn open() -> io::Result<Self> {
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { is_terminal: io::stdin().is_terminal(), stdin })
    }

    async fn secret(&mut self, question: &str) -> Result<Secret, Box<dyn Error>> {
        if self.is_terminal {
            return Ok(prompt::ask_secret(question).await?);
        }
        prompt::line_of(&self.stdin)
    }
}
