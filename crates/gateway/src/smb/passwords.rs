//! Samba's password database, which Samba's own tool `pdbedit` changes.

use std::{
    fs,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haul_http::auth::Secret;
use zeroize::Zeroizing;

use super::{Layout, SmbError, accounts::enter_namespace, configuration, failed, samba::program};
use crate::vault::UserName;

/// The SMB passwords of a gateway's users.
pub struct Passwords {
    layout: Layout,
    haul: PathBuf,
    pdbedit: PathBuf,
    configuration: PathBuf,
}

impl Passwords {
    /// The database below a state folder. `haul` is the program whose hidden command calls [`exec_with_accounts`].
    pub fn open(state: &Path, haul: PathBuf) -> Result<Self, SmbError> {
        let pdbedit = program("pdbedit", "samba-common-bin")?;
        let layout = Layout::create(state)?;
        layout.accounts().create()?;
        let configuration = layout.samba().join("pdbedit.conf");
        fs::write(&configuration, configuration::database(&layout.samba())).map_err(failed("write", &configuration))?;
        Ok(Self { layout, haul, pdbedit, configuration })
    }

    /// Sets a user's SMB password.
    pub fn set(&self, user: &UserName, password: &Secret) -> Result<(), SmbError> {
        self.layout.accounts().add(user)?;
        let twice = Zeroizing::new(format!("{0}\n{0}\n", password.reveal()));
        self.pdbedit("set", user, &["--create", "--password-from-stdin"], &twice)
    }

    /// Whether a user has an SMB password.
    pub fn has(&self, user: &UserName) -> bool {
        self.pdbedit("find", user, &["--list"], "").is_ok()
    }

    /// Removes a user's SMB password.
    pub fn remove(&self, user: &UserName) -> Result<(), SmbError> {
        self.pdbedit("remove", user, &["--delete"], "")
    }

    fn pdbedit(&self, what: &'static str, user: &UserName, options: &[&str], input: &str) -> Result<(), SmbError> {
        let failed = |said: String| SmbError::Password { what, user: user.to_string(), said };
        let mut command = Command::new(&self.haul);
        command.args(["gateway", "smb-accounts", "--state"]).arg(&self.layout.state).arg("--").arg(&self.pdbedit);
        command.arg("--configfile").arg(&self.configuration).args(options).args(["--user", user.as_str()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        if let Some(mut to) = child.stdin.take() {
            // One that has failed does not read; its message says more.
            let _ = to.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stderr, output.stdout].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        Err(failed(said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it does not say why").into()))
    }
}

/// Gives a user of the gateway a Unix account. The process must see the gateway's accounts, as Samba does.
pub fn add_account(state: &Path, user: &UserName) -> Result<(), SmbError> {
    Layout { state: state.to_owned() }.accounts().add(user).map(drop)
}

/// Becomes another program, which sees the gateway's Unix accounts in place of the machine's. Returns only if that fails.
/// The process must have one thread.
pub fn exec_with_accounts(state: &Path, program: &Path, arguments: &[std::ffi::OsString]) -> SmbError {
    let layout = Layout { state: state.to_owned() };
    if let Err(error) = enter_namespace().and_then(|()| layout.accounts().show()) {
        return error;
    }
    let error: io::Error = Command::new(program).args(arguments).exec();
    failed("start", program)(error)
}
