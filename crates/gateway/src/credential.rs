//! Whose a request is.
//!
//! A credential is the whole value of `Authorization`: a user name with another password is another credential. So
//! whatever is kept for a credential is out of reach for who does not know it.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, header::AUTHORIZATION};
use ring::{hmac, rand::SystemRandom};

/// A digest of a credential, which is useless outside of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity([u8; 32]);

/// A request's credential.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) identity: Identity,
    /// The user's name, of Basic credentials.
    pub(crate) user: Option<String>,
}

/// Why a credential is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// More than one `Authorization`.
    Ambiguous,
    /// The scheme authenticates something else than each request by itself, such as the connection.
    Scheme(String),
}

/// Tells credentials apart.
pub(crate) struct Identities(hmac::Key);

impl Identities {
    /// An error if the system has no random numbers.
    pub(crate) fn new() -> Result<Self, ring::error::Unspecified> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map(Self)
    }

    /// The credential of a request. A request without one has the anonymous credential.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Result<Credential, Refused> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Ok(self.credential(b"", None)) };
        if values.next().is_some() {
            return Err(Refused::Ambiguous);
        }
        let text = value.as_bytes();
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (scheme, rest) = text.split_at(end);
        match scheme.to_ascii_lowercase().as_slice() {
            b"basic" => Ok(self.credential(text, user(rest))),
            b"bearer" => Ok(self.credential(text, None)),
            _ => Err(Refused::Scheme(String::from_utf8_lossy(scheme).chars().take(32).collect())),
        }
    }

    fn credential(&self, value: &[u8], user: Option<String>) -> Credential {
        let tag = hmac::sign(&self.0, value);
        let mut identity = [0; 32];
        identity.copy_from_slice(tag.as_ref());
        Credential { identity: Identity(identity), user }
    }
}

/// The user's name in Basic credentials (RFC 7617 §2).
fn user(encoded: &[u8]) -> Option<String> {
    let decoded = BASE64_STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    String::from_utf8(decoded[..colon].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(identities: &Identities, values: &[&str]) -> Result<Credential, Refused> {
        identities.of(&values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap())).collect())
    }

    #[test]
    fn credentials_are_told_apart_by_all_of_them() {
        let identities = Identities::new().unwrap();
        let basic = |text: &str| {
            let value = format!("Basic {}", BASE64_STANDARD.encode(text));
            of(&identities, &[&value]).unwrap()
        };
        let ann = basic("ann:secret");
        assert_eq!(ann.user.as_deref(), Some("ann"));
        assert_eq!(ann, basic("ann:secret"));
        for other in [basic("ann:Secret"), basic("Ann:secret"), basic("ann:"), basic("bob:secret")] {
            assert_ne!(ann.identity, other.identity);
        }
        let nobody = of(&identities, &[]).unwrap();
        let token = of(&identities, &["Bearer abc"]).unwrap();
        assert!(nobody.identity != ann.identity && token.identity != nobody.identity);
        assert_ne!(Identities::new().unwrap().of(&HeaderMap::new()).unwrap().identity, nobody.identity);
    }

    #[test]
    fn what_authenticates_a_connection_is_refused() {
        let identities = Identities::new().unwrap();
        assert_eq!(of(&identities, &["Negotiate YII="]), Err(Refused::Scheme("Negotiate".into())));
        assert_eq!(of(&identities, &["Basic YTpi", "Basic YTpi"]), Err(Refused::Ambiguous));
    }
}
