//! The proxy settings in environment variables.
//!
//! There is no standard; this follows curl (`curl --manual`, "ENVIRONMENT"). `http_proxy` counts in lower case only,
//! because a CGI program finds its client's header `Proxy` in `HTTP_PROXY` (<https://httpoxy.org>). The others have two
//! spellings, and the lower-case one wins. There are two differences from curl: a proxy without a port is at its
//! scheme's default (80, 443), not at 1080; and loopback addresses are reached without a proxy, as in browsers.
//!
//! `hyper-util`'s proxy matcher was rejected: its `NO_PROXY` knows no ports and no spaces between entries, it ignores
//! an invalid proxy silently (and so connects directly), and it prefers the upper-case variables.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::{Proxy, exceptions::Exceptions};
use crate::{error::SettingsError, origin::Origin};

/// Which HTTP proxy to use for which origins. The default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    except: Exceptions,
}

impl Proxies {
    /// Reads the variables `https_proxy` or `HTTPS_PROXY` for `https` origins, `http_proxy` for `http`, `all_proxy` or
    /// `ALL_PROXY` if those are not set, and `no_proxy` or `NO_PROXY` for exceptions. An empty variable counts as
    /// unset. A proxy is `[http://|https://][USER[:PASSWORD]@]HOST[:PORT]`, with user and password percent-encoded.
    /// Exceptions are separated by commas or spaces: `example.org` or `.example.org` (both with all subdomains),
    /// `192.0.2.1`, `[2001:db8::1]`, `10.0.0.0/8`, `*`; names and addresses may have a `:PORT`.
    ///
    /// ```
    /// # use transport::Proxies;
    /// let proxies = Proxies::from_environment(|name| std::env::var(name).ok());
    /// ```
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|&name| variable(name).filter(|value| !value.is_empty()).map(|value| (name, value)))
        };
        let proxy = |names: &[&'static str]| {
            first(names).map(|(name, value)| proxy(value.trim()).map_err(|why| unusable(name, why))).transpose()
        };
        let all = proxy(&["all_proxy", "ALL_PROXY"])?;
        Ok(Self {
            http: proxy(&["http_proxy"])?.or_else(|| all.clone()),
            https: proxy(&["https_proxy", "HTTPS_PROXY"])?.or(all),
            except: match first(&["no_proxy", "NO_PROXY"]) {
                Some((name, value)) => value.parse().map_err(|why| unusable(name, why))?,
                None => Exceptions::default(),
            },
        })
    }

    /// The proxy for this origin; none for loopback, which is not the proxy's loopback, and to which passwords may go
    /// unencrypted.
    pub(crate) fn of(&self, origin: &Origin) -> Option<&Proxy> {
        let proxy = if origin.is_tls() { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !origin.is_loopback() && !self.except.contain(origin.host(), origin.port()))
    }
}

fn unusable(variable: &'static str, why: String) -> SettingsError {
    SettingsError::Variable { variable, why }
}

/// Parses a proxy's URL. Errors do not quote it, because it may hold a password.
fn proxy(value: &str) -> Result<Proxy, String> {
    let url = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    let no_url = || "it is not a proxy URL such as http://proxy.example.org:3128".to_owned();
    let url: Uri = url.parse().map_err(|_| no_url())?;
    if let Some(scheme) = url.scheme_str()
        && !matches!(scheme, "http" | "https")
    {
        return Err(format!("{scheme} proxies are not supported, only http and https"));
    }
    let at = Origin::of(&url).map_err(|error| format!("{}: {}", no_url(), error.why))?;
    let user = url.authority().and_then(|authority| authority.as_str().rsplit_once('@')).map(|(user, _)| user);
    Ok(Proxy { at, authorization: user.map(basic).transpose()? })
}

/// `Basic` credentials (RFC 7617) from a URL's `USER:PASSWORD`.
fn basic(user: &str) -> Result<HeaderValue, String> {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let mut pair: Vec<u8> = percent_decode_str(user).collect();
    if pair.contains(&b':') {
        return Err("Basic credentials allow no colon in the user name (RFC 7617)".into());
    }
    pair.push(b':');
    pair.extend(percent_decode_str(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        .map_err(|_| "its user and password cannot be sent in a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Proxies, SettingsError> {
        Proxies::from_environment(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn via(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.of(&Origin::of(&url.parse().unwrap()).unwrap()).map(|proxy| proxy.at.to_string())
    }

    #[test]
    fn all_proxy_applies_to_schemes_without_their_own() {
        let proxies = from(&[("HTTPS_PROXY", "proxy:3128"), ("ALL_PROXY", "https://other")]).unwrap();
        assert_eq!(via(&proxies, "https://a/").unwrap(), "http://proxy:3128");
        assert_eq!(via(&proxies, "http://a/").unwrap(), "https://other");
        let proxies = from(&[("https_proxy", "low"), ("HTTPS_PROXY", "high"), ("all_proxy", "")]).unwrap();
        assert_eq!(via(&proxies, "https://a/").unwrap(), "http://low");
        assert_eq!(via(&proxies, "http://a/"), None);
    }

    #[test]
    fn upper_case_http_proxy_is_ignored() {
        assert_eq!(via(&from(&[("HTTP_PROXY", "evil")]).unwrap(), "http://a/"), None);
        assert!(via(&from(&[("http_proxy", "good")]).unwrap(), "http://a/").is_some());
    }

    #[test]
    fn no_proxy_is_honoured() {
        let proxies = from(&[("all_proxy", "p"), ("NO_PROXY", "example.org, 10.0.0.0/8")]).unwrap();
        assert_eq!(via(&proxies, "https://www.example.org/"), None);
        assert_eq!(via(&proxies, "http://10.1.2.3/"), None);
        assert!(via(&proxies, "https://example.com/").is_some());
    }

    #[test]
    fn loopback_is_reached_directly() {
        let proxies = from(&[("http_proxy", "p"), ("all_proxy", "p")]).unwrap();
        for here in ["http://localhost/", "https://Dev.localhost:8443/", "http://127.1.2.3:8080/", "http://[::1]/"] {
            assert_eq!(via(&proxies, here), None, "{here}");
        }
        for there in ["http://localhost.example.org/", "http://notlocalhost/", "https://128.0.0.1/"] {
            assert!(via(&proxies, there).is_some(), "{there}");
        }
    }

    #[test]
    fn credentials_are_decoded_sent_and_never_printed() {
        let proxies = from(&[("https_proxy", "http://me:s%40crt%3A@proxy:8080/")]).unwrap();
        let proxy = proxies.https.as_ref().unwrap();
        let sent = proxy.authorization.as_ref().unwrap();
        assert_eq!(sent.as_bytes(), format!("Basic {}", BASE64_STANDARD.encode("me:s@crt:")).as_bytes());
        assert!(sent.is_sensitive());
        let shown = format!("{proxies:?} {} {:?}", proxy.cause("no"), proxy.cause("no"));
        assert!(!shown.contains("crt") && !shown.contains("bWU6"), "{shown}");
        assert!(basic("me%3Atoo:secret").is_err());
    }

    #[test]
    fn error_names_the_variable_and_not_its_value() {
        for (value, why) in [
            ("socks5://me:secret@proxy:1080", "socks5"),
            ("http://me:secret@", "not a proxy URL"),
            ("http://me:sec ret@proxy", "not a proxy URL"),
            ("secret:secret:secret", "not a proxy URL"),
            ("http://me%3A:secret@proxy", "colon"),
        ] {
            let told = from(&[("HTTPS_PROXY", value)]).unwrap_err().to_string();
            assert!(told.contains("HTTPS_PROXY") && told.contains(why), "{told}");
            assert!(!told.contains("secret") && !told.contains("sec ret"), "{told}");
        }
    }
}
