use proptest::prelude::*;

use super::*;

fn origin(url: &str) -> Origin {
    Origin::of(&url.parse().unwrap()).unwrap()
}

fn password() -> Credential {
    Credential::Password { user: "me".into(), password: "hunter2".into() }
}

fn challenge(texts: &[&str]) -> HeaderMap {
    texts.iter().map(|text| (header::WWW_AUTHENTICATE, text.parse().unwrap())).collect()
}

/// A request to one origin, as the client would send it.
struct Exchange {
    authenticator: Authenticator,
    origin: Origin,
    headers: HeaderMap,
    attempt: Attempt,
}

impl Exchange {
    fn begin(url: &str, credential: Option<Credential>) -> Self {
        let mut credentials = Credentials::default();
        if let Some(credential) = credential {
            credentials.set(origin(url), credential);
        }
        let mut exchange = Self {
            authenticator: Authenticator::new(credentials, Clear::Refused),
            origin: origin(url),
            headers: HeaderMap::new(),
            attempt: Attempt::default(),
        };
        exchange.send();
        exchange
    }

    fn send(&mut self) {
        self.headers = HeaderMap::new();
        self.attempt = self.authenticator.authorize(&self.origin, &Method::GET, "/", &mut self.headers).unwrap();
    }

    fn refused(&mut self, with: &[&str]) -> Result<(), GiveUp> {
        let answer = challenge(with);
        let (origin, attempt) = (&self.origin, &self.attempt);
        self.attempt = self.authenticator.retry(origin, &Method::GET, "/", attempt, &answer, &mut self.headers)?;
        Ok(())
    }

    fn sent(&self) -> &str {
        self.headers.get(header::AUTHORIZATION).map_or("", |value| value.to_str().unwrap())
    }
}

fn ticket(host: &str) -> (tempfile::TempDir, Credential) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let server = format!("HTTP/{host}@EXAMPLE.TEST");
    std::fs::write(&path, crate::auth::kerberos::ccache::tests::cache(&[(&server, 18, u32::MAX)])).unwrap();
    (folder, Credential::Kerberos(crate::auth::Kerberos::new(path)))
}

#[test]
fn kerberos_token_is_sent_preemptively_and_never_without_tls() {
    let (_folder, credential) = ticket("localhost");
    let mut exchange = Exchange::begin("http://localhost:8080", Some(credential.clone()));
    let first = exchange.sent().to_owned();
    assert!(first.starts_with("Negotiate Y"), "{first}");
    assert!(exchange.headers[header::AUTHORIZATION].is_sensitive());
    let Exchange { authenticator, origin, headers, attempt } = &mut exchange;
    authenticator.renew(origin, &Method::GET, "/", attempt, headers);
    assert!(exchange.sent().starts_with("Negotiate Y") && exchange.sent() != first, "a repeated token is a replay");
    let (_folder, credential) = ticket("example.org");
    assert!(Exchange::begin("https://example.org:8443", Some(credential.clone())).sent().starts_with("Negotiate Y"));
    let mut authenticator = Authenticator::default();
    let in_cleartext = self::origin("http://example.org");
    authenticator.set(in_cleartext.clone(), credential);
    let mut headers = HeaderMap::new();
    let refused = authenticator.authorize(&in_cleartext, &Method::GET, "/", &mut headers);
    assert!(matches!(refused, Err(GiveUp::Clear { .. })) && headers.is_empty(), "{refused:?}");
}

#[test]
fn request_without_a_kerberos_ticket_is_not_sent() {
    let (_folder, credential) = ticket("example.org");
    let mut authenticator = Authenticator::default();
    authenticator.set(origin("https://other.org"), credential);
    let refused = authenticator.authorize(&origin("https://other.org"), &Method::GET, "/", &mut HeaderMap::new());
    let said = refused.unwrap_err().to_string();
    assert!(said.starts_with("cannot authenticate to https://other.org: no ticket for HTTP/other.org in /"), "{said}");
}

#[test]
fn stale_kerberos_token_is_renewed_once() {
    let (_folder, credential) = ticket("example.org");
    let mut exchange = Exchange::begin("https://example.org", Some(credential));
    for is_answered in [true, false] {
        assert!(!exchange.attempt.is_stale());
        exchange.attempt.signed = Instant::now().checked_sub(FRESH);
        let before = exchange.sent().to_owned();
        let answered = exchange.refused(&["Negotiate"]);
        assert_eq!((answered.is_ok(), exchange.sent() != before), (is_answered, is_answered), "{answered:?}");
    }
}

#[test]
fn rejected_kerberos_token_is_final_for_its_request_only() {
    let (_folder, credential) = ticket("example.org");
    let mut exchange = Exchange::begin("https://example.org", Some(credential));
    let said = exchange.refused(&["Negotiate", "Basic realm=\"x\""]).unwrap_err().to_string();
    assert!(
        said.contains("rejected the Kerberos ticket of ann@EXAMPLE.TEST; it requires Negotiate, or Basic"),
        "{said}"
    );
    exchange.send();
    assert!(exchange.sent().starts_with("Negotiate Y"));
    let said = exchange.refused(&["Basic realm=\"x\""]).unwrap_err().to_string();
    assert!(said.contains("which does not work with a Kerberos ticket"), "{said}");
}

/// RFC 7617 §2 and §2.1.
#[test]
fn basic_matches_the_example_of_rfc_7617() {
    assert_eq!(basic("Aladdin", &"open sesame".into()).unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_eq!(basic("test", &"123\u{a3}".into()).unwrap(), "Basic dGVzdDoxMjPCow==");
    assert_eq!(basic("a:b", &"c".into()), None);
}

#[test]
fn password_is_sent_preemptively_over_tls_and_on_loopback() {
    for (url, unasked) in [
        ("https://example.org", true),
        ("http://127.0.0.1:8080", true),
        ("http://[::1]", true),
        ("http://localhost", true),
        ("http://dav.localhost", true),
        ("http://example.org", false),
        ("http://127.0.0.1.example.org", false),
        ("http://notlocalhost", false),
    ] {
        assert_eq!(Exchange::begin(url, Some(password())).sent().starts_with("Basic "), unasked, "{url}");
        let token = Exchange::begin(url, Some(Credential::Token("mF_9.B5f-4.1JqM".into())));
        assert_eq!(token.sent(), if unasked { "Bearer mF_9.B5f-4.1JqM" } else { "" });
    }
}

#[test]
fn password_is_not_sent_in_clear_text_unless_allowed() {
    let mut exchange = Exchange::begin("http://example.org", Some(password()));
    let told = exchange.refused(&["Basic realm=\"files\""]).unwrap_err();
    assert_eq!(
        told.to_string(),
        "http://example.org requires Basic for \"files\", which would send the password unencrypted: \
         use https, or allow it explicitly"
    );
    assert_eq!(exchange.sent(), "");
    exchange.authenticator.clear = Clear::Allowed;
    exchange.send();
    assert_eq!(exchange.sent(), "Basic bWU6aHVudGVyMg==");
}

#[test]
fn strongest_challenge_is_answered() {
    let offered = [
        "Basic realm=r, Digest realm=r, nonce=a, qop=auth, algorithm=MD5",
        "Negotiate, Digest realm=r, nonce=b, qop=auth, algorithm=SHA-256",
        "Digest realm=r, nonce=c, qop=auth-int, algorithm=SHA-512-256",
    ];
    let mut exchange = Exchange::begin("http://example.org", Some(password()));
    exchange.refused(&offered).unwrap();
    assert!(exchange.sent().contains("algorithm=SHA-256, nonce=\"b\", nc=00000001"), "{}", exchange.sent());
    assert!(exchange.headers[header::AUTHORIZATION].is_sensitive());
    exchange.send();
    assert!(exchange.sent().contains("nc=00000002"));
}

#[test]
fn wrong_password_is_tried_once() {
    for (url, offered) in [
        ("https://example.org", "Basic realm=r"),
        ("http://example.org", "Digest realm=r, nonce=n, qop=auth"),
        ("https://example.org", "Basic realm=r, Digest realm=r, nonce=n, qop=auth"),
    ] {
        let mut exchange = Exchange::begin(url, Some(password()));
        if exchange.sent().is_empty() {
            exchange.refused(&[offered]).unwrap();
        }
        let told = exchange.refused(&[&offered.replace("=n", "=other")]).unwrap_err();
        assert!(matches!(told, GiveUp::Refused { .. }), "{told}");
        // Later requests do not try it again.
        exchange.send();
        assert_eq!(exchange.sent(), "");
        assert_eq!(
            exchange.refused(&[offered]).unwrap_err(),
            GiveUp::Refused {
                origin: origin(url),
                what: "password of \"me\"".into(),
                wants: wants(&challenges(&challenge(&[offered]))),
            }
        );
        // Until there is another credential.
        exchange.authenticator.set(origin(url), password());
        exchange.send();
        assert_eq!(exchange.sent().is_empty(), !url.starts_with("https"));
    }
}

#[test]
fn digest_follows_a_rejected_basic() {
    let mut exchange = Exchange::begin("https://example.org", Some(password()));
    exchange.refused(&["Digest realm=r, nonce=n, qop=auth"]).unwrap();
    assert!(exchange.sent().starts_with("Digest username=\"me\""));
}

#[test]
fn basic_is_refused_after_a_digest_challenge() {
    let mut exchange = Exchange::begin("https://a", Some(password()));
    exchange.headers.clear();
    exchange.attempt = Attempt::default();
    exchange.refused(&["Digest realm=r, nonce=n, qop=auth"]).unwrap();
    assert!(matches!(exchange.refused(&["Basic realm=r"]), Err(GiveUp::Refused { .. })));
}

#[test]
fn basic_replaces_digest_when_the_server_changes_its_scheme() {
    let mut exchange = Exchange::begin("https://a", Some(password()));
    exchange.refused(&["Digest realm=r, nonce=n, qop=auth"]).unwrap();
    exchange.send();
    assert!(exchange.sent().starts_with("Digest "));
    for _ in 0..2 {
        if exchange.sent().starts_with("Digest ") {
            exchange.refused(&["Basic realm=r"]).unwrap();
        }
        assert!(exchange.sent().starts_with("Basic "));
        exchange.send();
    }
}

#[test]
fn expired_nonce_is_replaced_with_or_without_stale() {
    for stale in ["", ", stale=TRUE"] {
        let mut exchange = Exchange::begin("http://a", Some(password()));
        exchange.refused(&["Digest realm=r, nonce=one, qop=auth"]).unwrap();
        exchange.send();
        assert!(exchange.sent().contains("nonce=\"one\", nc=00000002"));
        exchange.refused(&[&format!("Digest realm=r, nonce=two, qop=auth{stale}")]).unwrap();
        assert!(exchange.sent().contains("nonce=\"two\", nc=00000001"));
        exchange.refused(&["Digest realm=r, nonce=three, qop=auth, stale=true"]).unwrap();
        for nonce in ["four", "five", "six"] {
            exchange.refused(&[&format!("Digest realm=r, nonce={nonce}, qop=auth, stale=true")]).unwrap();
        }
        let told = exchange.refused(&["Digest realm=r, nonce=seven, qop=auth, stale=true"]).unwrap_err();
        assert!(matches!(told, GiveUp::Stale { .. }));
    }
}

#[test]
fn nextnonce_is_used() {
    let mut exchange = Exchange::begin("http://a", Some(password()));
    exchange.refused(&["Digest realm=r, nonce=one, qop=auth"]).unwrap();
    let info = HeaderMap::from_iter([("authentication-info".parse().unwrap(), "nextnonce=\"two\"".parse().unwrap())]);
    let first = exchange.attempt.clone();
    exchange.authenticator.accepted(&exchange.origin, &first, &info);
    exchange.send();
    assert!(exchange.sent().contains("nonce=\"two\", nc=00000001"));
    // A late response to an earlier nonce changes nothing.
    exchange.authenticator.accepted(&exchange.origin, &first, &info);
    exchange.send();
    assert!(exchange.sent().contains("nonce=\"two\", nc=00000002"));
}

#[test]
fn the_requests_own_header_wins() {
    let mut exchange = Exchange::begin("https://a", Some(password()));
    exchange.headers.insert(header::AUTHORIZATION, "Basic b3duOm93bg==".parse().unwrap());
    exchange.attempt =
        exchange.authenticator.authorize(&exchange.origin, &Method::GET, "/", &mut exchange.headers).unwrap();
    assert_eq!(exchange.sent(), "Basic b3duOm93bg==");
    assert!(matches!(exchange.refused(&["Basic realm=r"]), Err(GiveUp::Own { .. })));
    assert_eq!(exchange.sent(), "Basic b3duOm93bg==");
}

#[test]
fn unsupported_challenge_is_an_error_with_a_reason() {
    let told = |credential: Option<Credential>, offered: &[&str]| {
        Exchange::begin("http://a", credential).refused(offered).unwrap_err().to_string()
    };
    assert_eq!(told(None, &[]), "http://a responded with 401, but named no authentication scheme");
    assert!(told(None, &["Basic realm=r"]).contains("requires Basic for \"r\", but there are no credentials"));
    assert_eq!(
        told(Some(password()), &["Negotiate", "Digest realm=\"a\\\"b\", nonce=n, qop=auth-int"]),
        "http://a requires Negotiate, or Digest (auth-int) for \"a\\\"b\", which does not work with a password"
    );
    assert!(told(Some(Credential::Token("t".into())), &["Basic realm=r"]).contains("does not work with a token"));
    let invalid = Exchange::begin("https://a", Some(Credential::Token("hunter2\n".into())))
        .refused(&["Bearer realm=r"])
        .unwrap_err()
        .to_string();
    assert!(invalid.contains("the token for https://a cannot be sent"), "{invalid}");
}

/// RFC 7616 §3.4.
#[test]
fn nonce_count_grows_with_each_request() {
    let count = |exchange: &Exchange| {
        let sent = exchange.sent();
        let value = |name: &str| sent.split_once(name).map_or("", |(_, rest)| rest.split([',', '"']).next().unwrap());
        format!("{} {}", value("nonce=\""), value("nc=").trim_start_matches('0'))
    };
    let offer = ["Digest realm=r, nonce=n, qop=auth"];
    let mut exchange = Exchange::begin("http://a", Some(password()));
    exchange.refused(&offer).unwrap();
    assert_eq!(count(&exchange), "n 1");
    let again = |exchange: &mut Exchange| {
        let Exchange { authenticator, origin, headers, attempt } = exchange;
        authenticator.renew(origin, &Method::GET, "/", attempt, headers);
    };
    again(&mut exchange);
    assert_eq!(count(&exchange), "n 2");
    // Another request got the same nonce at the same time.
    let first = std::mem::take(&mut exchange.attempt);
    exchange.refused(&offer).unwrap();
    assert_eq!(count(&exchange), "n 3");
    // The server has announced another nonce since; a rejection of it does not count as a wrong password.
    exchange.authenticator.accepted(
        &origin("http://a"),
        &first,
        &HeaderMap::from_iter([(
            HeaderName::from_static("authentication-info"),
            HeaderValue::from_static("nextnonce=\"m\""),
        )]),
    );
    exchange.attempt = first;
    again(&mut exchange);
    assert_eq!((count(&exchange).as_str(), exchange.attempt.digest.as_ref().unwrap().fresh), ("m 1", false));
    // A request without Digest credentials stays unchanged.
    let mut open = Exchange::begin("http://b", None);
    again(&mut open);
    assert_eq!(open.sent(), "");
}

#[test]
fn nonces_used_up_by_other_requests_are_replaced_up_to_a_limit() {
    let mut exchange = Exchange::begin("http://a", Some(password()));
    exchange.refused(&["Digest realm=r, nonce=n0, qop=auth"]).unwrap();
    let other = exchange.attempt.clone();
    for number in 1..10 {
        exchange.authenticator.accepted(&origin("http://a"), &other, &HeaderMap::new());
        exchange.refused(&[&format!("Digest realm=r, nonce=n{number}, qop=auth, stale=true")]).unwrap();
    }
    let gives_up = (10..20).find_map(|number| {
        exchange.refused(&[&format!("Digest realm=r, nonce=n{number}, qop=auth, stale=true")]).err()
    });
    assert!(matches!(gives_up, Some(GiveUp::Stale { .. })));
}

#[test]
fn debug_output_has_no_secret() {
    let mut exchange = Exchange::begin("https://a", Some(password()));
    let mut printed = Vec::new();
    let mut look = |exchange: &Exchange| {
        printed.push(format!("{:?} {:?} {:?}", exchange.authenticator, exchange.headers, exchange.attempt));
    };
    look(&exchange);
    let told = exchange.refused(&["Basic realm=r"]).unwrap_err();
    exchange.authenticator.set(origin("https://a"), Credential::Token("hunter2".into()));
    exchange.send();
    look(&exchange);
    exchange.authenticator.set(origin("https://a"), password());
    exchange.send();
    exchange.refused(&["Digest realm=r, nonce=n, qop=auth"]).unwrap();
    look(&exchange);
    let printed = format!("{printed:?} {told:?} {told}");
    assert!(
        !printed.contains("hunter2") && !printed.contains("aHVudGVyMg") && !printed.contains("response="),
        "{printed}"
    );
}

proptest! {
    /// Whatever the server responds, the number of attempts is limited.
    #[test]
    fn authentication_attempts_are_limited(
        url in proptest::sample::select(vec!["http://a", "https://a", "http://localhost"]),
        token in any::<bool>(),
        allowed in any::<bool>(),
        before in 0_usize..2,
        offers in proptest::collection::vec(
            proptest::collection::vec(
                "(Basic|Bearer|Negotiate|Digest) realm=[rs], nonce=[a-z], qop=auth(, stale=true)?(, algorithm=(MD5|SHA-256|MD5-sess))?",
                1..3,
            ),
            8,
        ),
    ) {
        let credential = if token { Credential::Token("hunter2".into()) } else { password() };
        let mut exchange = Exchange::begin(url, Some(credential));
        exchange.authenticator.clear = if allowed { Clear::Allowed } else { Clear::Refused };
        for offer in &offers[..before] {
            let _ = exchange.refused(&offer.iter().map(String::as_str).collect::<Vec<_>>());
            exchange.send();
        }
        let mut refusals = 0;
        for offer in &offers {
            refusals += 1;
            if exchange.refused(&offer.iter().map(String::as_str).collect::<Vec<_>>()).is_err() {
                break;
            }
        }
        prop_assert!(refusals <= 8, "{refusals}");
    }
}
