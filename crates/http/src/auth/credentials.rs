//! Which origin gets which credential, and where it comes from.

use std::collections::HashMap;

use transport::Origin;

use super::{Environment, Kerberos, Netrc, Secret, Userinfo};

/// What proves who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// For `Basic` and `Digest`.
    Password {
        /// The user's name; not a secret.
        user: String,
        /// The password.
        password: Secret,
    },
    /// For `Bearer`.
    Token(Secret),
    /// For `Negotiate`.
    Kerberos(Kerberos),
}

/// The credentials of each origin.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    own: HashMap<Origin, Credential>,
    netrc: Netrc,
}

impl Credentials {
    /// None but those that a `netrc` gives to hosts by name. Its `default` entry is for origins that the user
    /// names ([`admit`](Self::admit)), not for those that a server names in a redirect.
    pub fn new(netrc: Netrc) -> Self {
        Self { own: HashMap::new(), netrc }
    }

    /// Gives an origin a credential, in place of any it has.
    pub fn set(&mut self, origin: Origin, credential: Credential) {
        self.own.insert(origin, credential);
    }

    /// The credential of an origin. One that the user has not named gets what a `netrc` has for its host only at the
    /// host's own `https`: another port may be another user's server, and without TLS anybody may answer.
    pub fn get(&self, origin: &Origin) -> Option<Credential> {
        let is_the_hosts = origin.is_tls() && origin.port() == 443;
        self.own
            .get(origin)
            .cloned()
            .or_else(|| is_the_hosts.then(|| self.netrc.machine(origin.host(), None)).flatten())
    }

    /// The user has named this origin: finds its credential, and returns whether there is one. In this order: user
    /// and password in the URL, the environment's token, its user and password, the `netrc` entry for the host,
    /// the `keyring`, the `default` entry of the `netrc`. A user's name without a password restricts `netrc` and
    /// `keyring` to entries of that user.
    pub fn admit(
        &mut self,
        origin: &Origin,
        url: Option<Userinfo>,
        environment: &Environment,
        keyring: impl FnOnce(Option<&str>) -> Option<Credential>,
    ) -> bool {
        let found = match (url, environment) {
            (Some(Userinfo { user, password: Some(password) }), _) => Some(Credential::Password { user, password }),
            (None, Environment { token: Some(token), .. }) => Some(Credential::Token(token.clone())),
            (url, Environment { user: known, password, .. }) => {
                let named = url.map(|url| url.user);
                let theirs = named.is_none() || known.is_none() || named == *known;
                match (named.or_else(|| known.clone()), password.clone().filter(|_| theirs)) {
                    (Some(user), Some(password)) => Some(Credential::Password { user, password }),
                    (user, _) => self
                        .netrc
                        .machine(origin.host(), user.as_deref())
                        .or_else(|| keyring(user.as_deref()))
                        .or_else(|| self.netrc.default_entry(user.as_deref())),
                }
            }
        };
        let is_found = found.is_some();
        if let Some(credential) = found {
            self.set(origin.clone(), credential);
        }
        is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Origin {
        Origin::of(&url.parse().unwrap()).unwrap()
    }

    fn password(user: &str, password: &str) -> Credential {
        Credential::Password { user: user.into(), password: password.into() }
    }

    #[test]
    fn more_specific_source_of_credentials_wins() {
        let netrc = "machine a login me password file\nmachine a login you password yours\ndefault login d password dd";
        let netrc = Netrc::parse(netrc, "netrc".as_ref()).unwrap();
        let both = Environment { user: Some("env".into()), password: Some("e".into()), token: None };
        let name_alone = Environment { user: Some("you".into()), ..Environment::default() };
        let token = Environment { token: Some("t".into()), ..both.clone() };
        let user = |user: &str, password: Option<&str>| {
            Some(Userinfo { user: user.into(), password: password.map(Secret::from) })
        };
        for (host, url, environment, found) in [
            ("http://a", None, Environment::default(), Some(password("me", "file"))),
            ("http://a", None, name_alone.clone(), Some(password("you", "yours"))),
            ("http://a", user("you", None), Environment::default(), Some(password("you", "yours"))),
            ("http://a", user("you", None), both.clone(), Some(password("you", "yours"))),
            ("http://a", user("env", None), both.clone(), Some(password("env", "e"))),
            ("http://a", user("x", Some("y")), token.clone(), Some(password("x", "y"))),
            ("http://a", None, both, Some(password("env", "e"))),
            ("http://a", None, token, Some(Credential::Token("t".into()))),
            ("http://b", None, Environment::default(), Some(password("d", "dd"))),
            ("http://b", None, name_alone, None),
        ] {
            let mut credentials = Credentials::new(netrc.clone());
            assert_eq!(credentials.admit(&origin(host), url, &environment, |_| None), found.is_some());
            assert_eq!(credentials.get(&origin(host)), found);
        }
    }

    #[test]
    fn keyring_comes_after_netrc_host_and_before_netrc_default() {
        let netrc = Netrc::parse("machine a login me password m default login d password dd", "".as_ref()).unwrap();
        let environment = Environment { user: Some("env".into()), password: Some("e".into()), token: None };
        let nobody = Environment::default();
        let ann = || Some(Userinfo { user: "ann".into(), password: None });
        for (host, url, environment, asked, found) in [
            ("https://a", None, &nobody, false, password("me", "m")),
            ("https://b", None, &environment, false, password("env", "e")),
            ("https://a", ann(), &nobody, true, password("ann", "k")),
            ("https://b", None, &nobody, true, password("last", "k")),
        ] {
            let mut credentials = Credentials::new(netrc.clone());
            let mut is_asked = false;
            let keyring = |user: Option<&str>| {
                is_asked = true;
                Some(password(user.unwrap_or("last"), "k"))
            };
            assert!(credentials.admit(&origin(host), url, environment, keyring));
            assert_eq!((credentials.get(&origin(host)), is_asked), (Some(found), asked), "{host}");
        }
    }

    #[test]
    fn credentials_are_not_used_for_another_origin() {
        let netrc = Netrc::parse("machine b login me password m default login d password dd", "".as_ref()).unwrap();
        let mut credentials = Credentials::new(netrc);
        credentials.admit(&origin("https://a"), None, &Environment::default(), |_| None);
        assert!(credentials.get(&origin("https://a")).is_some());
        assert_eq!(credentials.get(&origin("http://a")), None);
        assert_eq!(credentials.get(&origin("https://a:444")), None);
        assert_eq!(credentials.get(&origin("https://c")), None);
        assert_eq!(credentials.get(&origin("https://b")), Some(password("me", "m")));
        assert_eq!(credentials.get(&origin("https://b:444")), None);
        assert_eq!(credentials.get(&origin("http://b")), None);
    }
}
