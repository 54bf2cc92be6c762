//! Parses arguments: local paths and URLs.
//!
//! URLs with a known scheme are remote, and so are paths on named servers of the settings file (`cloud:photos`); everything
//! else is local. `dav` and `davs` are aliases of `http` and `https` that file managers use. Names need not be
//! percent-encoded, but may be. The sources of a command may have wildcards ([`dav::Pattern`]); everything else refuses
//! them, so that no command takes a pattern for a name.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

use dav::{Pattern, RemotePath};
use haul_http::{Origin, auth};

use crate::files::session::settings;
use crate::usage;

/// A local or remote file or folder.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    Local(PathBuf),
    Remote(Remote),
}

/// A file or folder on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) origin: Origin,
    /// With a pattern, the folder in front of its first wildcard.
    pub(crate) path: RemotePath,
    pub(crate) pattern: Option<Pattern>,
    /// The user name in the URL.
    pub(crate) user: Option<String>,
}

impl Remote {
    /// Whether both are on the same server, for the same user.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        (&self.origin, &self.user) == (&other.origin, &other.user)
    }
}

impl Location {
    /// The remote location, if it is one.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Remote(remote) => Some(remote),
            Self::Local(_) => None,
        }
    }

    /// The local path, if it is one.
    pub(crate) fn here(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            Self::Remote(_) => None,
        }
    }
}

/// Why an argument is invalid. The message never quotes a possible password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unusable {}

fn unusable<T>(why: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable(why.into()))
}

/// Parses sources and, as the last argument, their target. (Not as a clap parser, which would quote invalid values, possibly
/// with a password.)
pub(crate) fn locations(texts: &[String]) -> Result<Vec<Location>, Box<dyn Error>> {
    let last = texts.len().saturating_sub(1);
    let parse = |(number, text): (usize, &String)| if number == last { location(text) } else { source(text) };
    texts.iter().enumerate().map(|text| parse(text).map_err(usage)).collect()
}

/// Parses arguments that must be remote.
pub(crate) fn remote_locations(texts: &[String]) -> Result<Vec<Remote>, Box<dyn Error>> {
    texts.iter().map(|text| remote(text).map_err(usage)).collect()
}

/// The same, with wildcards.
pub(crate) fn remote_patterns(texts: &[String]) -> Result<Vec<Remote>, Box<dyn Error>> {
    texts.iter().map(|text| remote_pattern(text).map_err(usage)).collect()
}

/// Parses an argument without wildcards.
pub(crate) fn location(text: &str) -> Result<Location, Unusable> {
    match source(text)? {
        Location::Remote(remote) => literal(remote).map(Location::Remote),
        local @ Location::Local(_) => Ok(local),
    }
}

/// Parses a URL without wildcards.
pub(crate) fn remote(text: &str) -> Result<Remote, Unusable> {
    remote_pattern(text).and_then(literal)
}

fn literal(remote: Remote) -> Result<Remote, Unusable> {
    let Some(pattern) = &remote.pattern else { return Ok(remote) };
    let (sign, code) = if pattern.text().contains('*') { ('*', "%2A") } else { ('[', "%5B") };
    let text = dav::terminal_safe(pattern.text().as_bytes());
    unusable(format!("{text}: no wildcards are possible here; write `{sign}` in a name as {code}"))
}

/// Parses an argument that may have wildcards.
fn source(text: &str) -> Result<Location, Unusable> {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
    match (scheme.as_str(), text.contains("://")) {
        ("http" | "https" | "dav" | "davs", true) => remote_pattern(text).map(Location::Remote),
        ("http" | "https" | "dav" | "davs", false) => {
            unusable(format!("write `//` after `{scheme}:`, as in {scheme}://example.org/folder/"))
        }
        (other, true) if !other.is_empty() && !other.contains('/') => {
            unusable(format!("unsupported scheme `{}://`; use https:// or http://", other.escape_debug()))
        }
        ("", _) if text.is_empty() => unusable("the name is empty"),
        _ => Ok(match named(text)? {
            Some(remote) => Location::Remote(remote),
            None => Location::Local(PathBuf::from(text)),
        }),
    }
}

/// A path on a named server, as in `cloud:photos/2024`.
fn named(text: &str) -> Result<Option<Remote>, Unusable> {
    let Some((name, rest)) = text.split_once(':').filter(|(name, _)| settings::is_server_name(name)) else {
        return Ok(None);
    };
    let Some(server) = settings::server(name).map_err(Unusable)? else { return Ok(None) };
    if !server.url.contains("://") {
        return unusable(format!("[servers.{name}] in the settings file: the url must begin with https:// or http://"));
    }
    let folder =
        remote(&server.url).map_err(|why| Unusable(format!("[servers.{name}] in the settings file: {why}")))?;
    let path = format!("{}/{rest}", folder.path.target().trim_end_matches('/'));
    if let Some(sign) = text.chars().find(|char| matches!(char, '?' | '#')) {
        let code = if sign == '?' { "%3F" } else { "%23" };
        return unusable(format!("a file URL has no query or fragment; write `{sign}` in a name as {code}"));
    }
    let (path, pattern) = parse_path(&path)?;
    Ok(Some(Remote { path, pattern, user: folder.user.or(server.user), ..folder }))
}

/// Whether the text begins like a URL without a scheme.
fn is_host(text: &str) -> bool {
    let authority = text.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    !authority.starts_with('.')
        && host.contains(['.', ':'])
        && format!("https://{text}").parse::<http::Uri>().is_ok()
        && !authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

fn remote_pattern(text: &str) -> Result<Remote, Unusable> {
    let known = text.split_once("://").and_then(|(scheme, rest)| match scheme.to_ascii_lowercase().as_str() {
        "http" | "dav" => Some(("http", rest)),
        "https" | "davs" => Some(("https", rest)),
        _ => None,
    });
    let Some((scheme, rest)) = known else {
        if let Location::Remote(remote) = source(text)? {
            return Ok(remote);
        }
        let like = if is_host(text) { text } else { "HOST/PATH" };
        return unusable(format!("`{}` is not a URL; write https://{}", text.escape_debug(), like.escape_debug()));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let no_host = || Unusable(format!("invalid host `{}`", host.escape_debug()));
    let url = format!("{scheme}://{authority}/").parse().map_err(|_| no_host())?;
    let (url, userinfo) = auth::take_userinfo(&url).map_err(|error| Unusable(error.to_string()))?;
    if userinfo.as_ref().is_some_and(|who| who.password.is_some()) {
        return unusable(format!(
            "the URL of {host} contains a password, which other users can see in the process list; \
             put it into ~/.netrc, HAUL_PASSWORD or a file for --password-file"
        ));
    }
    let origin = Origin::of(&url).map_err(|error| Unusable(error.to_string()))?;
    if let Some(sign) = path.chars().find(|char| matches!(char, '?' | '#')) {
        let code = if sign == '?' { "%3F" } else { "%23" };
        return unusable(format!("a file URL has no query or fragment; write `{sign}` in a name as {code}"));
    }
    let (path, pattern) = parse_path(if path.is_empty() { "/" } else { path })?;
    Ok(Remote { origin, path, pattern, user: userinfo.map(|who| who.user) })
}

/// A path, or the folder in front of a pattern, and the pattern.
fn parse_path(text: &str) -> Result<(RemotePath, Option<Pattern>), Unusable> {
    let why = |error: dav::PathError| Unusable(error.to_string().replace(": left out", ""));
    match Pattern::from_url_path(text).map_err(why)? {
        Some(pattern) => Ok((pattern.base().clone(), Some(pattern))),
        None => Ok((RemotePath::from_url_path(text).map_err(why)?, None)),
    }
}

/// The single server of all locations.
pub(crate) fn single_server<'a>(places: impl IntoIterator<Item = &'a Remote>) -> Result<&'a Remote, Box<dyn Error>> {
    let mut places = places.into_iter();
    let first = places.next().ok_or_else(|| usage("give a URL"))?;
    match places.find(|place| (&place.origin, &place.user) != (&first.origin, &first.user)) {
        None => Ok(first),
        Some(other) => Err(usage(format_args!(
            "{} and {} are different servers or users; run the command once for each",
            first.origin, other.origin
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_remote_and_other_paths_local() {
        for here in ["a", "./a b", "/x", "c:\\x", "me@host:/x", "a/b:c", "a/b://c", ".", "-"] {
            assert!(matches!(location(here), Ok(Location::Local(path)) if *path == *here), "{here}");
        }
        for (text, url) in [
            ("http://h", "http://h/"),
            ("HTTPS://H:443/a b/", "https://h/a%20b/"),
            ("dav://h:8080/é", "http://h:8080/%C3%A9"),
            ("davs://[::1]/100%", "https://[::1]/100%25"),
            ("https://h//a%20b", "https://h/a%20b"),
        ] {
            let Ok(Location::Remote(remote)) = location(text) else { panic!("{text}") };
            assert_eq!(format!("{}{}", remote.origin, remote.path.target()), url);
        }
        assert_eq!(remote("https://me%40home@h/").unwrap().user.as_deref(), Some("me@home"));
    }

    #[test]
    fn invalid_url_error_explains_without_the_password() {
        for (text, said) in [
            ("https://me:hunter2@h/a", "process list"),
            ("https://me:@h/a", "process list"),
            ("http:/h/a", "write `//`"),
            ("ftp://me:hunter2@h/", "`ftp://`"),
            ("https://", "invalid host"),
            ("https://me:hunter2@/", "invalid host"),
            ("https://a b/", "invalid host"),
            ("https://h/a?b", "%3F"),
            ("https://h/a#b", "%23"),
            ("https://h?b", "%3F"),
            ("https://h/a/../b", "`..`"),
            ("https://h/a%2Fb", "%2F"),
            ("https://h/a*", "%2A"),
            ("https://h/a[1]", "%5B"),
            ("", "empty"),
        ] {
            let why = location(text).unwrap_err().to_string();
            assert!(why.contains(said) && !why.contains("hunter2") && !why.contains('\n'), "{text}: {why}");
        }
        for (text, like) in [
            ("a/b", "HOST/PATH"),
            ("../a.b", "HOST/PATH"),
            ("h.example/a", "h.example/a"),
            ("localhost:8080", "localhost:8080"),
        ] {
            assert!(remote(text).unwrap_err().to_string().ends_with(&format!("write https://{like}")), "{text}");
        }
    }

    #[test]
    fn locations_on_two_servers_are_refused() {
        let of = |texts: &[&str]| {
            let places: Vec<_> = texts.iter().map(|text| remote(text).unwrap()).collect();
            single_server(&places).map(|first| first.origin.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(of(&["http://a/x", "http://A:80/y"]).unwrap(), "http://a");
        assert!(of(&["http://a/x", "https://a/y"]).unwrap_err().contains("https://a"));
        assert!(of(&["http://a/x", "http://me@a/y"]).is_err());
    }
}
