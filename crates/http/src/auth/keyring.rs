//! Passwords in the kernel's keyring (keyrings(7)).
//!
//! Of the two stores that a Linux system has, this one is in every kernel: it needs no daemon, no desktop session and
//! no D-Bus, so it also works over ssh; and it costs one small crate. The Secret Service (GNOME Keyring, KWallet) would
//! cost about 37 more, for zbus and the encryption of its messages.
//!
//! The keys are in the user's persistent keyring (persistent-keyring(7)). They outlive the login session, but not a
//! reboot, and by default not three days in which nobody uses the keyring. Nothing is written to a disk. Any program of
//! the same user can read them.
//!
//! A password is one key, found by origin and user. A second key names the user who was stored last for an origin, for
//! lookups without a user.

use std::marker::PhantomData;

use linux_keyutils::{Key, KeyError, KeyRing, KeyRingIdentifier};
use zeroize::Zeroizing;

use super::{Credential, Secret};
use crate::Origin;

/// The kernel's limit for a key of type `user`.
pub const MAX_KEY_SIZE: usize = 32_767;

/// The keyring cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the kernel's keyring: {}. Use ~/.netrc or a password file", reason(*.0))]
pub struct KeyringError(KeyError);

fn reason(error: KeyError) -> String {
    match error {
        KeyError::AccessDenied | KeyError::PermissionDenied => {
            "permission denied, as is usual in containers".to_owned()
        }
        KeyError::Unknown(libc::ENOSYS) | KeyError::OperationNotSupported => {
            "this kernel has no persistent keyrings".to_owned()
        }
        KeyError::QuotaExceeded => "the user's quota for keys is exceeded (/proc/key-users)".to_owned(),
        KeyError::InvalidArguments | KeyError::InvalidDescription => {
            "the kernel rejects this user name or password".to_owned()
        }
        KeyError::Unknown(number) => std::io::Error::from_raw_os_error(number).to_string(),
        other => other.to_string(),
    }
}

/// The user's keyring. It can be read through this thread's credentials only, so it does not leave the thread.
#[derive(Debug)]
pub struct Keyring {
    ring: KeyRing,
    thread: PhantomData<*const ()>,
}

impl Keyring {
    /// Opens the user's persistent keyring. The kernel creates it if there is none.
    pub fn open() -> Result<Self, KeyringError> {
        // A process may read only keys that its own keyrings lead to, and a login session need not lead here.
        Self::with(KeyRing::get_persistent(KeyRingIdentifier::Thread))
    }

    fn with(ring: Result<KeyRing, KeyError>) -> Result<Self, KeyringError> {
        ring.map(|ring| Self { ring, thread: PhantomData }).map_err(KeyringError)
    }

    /// The password for an origin, of this user or of the one stored last.
    pub fn find(&self, origin: &Origin, user: Option<&str>) -> Result<Option<Credential>, KeyringError> {
        let user = match user {
            Some(user) => user.to_owned(),
            None => match self.last_user(origin)? {
                Some(user) => user,
                None => return Ok(None),
            },
        };
        let password = self.read(&password_key(origin, &user))?;
        Ok(password.map(|password| Credential::Password { user, password }))
    }

    /// Stores a password; replaces an older one of the same user.
    pub fn set(&self, origin: &Origin, user: &str, password: &Secret) -> Result<(), KeyringError> {
        self.add(&password_key(origin, user), password.reveal())?;
        self.add(&user_key(origin), user)
    }

    /// Removes the password of this user, or of the one stored last. Returns the user, if there was a password.
    pub fn remove(&self, origin: &Origin, user: Option<&str>) -> Result<Option<String>, KeyringError> {
        let last = self.last_user(origin)?;
        let Some(user) = user.or(last.as_deref()) else { return Ok(None) };
        let is_removed = self.unlink(&password_key(origin, user))?;
        if last.as_deref() == Some(user) {
            self.unlink(&user_key(origin))?;
        }
        Ok(is_removed.then(|| user.to_owned()))
    }

    fn last_user(&self, origin: &Origin) -> Result<Option<String>, KeyringError> {
        Ok(self.read(&user_key(origin))?.map(|user| user.reveal().to_owned()))
    }

    fn add(&self, description: &str, text: &str) -> Result<(), KeyringError> {
        self.ring.add_key(description, text.as_bytes()).map(drop).map_err(KeyringError)
    }

    fn search(&self, description: &str) -> Result<Option<Key>, KeyringError> {
        match self.ring.search(description) {
            Ok(key) => Ok(Some(key)),
            Err(KeyError::KeyDoesNotExist | KeyError::KeyExpired | KeyError::KeyRevoked) => Ok(None),
            Err(error) => Err(KeyringError(error)),
        }
    }

    fn read(&self, description: &str) -> Result<Option<Secret>, KeyringError> {
        let Some(key) = self.search(description)? else { return Ok(None) };
        let mut buffer = Zeroizing::new(vec![0; MAX_KEY_SIZE]);
        let length = key.read(&mut buffer.as_mut_slice()).map_err(KeyringError)?;
        Ok(buffer.get(..length).and_then(|bytes| str::from_utf8(bytes).ok()).map(Secret::from))
    }

    fn unlink(&self, description: &str) -> Result<bool, KeyringError> {
        let Some(key) = self.search(description)? else { return Ok(false) };
        self.ring.unlink_key(key).map(|()| true).map_err(KeyringError)
    }
}

fn password_key(origin: &Origin, user: &str) -> String {
    format!("longhaul:password {origin} {user}")
}

fn user_key(origin: &Origin) -> String {
    format!("longhaul:user {origin}")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The thread's own keyring, which ends with the test.
    fn keyring() -> Option<Keyring> {
        let keyring = Keyring::with(KeyRing::from_special_id(KeyRingIdentifier::Thread, true));
        keyring.inspect_err(|error| drop(writeln!(std::io::stderr(), "SKIPPED: {error}"))).ok()
    }

    fn origin(url: &str) -> Origin {
        Origin::of(&url.parse().unwrap()).unwrap()
    }

    fn password(user: &str, password: &str) -> Credential {
        Credential::Password { user: user.into(), password: password.into() }
    }

    #[test]
    fn password_is_found_by_origin_and_user() {
        let Some(keyring) = keyring() else { return };
        let here = origin("https://a");
        let find = |user| keyring.find(&here, user).unwrap();
        assert_eq!((find(None), find(Some("ann"))), (None, None));
        keyring.set(&here, "ann", &"one".into()).unwrap();
        keyring.set(&here, "böb; c", &"zwölf ; %\t".into()).unwrap();
        assert_eq!(find(None), Some(password("böb; c", "zwölf ; %\t")));
        assert_eq!(find(Some("ann")), Some(password("ann", "one")));
        keyring.set(&here, "ann", &"two".into()).unwrap();
        assert_eq!((find(None), find(Some("ann"))), (Some(password("ann", "two")), Some(password("ann", "two"))));
        for other in ["http://a", "https://a:8443", "https://b"] {
            assert_eq!(keyring.find(&origin(other), None).unwrap(), None, "{other}");
            assert_eq!(keyring.find(&origin(other), Some("ann")).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn removed_password_is_not_found() {
        let Some(keyring) = keyring() else { return };
        let here = origin("https://a");
        keyring.set(&here, "ann", &"one".into()).unwrap();
        keyring.set(&here, "bob", &"two".into()).unwrap();
        assert_eq!(keyring.remove(&here, None).unwrap().as_deref(), Some("bob"));
        assert_eq!(keyring.remove(&here, None).unwrap(), None);
        assert_eq!(keyring.remove(&here, Some("bob")).unwrap(), None);
        assert_eq!(keyring.find(&here, None).unwrap(), None);
        assert_eq!(keyring.find(&here, Some("ann")).unwrap(), Some(password("ann", "one")));
        assert_eq!(keyring.remove(&here, Some("ann")).unwrap().as_deref(), Some("ann"));
        assert_eq!(keyring.find(&here, Some("ann")).unwrap(), None);
    }

    #[test]
    fn error_says_why_in_one_sentence_and_names_no_secret() {
        let Some(keyring) = keyring() else { return };
        let long = "hunter2".repeat(MAX_KEY_SIZE);
        let error = keyring.set(&origin("https://a"), "ann", &long.into()).unwrap_err().to_string();
        assert!(error.contains("rejects this") && !error.contains("hunter2"), "{error}");
        let error = keyring.set(&origin("https://a"), "a\0b", &"hunter2".into()).unwrap_err().to_string();
        assert!(error.contains("rejects this") && !error.contains("hunter2"), "{error}");
    }
}
