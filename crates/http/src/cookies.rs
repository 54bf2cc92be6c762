//! Cookies, for clients that enable them.
//!
//! Some servers check a password slowly on purpose, once per session: with their cookie, only the first request is
//! slow. The `cookie_store` crate handles paths, `Secure` and expiry (RFC 6265 §5.3, §5.4). Each origin has its own
//! jar, so a cookie never reaches another host, scheme or port, whatever its `Domain`. Cookies are not written to disk,
//! and `SameSite` does not apply to a program without web pages.

use std::{collections::HashMap, fmt};

use cookie_store::{CookieStore, RawCookie};
use http::{HeaderMap, HeaderValue, Uri, header};
use url::Url;

use crate::Origin;

/// A cookie jar per origin.
#[derive(Default)]
pub struct Cookies(HashMap<Origin, CookieStore>);

impl Cookies {
    /// Stores the cookies in a response from `uri`.
    pub fn keep(&mut self, uri: &Uri, answer: &HeaderMap) {
        let mut set = answer.get_all(header::SET_COOKIE).iter().filter_map(|line| line.to_str().ok()).peekable();
        if set.peek().is_none() {
            return;
        }
        let (Ok(origin), Ok(url)) = (Origin::of(uri), Url::parse(&uri.to_string())) else { return };
        let cookies = set.filter_map(|line| RawCookie::parse(line.to_owned()).ok());
        self.0.entry(origin).or_default().store_response_cookies(cookies, &url);
    }

    /// Adds the cookies for a request to `uri`, unless it has a `Cookie` header already.
    pub fn add(&self, uri: &Uri, headers: &mut HeaderMap) {
        if headers.contains_key(header::COOKIE) {
            return;
        }
        let Some(jar) = Origin::of(uri).ok().and_then(|origin| self.0.get(&origin)) else { return };
        let Ok(url) = Url::parse(&uri.to_string()) else { return };
        let pairs: Vec<String> = jar.get_request_values(&url).map(|(name, value)| format!("{name}={value}")).collect();
        if let (false, Ok(mut value)) = (pairs.is_empty(), HeaderValue::try_from(pairs.join("; "))) {
            value.set_sensitive(true);
            headers.insert(header::COOKIE, value);
        }
    }
}

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(cookies: &mut Cookies, uri: &'static str, lines: &[&str]) {
        let answer = lines.iter().map(|line| (header::SET_COOKIE, line.parse().unwrap())).collect();
        cookies.keep(&Uri::from_static(uri), &answer);
    }

    fn sent(cookies: &Cookies, uri: &'static str) -> String {
        let mut headers = HeaderMap::new();
        cookies.add(&Uri::from_static(uri), &mut headers);
        let mut pairs: Vec<_> =
            headers.get(header::COOKIE).map_or("", |value| value.to_str().unwrap()).split("; ").collect();
        pairs.sort_unstable();
        pairs.join(" ")
    }

    #[test]
    fn cookie_is_sent_only_to_its_origin_and_path() {
        let mut cookies = Cookies::default();
        keep(
            &mut cookies,
            "https://a.org/dav/x",
            &["s=1; Path=/dav; HttpOnly", "t=2; Domain=a.org; Path=/", "u=3; Domain=b.org"],
        );
        assert_eq!(sent(&cookies, "https://a.org/dav/y?z"), "s=1 t=2");
        assert_eq!(sent(&cookies, "https://a.org/"), "t=2");
        for elsewhere in ["http://a.org/", "https://a.org:444/", "https://www.a.org/", "https://b.org/"] {
            assert_eq!(sent(&cookies, elsewhere), "", "{elsewhere}");
        }
        keep(&mut cookies, "https://a.org/", &["t=; Max-Age=0; Domain=a.org; Path=/"]);
        assert_eq!(sent(&cookies, "https://a.org/"), "");
    }

    #[test]
    fn secure_cookie_needs_tls_and_no_cookie_is_printed() {
        let mut cookies = Cookies::default();
        keep(&mut cookies, "http://a.org/", &["s=hunter2; Secure", "", "=", "t"]);
        assert!(!sent(&cookies, "http://a.org/").contains("hunter2"));
        keep(&mut cookies, "https://a.org/", &["s=hunter2"]);
        assert!(!format!("{cookies:?}").contains("hunter2"));
    }

    #[test]
    fn the_requests_own_header_wins() {
        let mut cookies = Cookies::default();
        keep(&mut cookies, "https://a.org/", &["s=1"]);
        let mut headers = HeaderMap::from_iter([(header::COOKIE, "own=1".parse().unwrap())]);
        cookies.add(&Uri::from_static("https://a.org/"), &mut headers);
        assert_eq!(headers[header::COOKIE], "own=1");
    }
}
