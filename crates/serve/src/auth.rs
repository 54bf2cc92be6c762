//! Authentication: HTTP Basic (RFC 7617) against a password file.
//!
//! Each line of the file is `user:hash`, as `htpasswd -B` writes it. Only bcrypt hashes are accepted: attackers can
//! guess billions of the older ones per second.
//!
//! Verifying a bcrypt hash takes tens of milliseconds on purpose, and a client sends its password with every request.
//! So a verified password is cached, as a keyed digest that is useless outside this process. Wrong passwords are not
//! cached, and few are verified at a time, so that guessing cannot exhaust the CPU. An unknown user costs a
//! verification too, so that response times do not reveal user names.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bcrypt::HashParts;
use http::header::{AUTHORIZATION, HeaderMap};
use ring::hmac;
use tokio::sync::Semaphore;

use crate::Error;

/// Maximum number of concurrent verifications.
const PARALLEL_CHECKS: usize = 2;

/// How long a request waits for its verification before it gets 503.
const INITIAL_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum bcrypt cost: 2^14 rounds take about a second; more is a mistake, or an attack on the server.
const MAX_BCRYPT_COST: u32 = 14;

/// The password could not be verified in time; it may be right or wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overloaded;

/// The users of one server.
pub(crate) struct Users {
    hashes: HashMap<String, String>,
    /// The hash for unknown users; no password matches it.
    nobody: String,
    key: hmac::Key,
    known: Mutex<HashMap<String, hmac::Tag>>,
    checks: Semaphore,
}

impl Users {
    /// Reads a password file. Empty lines and lines that begin with `#` are skipped.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::Passwords { path: path.to_owned(), error })?;
        let mut hashes = HashMap::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, hash) =
                entry(line).map_err(|why| Error::PasswordLine { path: path.to_owned(), line: index + 1, why })?;
            if hashes.insert(user.to_owned(), hash.to_owned()).is_some() {
                let why = format!("duplicate user {user}; remove one of the lines");
                return Err(Error::PasswordLine { path: path.to_owned(), line: index + 1, why });
            }
        }
        let cost =
            hashes.values().filter_map(|h| h.parse::<HashParts>().ok()).map(|h| h.get_cost()).max().unwrap_or(10);
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())
            .map_err(|_| Error::Certificate("the system gives no random numbers".into()))?;
        let nobody = format!("$2b${cost:02}${}{}", ".".repeat(22), ".".repeat(31));
        Ok(Users { hashes, nobody, key, known: Mutex::default(), checks: Semaphore::new(PARALLEL_CHECKS) })
    }

    /// The authenticated user; `None` if the password is wrong or missing.
    pub(crate) async fn check(&self, headers: &HeaderMap) -> Result<Option<String>, Overloaded> {
        let Some((user, password)) = credentials(headers) else { return Ok(None) };
        if self.is_known(&user, &password) {
            return Ok(Some(user));
        }
        let turn = tokio::time::timeout(INITIAL_PATIENCE, self.checks.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(Overloaded) };
        // A concurrent request of the same client may have been verified meanwhile.
        if self.is_known(&user, &password) {
            return Ok(Some(user));
        }
        let hash = self.hashes.get(&user).unwrap_or(&self.nobody).clone();
        let attempt = password.clone();
        let right = tokio::task::spawn_blocking(move || bcrypt::verify(attempt, &hash).unwrap_or(false)).await;
        if !right.map_err(|_| Overloaded)? || !self.hashes.contains_key(&user) {
            return Ok(None);
        }
        let tag = hmac::sign(&self.key, &password);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(user.clone(), tag);
        Ok(Some(user))
    }

    fn is_known(&self, user: &str, password: &[u8]) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(user).is_some_and(|tag| hmac::verify(&self.key, password, tag.as_ref()).is_ok())
    }
}

fn entry(line: &str) -> Result<(&str, &str), String> {
    let (user, hash) = line
        .split_once(':')
        .filter(|(user, _)| !user.is_empty())
        .ok_or("expected user:hash; make a line with `htpasswd -nB USER`")?;
    let parts: HashParts = hash
        .parse()
        .map_err(|_| format!("the hash of the user {user} is not bcrypt; make it with `htpasswd -nB {user}`"))?;
    if parts.get_cost() > MAX_BCRYPT_COST {
        return Err(format!(
            "the hash of the user {user} has cost {}; the maximum is {MAX_BCRYPT_COST}",
            parts.get_cost()
        ));
    }
    Ok((user, hash))
}

fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let (scheme, value) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut user = BASE64_STANDARD.decode(value.trim()).ok()?;
    let colon = user.iter().position(|b| *b == b':')?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    Some((String::from_utf8(user).ok()?, password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::io::Write;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn basic(text: &str) -> HeaderMap {
        let value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(text))).unwrap();
        HeaderMap::from_iter([(AUTHORIZATION, value)])
    }

    #[tokio::test]
    async fn right_password_is_accepted_and_others_refused() {
        let hash = bcrypt::hash("se:cret", 4).unwrap();
        let users = Users::read(file(&format!("# people\n\nann:{hash}\n")).path()).unwrap();
        for _ in 0..2 {
            assert_eq!(users.check(&basic("ann:se:cret")).await, Ok(Some("ann".to_owned())));
            assert_eq!(users.check(&basic("ann:se:cre")).await, Ok(None));
            assert_eq!(users.check(&basic("bob:se:cret")).await, Ok(None));
            assert_eq!(users.check(&basic("ann")).await, Ok(None));
        }
        assert_eq!(users.check(&HeaderMap::new()).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn unverified_password_gets_503_not_401() {
        let hash = bcrypt::hash("s3cret", 4).unwrap();
        let users = Users::read(file(&format!("ann:{hash}")).path()).unwrap();
        let _turns = users.checks.acquire_many(PARALLEL_CHECKS as u32).await.unwrap();
        assert_eq!(users.check(&basic("ann:s3cret")).await, Err(Overloaded));
    }

    #[test]
    fn invalid_line_error_names_file_and_line_without_the_secret() {
        let file = file("ann:$apr1$abc$secret\n");
        let error = Users::read(file.path()).err().unwrap().to_string();
        assert!(error.contains(", line 1: the hash of the user ann is not bcrypt"), "{error}");
        assert!(!error.contains("secret"));
        assert!(
            Users::read(self::file("\nann\n").path()).err().unwrap().to_string().contains("line 2: expected user:hash")
        );
    }

    #[test]
    fn hash_for_unknown_users_costs_a_verification() {
        let hash = bcrypt::hash("x", 5).unwrap();
        let users = Users::read(file(&format!("ann:{hash}")).path()).unwrap();
        assert!(!bcrypt::verify("x", &users.nobody).unwrap());
        assert_eq!(users.nobody.parse::<HashParts>().unwrap().get_cost(), 5);
    }
}
