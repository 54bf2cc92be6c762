//! Where an answer sends a request (RFC 9110 §15.4).
//!
//! A redirect is a server's word, and it may be followed only as far as the server may decide: to another path
//! freely, to another origin without anything that proves who asks, from `https` to `http` never. A method that
//! changes something is sent elsewhere only if the server says that it is to be the same there (307, 308) and
//! once more does no harm; and to another origin not at all, for there it would be done with that one's credentials,
//! and one server could have files of another overwritten and deleted. From `http` to `https` is another origin too:
//! the answer in the clear may be anybody's.

use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use url::Url;

use crate::{Origin, is_idempotent, is_safe};

/// As many as browsers used to follow; more is a circle.
pub const MOST_REDIRECTS: u32 = 10;

/// The request that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follow {
    /// Its URL, without fragment, user and password.
    pub uri: Uri,
    /// Its method. If it differs from the first one's, the body is not sent.
    pub method: Method,
    /// Whether it goes to the same origin. If not, neither credentials nor cookies of the first go with it.
    pub keep_credentials: bool,
}

/// Why a redirect is not followed: the answer is then the caller's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// It does not say where to, or not in a URL.
    #[error("{method} {from}: redirect without a valid Location ({status})")]
    Nowhere {
        /// The request's method.
        method: Method,
        /// The request's URL.
        from: String,
        /// The answer's status.
        status: StatusCode,
    },
    /// The last of too many.
    #[error("{from}: more than {MOST_REDIRECTS} redirects")]
    TooMany {
        /// The URL that was redirected last.
        from: String,
    },
    /// Out of TLS.
    #[error("{from} redirects to {to}, which is not encrypted; to accept that, use the new URL")]
    Downgrade {
        /// The request's URL.
        from: String,
        /// Where it would have gone.
        to: String,
    },
    /// A method that must not be repeated without asking, or not at another origin.
    #[error("{from} redirects to {to} ({status}), but {method} is not redirected automatically; use the new URL")]
    Unsafe {
        /// The request's method.
        method: Method,
        /// The request's URL.
        from: String,
        /// Where it would have gone.
        to: String,
        /// The answer's status.
        status: StatusCode,
    },
}

/// What follows an answer of `status` with `location` to a request that was redirected `followed` times before.
/// Nothing if the answer is no redirect; 300, 304 and 305 are none that a program could follow.
pub fn redirect(
    method: &Method,
    uri: &Uri,
    status: StatusCode,
    location: Option<&[u8]>,
    followed: u32,
) -> Option<Result<Follow, Stop>> {
    let same = match status.as_u16() {
        301 | 302 => is_safe(method),
        303 => false,
        307 | 308 => is_safe(method) || is_idempotent(method),
        _ => return None,
    };
    Some((|| {
        let nowhere = || Stop::Nowhere { method: method.clone(), from: uri.to_string(), status };
        if followed >= MOST_REDIRECTS {
            return Err(Stop::TooMany { from: uri.to_string() });
        }
        let target = location.and_then(|location| resolve(uri, location)).ok_or_else(nowhere)?;
        let to = target.to_string();
        let here = Origin::of(uri).map_err(|_| nowhere())?;
        let there = Origin::of(&target).map_err(|_| nowhere())?;
        if here.is_tls() && !there.is_tls() {
            return Err(Stop::Downgrade { from: uri.to_string(), to });
        }
        let keep_credentials = here == there;
        let method = match status {
            _ if same && (keep_credentials || is_safe(method)) => method.clone(),
            // What was asked for can be had there, by GET (RFC 9110 §15.4.4).
            StatusCode::SEE_OTHER if *method == Method::HEAD => Method::HEAD,
            StatusCode::SEE_OTHER if is_safe(method) => Method::GET,
            _ => return Err(Stop::Unsafe { method: method.clone(), from: uri.to_string(), to, status }),
        };
        Ok(Follow { uri: target, method, keep_credentials })
    })())
}

impl Follow {
    /// Takes out of a request's headers what must not follow: what proves who asks, if it goes to another origin,
    /// and what describes a body that is not sent (RFC 9110 §15.4, items 3 and 5 of its list).
    pub fn prune(&self, first: &Method, headers: &mut HeaderMap) {
        if !self.keep_credentials {
            for name in [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION] {
                headers.remove(name);
            }
        }
        if self.method != *first {
            let of_body: Vec<HeaderName> = headers
                .keys()
                .filter(|name| {
                    let name = name.as_str();
                    name.starts_with("content-")
                        || matches!(name, "digest" | "repr-digest" | "last-modified" | "transfer-encoding" | "depth")
                })
                .cloned()
                .collect();
            for name in of_body {
                headers.remove(name);
            }
        }
    }
}

/// RFC 3986 §5, as browsers do it: bytes that a URL may not hold are escaped rather than refused.
fn resolve(base: &Uri, location: &[u8]) -> Option<Uri> {
    let mut target = Url::parse(&base.to_string()).ok()?.join(str::from_utf8(location).ok()?).ok()?;
    target.set_fragment(None);
    if !target.username().is_empty() || target.password().is_some() {
        target.set_username("").ok()?;
        target.set_password(None).ok()?;
    }
    target.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn go(method: &str, from: &str, status: u16, to: &str) -> Result<(String, String, bool), Stop> {
        let (method, from) = (method.parse().unwrap(), from.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        redirect(&method, &from, status, Some(to.as_bytes()), 0)
            .unwrap()
            .map(|follow| (follow.method.to_string(), follow.uri.to_string(), follow.keep_credentials))
    }

    fn to(method: &str, uri: &str, keeps: bool) -> (String, String, bool) {
        (method.into(), uri.into(), keeps)
    }

    #[test]
    fn safe_methods_follow_as_they_are() {
        for status in [301, 302, 307, 308] {
            for method in ["GET", "HEAD", "PROPFIND"] {
                assert_eq!(go(method, "http://a/b", status, "/b/").unwrap(), to(method, "http://a/b/", true));
            }
        }
        assert_eq!(go("GET", "http://a/b", 303, "c").unwrap(), to("GET", "http://a/c", true));
        assert_eq!(go("HEAD", "http://a/b", 303, "c").unwrap(), to("HEAD", "http://a/c", true));
        assert_eq!(go("REPORT", "http://a/b", 303, "c").unwrap(), to("GET", "http://a/c", true));
    }

    #[test]
    fn what_changes_something_follows_only_if_it_stays_itself_and_may_be_repeated() {
        for method in ["PUT", "DELETE", "MKCOL", "PROPPATCH", "MOVE"] {
            for status in [307, 308] {
                assert_eq!(go(method, "http://a/b", status, "/c").unwrap(), to(method, "http://a/c", true));
            }
        }
        for (method, status) in [("PUT", 301), ("PUT", 302), ("PUT", 303), ("POST", 307), ("LOCK", 308), ("POST", 303)]
        {
            assert!(matches!(go(method, "http://a/b", status, "/c"), Err(Stop::Unsafe { .. })), "{method} {status}");
        }
    }

    #[test]
    fn what_changes_something_stays_at_its_origin() {
        for method in ["PUT", "DELETE", "MKCOL", "PROPPATCH", "MOVE"] {
            for location in ["http://other/d", "http://a:81/d", "https://a/b"] {
                for status in [307, 308] {
                    let stop = go(method, "http://a/b", status, location).unwrap_err();
                    assert!(matches!(stop, Stop::Unsafe { .. }), "{method} {location}");
                    assert!(stop.to_string().contains(location), "{stop}");
                }
            }
        }
        assert_eq!(go("PROPFIND", "http://a/b", 308, "https://a/b").unwrap(), to("PROPFIND", "https://a/b", false));
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        for (location, keeps) in [
            ("http://a:80/x", true),
            ("https://a/x", false),
            ("http://a:81/x", false),
            ("//b/x", false),
            ("http://a.b/x", false),
            ("http://a@b/x", false),
        ] {
            let (_, uri, kept) = go("GET", "http://A/b", 302, location).unwrap();
            assert_eq!(kept, keeps, "{location}");
            assert!(!uri.contains('@'));
        }
    }

    #[test]
    fn tls_is_not_left() {
        assert!(matches!(go("GET", "https://a/b", 301, "http://a/b"), Err(Stop::Downgrade { .. })));
    }

    #[test]
    fn nowhere_is_not_followed() {
        for location in ["ftp://a/", "javascript:1", "http://", "http://a:99999/", "mailto:a@b"] {
            assert!(matches!(go("GET", "http://a/b", 302, location), Err(Stop::Nowhere { .. })), "{location}");
        }
        let (method, uri) = (Method::GET, Uri::from_static("http://a/b"));
        let ask = |status, followed| redirect(&method, &uri, status, None, followed);
        assert!(matches!(ask(StatusCode::FOUND, 0), Some(Err(Stop::Nowhere { .. }))));
        assert!(matches!(ask(StatusCode::FOUND, MOST_REDIRECTS), Some(Err(Stop::TooMany { .. }))));
        assert_eq!(ask(StatusCode::NOT_MODIFIED, 0), None);
        assert_eq!(ask(StatusCode::OK, 0), None);
    }

    #[test]
    fn a_location_is_taken_as_servers_write_it() {
        for (location, uri) in [
            ("../x#part", "http://a/x"),
            ("?q", "http://a/b/c?q"),
            ("/\u{e4} b", "http://a/%C3%A4%20b"),
            ("http://a/../../x", "http://a/x"),
        ] {
            assert_eq!(go("GET", "http://a/b/c", 302, location).unwrap().1, uri);
        }
    }

    #[test]
    fn headers_of_what_stays_behind_are_taken_out() {
        let names = ["authorization", "cookie", "content-type", "depth", "accept"];
        let left = |method: &str, keep_credentials| {
            let mut headers: HeaderMap =
                names.iter().map(|name| (name.parse().unwrap(), "x".parse().unwrap())).collect();
            let follow = Follow { uri: Uri::from_static("http://a/"), method: Method::GET, keep_credentials };
            follow.prune(&method.parse().unwrap(), &mut headers);
            headers.len()
        };
        assert_eq!(
            (left("GET", true), left("GET", false), left("PROPFIND", true), left("PROPFIND", false)),
            (5, 3, 3, 1)
        );
    }

    proptest! {
        #[test]
        fn any_location_is_followed_or_not(location in proptest::collection::vec(any::<u8>(), 0..60), prefix in "|/|//|http://|https://a|\\.\\./") {
            let location = [prefix.as_bytes(), &location].concat();
            let from = Uri::from_static("https://a/b");
            let next = redirect(&Method::GET, &from, StatusCode::FOUND, Some(&location), 0).unwrap();
            if let Ok(next) = next {
                let there = Origin::of(&next.uri).unwrap();
                prop_assert!(there.is_tls());
                prop_assert_eq!(next.keep_credentials, there == Origin::of(&from).unwrap());
            }
        }
    }
}
