//! Whose a request is.
//!
//! A credential is what `Authorization` says, however it is written: a user name with another password is another one. So
//! whatever is kept for a credential is out of reach for who does not know it. Cookies and the like belong to it, too: a
//! server may go by them. Who has no credential is known by the address, as the server may go by that.

use std::net::IpAddr;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{
    HeaderMap, HeaderName,
    header::{AUTHORIZATION, USER_AGENT},
};
use ring::{hmac, rand::SystemRandom};

/// Base64 as servers read it: some take it without padding, or with useless bits at its end.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

const LOCK_TOKEN: HeaderName = HeaderName::from_static("lock-token");

/// A digest of a credential, which is useless outside of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity([u8; 32]);

/// A request's credential.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) identity: Identity,
    /// Of `Authorization` alone: cookies are easily made up. Without one, the same as `identity`.
    pub(crate) authorization: Identity,
    /// The user's name, of Basic and Digest credentials.
    pub(crate) user: Option<String>,
    pub(crate) scope: Scope,
}

/// What a credential is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Any request (Basic, Bearer, and none).
    Any,
    /// The request that it came with: a digest covers method and path (RFC 7616).
    Request,
    /// The connection, for all later requests (Negotiate, RFC 4559; NTLM).
    Connection,
}

/// Why a credential is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// More than one `Authorization`.
    Ambiguous,
    /// Nobody knows what the scheme authenticates.
    Scheme(String),
}

/// Tells credentials apart.
pub(crate) struct Identities(hmac::Key);

impl Identities {
    /// An error if the system has no random numbers.
    pub(crate) fn new() -> Result<Self, ring::error::Unspecified> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map(Self)
    }

    /// The credential of a request.
    pub(crate) fn of(&self, headers: &HeaderMap, client: IpAddr) -> Result<Credential, Refused> {
        let mut others = Vec::new();
        for (name, value) in headers.iter().filter(|(name, _)| is_other_credential(name)) {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                others.extend_from_slice(&part.len().to_be_bytes());
                others.extend_from_slice(part);
            }
        }
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            let address = client.to_canonical().to_string();
            let nobody = self.credential(&[b"from ", address.as_bytes()], &others, None);
            return Ok(Credential { authorization: nobody.identity, ..nobody });
        };
        if values.next().is_some() {
            return Err(Refused::Ambiguous);
        }
        let text = value.as_bytes();
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (scheme, rest) = text.split_at(end);
        match scheme.to_ascii_lowercase().as_slice() {
            b"digest" => Ok(Credential {
                user: digest_user(rest),
                scope: Scope::Request,
                ..self.credential(&[text], &others, None)
            }),
            b"negotiate" | b"ntlm" => {
                Ok(Credential { scope: Scope::Connection, ..self.credential(&[text], &others, None) })
            }
            b"basic" => Ok(match LENIENT.decode(rest.trim_ascii()) {
                Ok(decoded) => self.credential(&[b"basic ", &decoded], &others, user(&decoded)),
                Err(_) => self.credential(&[b"no basic ", rest.trim_ascii()], &others, None),
            }),
            b"bearer" => Ok(self.credential(&[b"bearer ", rest.trim_ascii()], &others, None)),
            _ => Err(Refused::Scheme(String::from_utf8_lossy(scheme).chars().take(32).collect())),
        }
    }

    fn credential(&self, value: &[&[u8]], others: &[u8], user: Option<String>) -> Credential {
        let authorization = self.identity(value, &[]);
        let identity = if others.is_empty() { authorization } else { self.identity(value, others) };
        Credential { identity, authorization, user, scope: Scope::Any }
    }

    fn identity(&self, value: &[&[u8]], others: &[u8]) -> Identity {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&value.iter().map(|part| part.len()).sum::<usize>().to_be_bytes());
        for part in value {
            context.update(part);
        }
        context.update(others);
        let tag = context.sign();
        let mut identity = [0; 32];
        identity.copy_from_slice(tag.as_ref());
        Identity(identity)
    }
}

/// Whether a server may take a field other than `Authorization` for a credential.
fn is_other_credential(name: &HeaderName) -> bool {
    const SIGNS: [&str; 8] = ["cookie", "auth", "token", "key", "session", "secret", "credential", "user"];
    let is_harmless = [AUTHORIZATION, USER_AGENT, LOCK_TOKEN].contains(name);
    !is_harmless && SIGNS.iter().any(|sign| name.as_str().contains(sign))
}

/// Whether `Authorization` alone says who somebody is, as far as is visible here.
pub(crate) fn is_only_authorization(headers: &HeaderMap) -> bool {
    !headers.keys().any(is_other_credential)
}

/// The user's name in decoded Basic credentials (RFC 7617 §2).
fn user(decoded: &[u8]) -> Option<String> {
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    String::from_utf8(decoded[..colon].to_vec()).ok()
}

/// The user's name in Digest credentials.
fn digest_user(parameters: &[u8]) -> Option<String> {
    let text = str::from_utf8(parameters).ok()?;
    let mut parameters = text.split(',').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, name) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("username"))?;
    Some(name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn of(identities: &Identities, values: &[&str]) -> Result<Credential, Refused> {
        identities.of(&values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap())).collect(), HERE)
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
        assert_ne!(Identities::new().unwrap().of(&HeaderMap::new(), HERE).unwrap().identity, nobody.identity);
    }

    #[test]
    fn a_credential_is_the_same_however_it_is_written() {
        let identities = Identities::new().unwrap();
        let of = |value: &str| of(&identities, &[value]).unwrap();
        // "ann:secret?".
        let ann = of("Basic YW5uOnNlY3JldD8=");
        for same in
            ["basic YW5uOnNlY3JldD8=", "BASIC   YW5uOnNlY3JldD8=  ", "Basic YW5uOnNlY3JldD8", "Basic YW5uOnNlY3JldD9="]
        {
            assert_eq!(of(same), ann, "{same}");
        }
        assert_eq!(of("Bearer  abc"), of("bearer abc"));
        assert_ne!(of("Bearer abc").identity, of("Bearer Abc").identity);
        for other in ["Basic YW5uOnNlY3JldD8=x", "Basic YW5u OnNlY3JldD8=", "Bearer YW5uOnNlY3JldD8=", "Basic"] {
            assert_ne!(of(other).identity, ann.identity, "{other}");
        }
        assert_eq!(of("Basic YW5u OnNlY3JldD8=").user, None);
    }

    #[test]
    fn cookies_keys_and_addresses_tell_apart_too() {
        let identities = Identities::new().unwrap();
        let with = |fields: &[(&'static str, &str)], client: &str| {
            let headers = fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            let headers = headers.collect();
            (identities.of(&headers, client.parse().unwrap()).unwrap().identity, is_only_authorization(&headers))
        };
        let basic = ("authorization", "Basic YTpi");
        let (plain, is_only) = with(&[basic], "10.0.0.1");
        assert!(is_only);
        assert_eq!(
            with(&[basic, ("user-agent", "a"), ("lock-token", "<b>"), ("depth", "1")], "10.0.0.2"),
            (plain, true)
        );
        let mut seen = vec![plain];
        for other in ["cookie", "x-api-key", "x-auth-token", "private-token", "x-session-id", "oc-user"] {
            for fields in
                [&[basic, (other, "1")][..], &[basic, (other, "2")], &[(other, "1")], &[(other, "1"), (other, "1")]]
            {
                let (identity, is_only) = with(fields, "10.0.0.1");
                assert!(!is_only && !seen.contains(&identity), "{fields:?}");
                seen.push(identity);
            }
        }
        assert_ne!(with(&[], "10.0.0.1"), with(&[], "10.0.0.2"));
        assert_eq!(with(&[], "10.0.0.1"), with(&[], "::ffff:10.0.0.1"));
    }

    #[test]
    fn schemes_have_their_scope() {
        let identities = Identities::new().unwrap();
        let scope = |value: &str| of(&identities, &[value]).map(|credential| (credential.scope, credential.user));
        assert_eq!(scope("negotiate YII="), Ok((Scope::Connection, None)));
        assert_eq!(scope("NTLM TlRM"), Ok((Scope::Connection, None)));
        let digest = scope("Digest realm=\"x\", username=\"ann\", uri=\"/a\"");
        assert_eq!(digest, Ok((Scope::Request, Some("ann".to_owned()))));
        assert_eq!(scope("Basic YTpi"), Ok((Scope::Any, Some("a".to_owned()))));
        assert_eq!(scope("Hawk id=1"), Err(Refused::Scheme("Hawk".into())));
        assert_eq!(of(&identities, &["Basic YTpi", "Basic YTpi"]), Err(Refused::Ambiguous));
    }
}
