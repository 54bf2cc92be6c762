//! Where the SMB gateway keeps its state and finds its key.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
};

use ::gateway::vault::{Vault, VaultKey};
use nix::unistd::geteuid;

use crate::files::session::user_folder;

/// The name of the systemd credential with the vault's key (`LoadCredential=` of systemd.exec(5)).
const CREDENTIAL: &str = "haul-vault-key";

/// Folder and key, which all commands about the same gateway share.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// Folder of the gateway's state [default: /var/lib/longhaul/gateway, without root ~/.local/state/longhaul/gateway]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// File with the vault's key [default: the systemd credential haul-vault-key, or /etc/longhaul/gateway.key, without root
    /// ~/.config/longhaul/gateway.key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Where the key is.
enum Key {
    Credential(PathBuf),
    File(PathBuf),
}

/// The folder of a gateway's state: the one that was named, or the usual one.
pub(crate) fn state(named: Option<&Path>) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(folder) = named {
        return Ok(std::path::absolute(folder)?);
    }
    if geteuid().is_root() {
        return Ok("/var/lib/longhaul/gateway".into());
    }
    let base = user_folder("XDG_STATE_HOME", ".local/state");
    let base = base.ok_or("no folder for the state: neither HOME nor XDG_STATE_HOME is set; use --state")?;
    Ok(base.join("longhaul/gateway"))
}

impl Place {
    /// The folder of the gateway's state.
    pub(crate) fn state(&self) -> Result<PathBuf, Box<dyn Error>> {
        state(self.state.as_deref())
    }

    /// The folder of the vault.
    pub(crate) fn vault_folder(&self) -> Result<PathBuf, Box<dyn Error>> {
        Ok(self.state()?.join("vault"))
    }

    fn key(&self) -> Result<Key, Box<dyn Error>> {
        if let Some(path) = &self.key {
            return Ok(Key::File(path.clone()));
        }
        let credential = env::var_os("CREDENTIALS_DIRECTORY").map(|folder| PathBuf::from(folder).join(CREDENTIAL));
        if let Some(path) = credential.filter(|path| path.exists()) {
            return Ok(Key::Credential(path));
        }
        if geteuid().is_root() {
            return Ok(Key::File("/etc/longhaul/gateway.key".into()));
        }
        let base = user_folder("XDG_CONFIG_HOME", ".config");
        let base = base.ok_or("no folder for the key: neither HOME nor XDG_CONFIG_HOME is set; use --key")?;
        Ok(Key::File(base.join("longhaul/gateway.key")))
    }

    /// Opens the vault.
    pub(crate) fn vault(&self) -> Result<Vault, Box<dyn Error>> {
        let (key, path) = match self.key()? {
            Key::Credential(path) => (VaultKey::read_credential(&path)?, path),
            Key::File(path) => (VaultKey::read(&path)?, path),
        };
        Ok(Vault::open(&self.vault_folder()?, key, &path)?)
    }

    /// Opens the vault. If the key file is missing, it is created: but only for a vault without records, which no other key
    /// could open.
    pub(crate) fn new_vault(&self) -> Result<Vault, Box<dyn Error>> {
        if let Key::File(path) = self.key()?
            && !path.exists()
        {
            let folder = self.vault_folder()?;
            if !::gateway::vault::users(&folder)?.is_empty() {
                let (folder, path) = (folder.display(), path.display());
                return Err(format!(
                    "the vault {folder} has records, but its key {path} is missing; restore it, or remove the vault"
                )
                .into());
            }
            VaultKey::create(&path)?;
        }
        self.vault()
    }
}
