//! Users of an Apache.

/// A line of a password file.
pub(crate) fn password_line(user: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{user}'s").as_bytes());
    format!("{user}:{{SHA}}{}\n", base64::Engine::encode(&base64::prelude::BASE64_STANDARD, digest))
}
