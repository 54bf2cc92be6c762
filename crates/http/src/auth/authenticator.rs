//! The `Authorization` of a request, and the reaction to a `401`.
//!
//! Many requests are in flight at once, so each keeps what it has tried ([`Attempt`]). Only shared state is kept here:
//! the server's latest `Digest` nonce, and the realms that rejected the credentials. A rejected password is not tried
//! again by later requests, because servers lock users out.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use super::{
    Challenge, Credential, Credentials, GiveUp, Kerberos, Secret,
    challenge::{challenges, parameter},
    digest_response::Session,
};
use crate::Origin;

/// How long a token of `Negotiate` is new. Servers accept it for five minutes (RFC 4120 §3.2.3), less the difference between
/// the clocks.
const FRESH: Duration = Duration::from_mins(1);
/// A Kerberos credential, in messages.
const TICKET: &str = "Kerberos ticket";
/// The number of stale nonces in a row, without an accepted request, before giving up.
const MAX_RENEWALS: u8 = 4;

/// Whether a password or token may be sent unencrypted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clear {
    /// No: only over TLS, and on loopback.
    #[default]
    Refused,
    /// The user allows it.
    Allowed,
}

/// What one request has tried. It goes with the request, and comes back with its `401`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt {
    /// It has an `Authorization` header of its own.
    own: bool,
    /// `Basic`, `Bearer` or `Negotiate`.
    plain: bool,
    digest: Option<Tried>,
    /// Stale nonces or tokens in a row, without an accepted request.
    renewals: u8,
    /// The number of accepted requests at that time.
    accepted: u64,
    /// When a token was made that is accepted for some time only.
    signed: Option<Instant>,
}

impl Attempt {
    /// Whether the request has a token that was made a while ago, because it had to wait for its turn.
    pub fn is_stale(&self) -> bool {
        self.signed.is_some_and(|signed| signed.elapsed() >= FRESH)
    }

    /// With a token of `Negotiate` that has just been made.
    fn by_negotiate(renewals: u8) -> Self {
        Self { plain: true, renewals, signed: Some(Instant::now()), ..Self::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tried {
    nonce: Vec<u8>,
    /// Whether the nonce came with this request's own `401`.
    fresh: bool,
}

/// Authenticates the requests of a client.
#[derive(Debug, Default)]
pub struct Authenticator {
    credentials: Credentials,
    clear: Clear,
    known: HashMap<Origin, Known>,
}

#[derive(Debug, Default)]
struct Known {
    session: Option<Session>,
    /// Requests accepted with a nonce.
    accepted: u64,
    /// Realms that rejected the credentials.
    refused: Vec<Vec<u8>>,
}

impl Authenticator {
    /// With these credentials.
    pub fn new(credentials: Credentials, clear: Clear) -> Self {
        Self { credentials, clear, known: HashMap::new() }
    }

    /// Replaces an origin's credential, for example after a prompt, and forgets that the last one was rejected.
    pub fn set(&mut self, origin: Origin, credential: Credential) {
        self.known.remove(&origin);
        self.credentials.set(origin, credential);
    }

    /// Before the first sending: adds preemptive credentials, unless the request has an `Authorization` already.
    /// `target` is the request target in the request line (RFC 9112 §3.2). Fails only with Kerberos: without
    /// a token, a server that also admits anonymous clients would treat the request as one of theirs.
    pub fn authorize(
        &mut self,
        origin: &Origin,
        method: &Method,
        target: &str,
        headers: &mut HeaderMap,
    ) -> Result<Attempt, GiveUp> {
        if headers.contains_key(header::AUTHORIZATION) {
            return Ok(Attempt { own: true, ..Attempt::default() });
        }
        let Some(credential) = self.credentials.get(origin) else { return Ok(Attempt::default()) };
        let safe = self.is_safe(origin);
        if let Credential::Kerberos(kerberos) = &credential {
            put(headers, negotiate(kerberos, origin, safe)?);
            return Ok(Attempt::by_negotiate(0));
        }
        let known = self.known.entry(origin.clone()).or_default();
        let plain = Attempt { plain: true, ..Attempt::default() };
        let made = match (&credential, &mut known.session) {
            (Credential::Password { user, password }, Some(session)) => {
                let digest = Some(Tried { nonce: session.nonce.clone(), fresh: false });
                session
                    .respond(user, password, method, target)
                    .map(|value| (Attempt { digest, ..Attempt::default() }, value))
            }
            (Credential::Password { user, password }, None) if safe && known.refused.is_empty() => {
                basic(user, password).map(|value| (plain, value))
            }
            (Credential::Token(token), _) if safe && known.refused.is_empty() => {
                bearer(token).map(|value| (plain, value))
            }
            _ => None,
        };
        let Some((attempt, value)) = made else { return Ok(Attempt::default()) };
        put(headers, value);
        Ok(attempt)
    }

    /// Before a retry with the headers of an earlier sending: uses the server's latest nonce, and increments its count
    /// (`nc`, RFC 7616 §3.4), because a server would treat a repeated count as a replay; so it would a token of `Negotiate`.
    pub fn renew(
        &mut self,
        origin: &Origin,
        method: &Method,
        target: &str,
        attempt: &mut Attempt,
        headers: &mut HeaderMap,
    ) {
        let credential = self.credentials.get(origin);
        if let (true, Some(Credential::Kerberos(kerberos))) = (attempt.plain, &credential) {
            // Without a new token the old one may do.
            if let Ok(value) = negotiate(kerberos, origin, self.is_safe(origin)) {
                put(headers, value);
                *attempt = Attempt::by_negotiate(attempt.renewals);
            }
            return;
        }
        let session = self.known.get_mut(origin).and_then(|known| known.session.as_mut());
        if let (Some(tried), Some(session), Some(Credential::Password { user, password })) =
            (&mut attempt.digest, session, credential)
            && let Some(value) = session.respond(&user, &password, method, target)
        {
            tried.fresh &= tried.nonce == session.nonce;
            tried.nonce.clone_from(&session.nonce);
            put(headers, value);
        }
    }

    /// After a `401` with the headers `answer`: puts the next attempt into the request's `headers`, or returns why
    /// there is none. A password is tried once in plain text and once with a nonce of the request's own. If a nonce is
    /// valid for few requests and many are in flight, others may have used it up, so it is renewed a few times, and as
    /// long as some requests are accepted. So a request gets at most eight `401`s, and usually one.
    pub fn retry(
        &mut self,
        origin: &Origin,
        method: &Method,
        target: &str,
        attempt: &Attempt,
        answer: &HeaderMap,
        headers: &mut HeaderMap,
    ) -> Result<Attempt, GiveUp> {
        let offered = challenges(answer);
        let origin = origin.clone();
        if offered.is_empty() {
            return Err(GiveUp::Mute { origin });
        }
        let wants = wants(&offered);
        if attempt.own {
            return Err(GiveUp::Own { origin, wants });
        }
        let Some(credential) = self.credentials.get(&origin) else { return Err(GiveUp::Unknown { origin, wants }) };
        let safe = self.is_safe(&origin);
        let known = self.known.entry(origin.clone()).or_default();
        let (scheme, what) = match &credential {
            Credential::Password { .. } => ("basic", "password"),
            Credential::Token(_) => ("bearer", "token"),
            Credential::Kerberos(_) => ("negotiate", TICKET),
        };
        let plain = offered.iter().find(|challenge| challenge.is(scheme));
        if let (Credential::Kerberos(kerberos), Some(_)) = (&credential, plain)
            && attempt.is_stale()
            && attempt.renewals == 0
        {
            put(headers, negotiate(kerberos, &origin, safe)?);
            return Ok(Attempt::by_negotiate(1));
        }
        let retry = Retry { origin, credential: &credential, what, wants, attempt };
        if let Credential::Password { user, password } = &credential
            && let Some((session, stale)) = strongest(&offered)
            && !(attempt.plain && plain.is_some())
        {
            let respond = |session: &mut Session| session.respond(user, password, method, target);
            return retry.by_digest(known, session, stale, respond, headers);
        }
        match plain {
            Some(plain) => retry.in_plain(known, plain, safe, headers),
            None => Err(GiveUp::Unsupported { origin: retry.origin, what, wants: retry.wants }),
        }
    }

    /// After any response except a `401`: takes the server's next nonce (`nextnonce`, RFC 7616 §3.5), which saves the
    /// round trip of another challenge.
    pub fn accepted(&mut self, origin: &Origin, attempt: &Attempt, answer: &HeaderMap) {
        let Some(Tried { nonce, .. }) = &attempt.digest else { return };
        let known = self.known.entry(origin.clone()).or_default();
        known.accepted += 1;
        let next = answer
            .get(HeaderName::from_static("authentication-info"))
            .and_then(|value| parameter(value.as_bytes(), "nextnonce"));
        if let (Some(next), Some(session)) = (next, known.session.as_mut())
            && session.nonce == *nonce
        {
            session.renew(next);
        }
    }

    fn is_safe(&self, origin: &Origin) -> bool {
        self.clear == Clear::Allowed || origin.is_tls() || origin.is_loopback()
    }
}

/// A request that got a `401`.
struct Retry<'a> {
    origin: Origin,
    credential: &'a Credential,
    /// What the credential is, for messages.
    what: &'static str,
    /// The server's challenges, for messages.
    wants: String,
    attempt: &'a Attempt,
}

impl Retry<'_> {
    /// Answers a `Digest` challenge.
    fn by_digest(
        self,
        known: &mut Known,
        mut session: Session,
        stale: bool,
        respond: impl FnOnce(&mut Session) -> Option<HeaderValue>,
        headers: &mut HeaderMap,
    ) -> Result<Attempt, GiveUp> {
        let Self { attempt, what, .. } = self;
        let realm = session.realm.clone();
        if known.refused.contains(&realm) {
            return Err(self.refused(known, &realm));
        }
        let mut renewals = if known.accepted > attempt.accepted { 0 } else { attempt.renewals };
        if let Some(Tried { nonce, fresh }) = &attempt.digest {
            if !stale && (*fresh || *nonce == session.nonce) {
                return Err(self.refused(known, &realm));
            }
            if stale && (renewals >= MAX_RENEWALS || *nonce == session.nonce) {
                return Err(GiveUp::Stale { origin: self.origin });
            }
            renewals += u8::from(stale && *fresh);
        }
        // Several requests may get the same nonce: all of them count its uses together.
        if let Some(same) = known.session.take_if(|known| known.is_same(&session)) {
            session = same;
        }
        let Some(value) = respond(&mut session) else {
            let why = "the server's challenge has characters that a header cannot hold";
            return Err(GiveUp::Unspeakable { origin: self.origin, what, why });
        };
        let digest = Some(Tried { nonce: session.nonce.clone(), fresh: true });
        known.session = Some(session);
        put(headers, value);
        Ok(Attempt { digest, renewals, accepted: known.accepted, ..attempt.clone() })
    }

    /// Answers a `Basic` or `Bearer` challenge.
    fn in_plain(
        self,
        known: &mut Known,
        challenge: &Challenge,
        safe: bool,
        headers: &mut HeaderMap,
    ) -> Result<Attempt, GiveUp> {
        let realm = challenge.bytes("realm").unwrap_or_default();
        // A server that refused a password under Digest does not get it in plain text.
        let proved = self.attempt.digest.as_ref().is_some_and(|tried| tried.fresh);
        if self.attempt.plain || proved || known.refused.iter().any(|refused| refused == realm) {
            return Err(self.refused(known, realm));
        }
        let Self { origin, credential, what, wants, attempt } = self;
        if !safe {
            return Err(GiveUp::Clear { origin, what, wants });
        }
        let (value, why) = match credential {
            Credential::Password { user, password } => {
                (basic(user, password), "Basic allows no colon in the user name")
            }
            Credential::Token(token) => (bearer(token), "it has characters that a header cannot hold"),
            Credential::Kerberos(kerberos) => (Some(negotiate(kerberos, &origin, safe)?), ""),
        };
        put(headers, value.ok_or(GiveUp::Unspeakable { origin, what, why })?);
        known.session = None;
        Ok(Attempt { plain: true, ..attempt.clone() })
    }

    /// The credential was refused: remembers that for the realm. A ticket may be renewed, or too new for the server's clock,
    /// and nobody is locked out because of one, so it is tried again.
    fn refused(self, known: &mut Known, realm: &[u8]) -> GiveUp {
        let is_ticket = matches!(self.credential, Credential::Kerberos(_));
        if !is_ticket && !known.refused.iter().any(|refused| refused == realm) {
            known.refused.push(realm.to_vec());
        }
        known.session.take_if(|session| session.realm == realm);
        let what = match self.credential {
            Credential::Password { user, .. } => format!("password of {user:?}"),
            Credential::Token(_) => "token".to_owned(),
            Credential::Kerberos(kerberos) => {
                kerberos.owner().map_or(TICKET.to_owned(), |owner| format!("{TICKET} of {owner}"))
            }
        };
        GiveUp::Refused { origin: self.origin, what, wants: self.wants }
    }
}

/// The strongest supported `Digest` challenge, and whether it only replaces a stale nonce.
fn strongest(offered: &[Challenge]) -> Option<(Session, bool)> {
    offered
        .iter()
        .filter(|challenge| challenge.is("digest"))
        .filter_map(|challenge| {
            let stale = challenge.text("stale").is_some_and(|value| value.eq_ignore_ascii_case("true"));
            Some((Session::begin(challenge, own_nonce())?, stale))
        })
        // Among equals the server's first.
        .reduce(|best, next| if next.0.hash > best.0.hash { next } else { best })
}

fn own_nonce() -> String {
    let mut bytes = [0; 18];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers, or TLS would not work either");
    STANDARD.encode(bytes)
}

/// RFC 7617 §2; always UTF-8 (§2.1).
fn basic(user: &str, password: &Secret) -> Option<HeaderValue> {
    if user.contains(':') {
        return None;
    }
    let pair = Zeroizing::new([user, password.reveal()].join(":"));
    let text = Zeroizing::new(format!("Basic {}", Zeroizing::new(STANDARD.encode(pair.as_bytes())).as_str()));
    HeaderValue::from_str(&text).ok()
}

/// RFC 4559 §4.1.
fn negotiate(kerberos: &Kerberos, origin: &Origin, safe: bool) -> Result<HeaderValue, GiveUp> {
    if !safe {
        return Err(GiveUp::Clear { origin: origin.clone(), what: TICKET, wants: "Negotiate".into() });
    }
    kerberos.authorization(origin.host()).map_err(|why| GiveUp::Kerberos { origin: origin.clone(), why })
}

/// RFC 6750 §2.1.
fn bearer(token: &Secret) -> Option<HeaderValue> {
    HeaderValue::from_str(&Zeroizing::new(format!("Bearer {}", token.reveal()))).ok()
}

fn put(headers: &mut HeaderMap, mut value: HeaderValue) {
    value.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, value);
}

/// The challenges in words: `Digest (SHA-256) for "files", or Basic for "files"`. The server's text is escaped and
/// truncated, because it goes to a terminal.
fn wants(offered: &[Challenge]) -> String {
    let short = |text: &str| text.chars().take(80).collect::<String>();
    let one = |challenge: &Challenge| {
        let mut scheme = short(challenge.scheme());
        if let Some(first) = scheme.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let detail =
            challenge.text("algorithm").map_or(String::new(), |name| format!(" ({})", short(&name).escape_debug()));
        let detail = challenge.text("qop").filter(|qop| *qop == "auth-int").map_or(detail, |qop| format!(" ({qop})"));
        let realm = challenge.text("realm").map_or(String::new(), |realm| format!(" for {:?}", short(&realm)));
        format!("{scheme}{detail}{realm}")
    };
    offered.iter().map(one).collect::<Vec<_>>().join(", or ")
}

#[cfg(test)]
mod tests;
