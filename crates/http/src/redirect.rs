//! Redirects (RFC 9110 §15.4).
//!
//! A redirect is followed only as far as the server may decide: to another path freely, to another origin without
//! credentials, from `https` to `http` never. A method that is not safe follows only a 307 or 308, and only if it is
//! idempotent; and never to another origin, where it would use that origin's credentials: one server could have files
//! of another overwritten and deleted. `http` and `https` are different origins too, because anybody can forge an
//! unencrypted redirect.

use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use url::Url;

use crate::{Origin, is_idempotent, is_safe};

/// The maximum number of redirects, as in browsers.
pub const MAX_REDIRECTS: u32 = 10;

/// The next request after a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Its URL, without fragment, user and password.
    pub uri: Uri,
    /// Its method. If it differs from the redirected one, the body is not sent.
    pub method: Method,
    /// Whether it goes to the same origin. If not, credentials and cookies are removed.
    pub keep_credentials: bool,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// It has no valid `Location`.
    #[error("{method} {from}: redirect without a valid Location ({status})")]
    Nowhere {
        /// The request's method.
        method: Method,
        /// The request's URL.
        from: String,
        /// The status.
        status: StatusCode,
    },
    /// There were too many.
    #[error("{from}: more than {MAX_REDIRECTS} redirects")]
    TooMany {
        /// The URL that was redirected last.
        from: String,
    },
    /// From `https` to `http`.
    #[error("{from} redirects to {to}, which is not encrypted; to accept that, use the new URL")]
    Downgrade {
        /// The request's URL.
        from: String,
        /// The target.
        to: String,
    },
    /// The method must not be repeated automatically, or not at another origin.
    #[error("{from} redirects to {to} ({status}), but {method} is not redirected automatically; use the new URL")]
    Unsafe {
        /// The request's method.
        method: Method,
        /// The request's URL.
        from: String,
        /// The target.
        to: String,
        /// The status.
        status: StatusCode,
    },
}

/// The next request after a response of `status` with `location`, to a request that was redirected `followed` times
/// before. `None` if the response is no redirect; 300, 304 and 305 count as none.
pub fn redirect(
    method: &Method,
    uri: &Uri,
    status: StatusCode,
    location: Option<&[u8]>,
    followed: u32,
) -> Option<Result<Redirect, RedirectError>> {
    let same = match status.as_u16() {
        301 | 302 => is_safe(method),
        303 => false,
        307 | 308 => is_safe(method) || is_idempotent(method),
        _ => return None,
    };
    Some((|| {
        let nowhere = || RedirectError::Nowhere { method: method.clone(), from: uri.to_string(), status };
        if followed >= MAX_REDIRECTS {
            return Err(RedirectError::TooMany { from: uri.to_string() });
        }
        let target = location.and_then(|location| resolve(uri, location)).ok_or_else(nowhere)?;
        let to = target.to_string();
        let here = Origin::of(uri).map_err(|_| nowhere())?;
        let there = Origin::of(&target).map_err(|_| nowhere())?;
        if here.is_tls() && !there.is_tls() {
            return Err(RedirectError::Downgrade { from: uri.to_string(), to });
        }
        let keep_credentials = here == there;
        let method = match status {
            _ if same && (keep_credentials || is_safe(method)) => method.clone(),
            // 303 refers to a resource that a GET retrieves (RFC 9110 §15.4.4).
            StatusCode::SEE_OTHER if *method == Method::HEAD => Method::HEAD,
            StatusCode::SEE_OTHER if is_safe(method) => Method::GET,
            _ => return Err(RedirectError::Unsafe { method: method.clone(), from: uri.to_string(), to, status }),
        };
        Ok(Redirect { uri: target, method, keep_credentials })
    })())
}

impl Redirect {
    /// Removes the headers that must not follow a redirect: credentials, if it leads to another origin, and the
    /// description of a body that is not sent (RFC 9110 §15.4, items 3 and 5 of its list).
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

/// Resolves a reference (RFC 3986 §5) as browsers do: invalid characters are escaped, not rejected.
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

    fn go(method: &str, from: &str, status: u16, to: &str) -> Result<(String, String, bool), RedirectError> {
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
    fn safe_methods_follow_redirects_unchanged() {
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
    fn unsafe_method_follows_only_307_and_308_and_only_if_idempotent() {
        for method in ["PUT", "DELETE", "MKCOL", "PROPPATCH", "MOVE"] {
            for status in [307, 308] {
                assert_eq!(go(method, "http://a/b", status, "/c").unwrap(), to(method, "http://a/c", true));
            }
        }
        for (method, status) in [("PUT", 301), ("PUT", 302), ("PUT", 303), ("POST", 307), ("LOCK", 308), ("POST", 303)]
        {
            assert!(
                matches!(go(method, "http://a/b", status, "/c"), Err(RedirectError::Unsafe { .. })),
                "{method} {status}"
            );
        }
    }

    #[test]
    fn unsafe_method_does_not_follow_to_another_origin() {
        for method in ["PUT", "DELETE", "MKCOL", "PROPPATCH", "MOVE"] {
            for location in ["http://other/d", "http://a:81/d", "https://a/b"] {
                for status in [307, 308] {
                    let stop = go(method, "http://a/b", status, location).unwrap_err();
                    assert!(matches!(stop, RedirectError::Unsafe { .. }), "{method} {location}");
                    assert!(stop.to_string().contains(location), "{stop}");
                }
            }
        }
        assert_eq!(go("PROPFIND", "http://a/b", 308, "https://a/b").unwrap(), to("PROPFIND", "https://a/b", false));
    }

    #[test]
    fn credentials_are_not_sent_to_another_origin() {
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
    fn redirect_from_https_to_http_is_refused() {
        assert!(matches!(go("GET", "https://a/b", 301, "http://a/b"), Err(RedirectError::Downgrade { .. })));
    }

    #[test]
    fn redirect_without_a_usable_location_is_refused() {
        for location in ["ftp://a/", "javascript:1", "http://", "http://a:99999/", "mailto:a@b"] {
            assert!(matches!(go("GET", "http://a/b", 302, location), Err(RedirectError::Nowhere { .. })), "{location}");
        }
        let (method, uri) = (Method::GET, Uri::from_static("http://a/b"));
        let ask = |status, followed| redirect(&method, &uri, status, None, followed);
        assert!(matches!(ask(StatusCode::FOUND, 0), Some(Err(RedirectError::Nowhere { .. }))));
        assert!(matches!(ask(StatusCode::FOUND, MAX_REDIRECTS), Some(Err(RedirectError::TooMany { .. }))));
        assert_eq!(ask(StatusCode::NOT_MODIFIED, 0), None);
        assert_eq!(ask(StatusCode::OK, 0), None);
    }

    #[test]
    fn location_may_be_unencoded_or_relative() {
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
    fn redirect_prunes_credentials_and_headers_of_the_old_method() {
        let names = ["authorization", "cookie", "content-type", "depth", "accept"];
        let left = |method: &str, keep_credentials| {
            let mut headers: HeaderMap =
                names.iter().map(|name| (name.parse().unwrap(), "x".parse().unwrap())).collect();
            let follow = Redirect { uri: Uri::from_static("http://a/"), method: Method::GET, keep_credentials };
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
        fn any_location_is_handled_without_panic(location in proptest::collection::vec(any::<u8>(), 0..60), prefix in "|/|//|http://|https://a|\\.\\./") {
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
