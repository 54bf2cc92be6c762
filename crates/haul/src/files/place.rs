//! Parses arguments: local paths and URLs.
//!
//! A URL of a known scheme is there, and so is what a server of the settings file is named for (`cloud:photos`);
//! everything else is here. `dav` and `davs` are other names for `http` and `https`,
//! which file managers use. What people write is taken as they write it: names with spaces and letters of any language
//! need not be percent-encoded, though they may be.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

use dav::RemotePath;
use haul_http::{Origin, auth};

use super::settings;
use crate::usage;

/// A file or folder, here or there.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Here(PathBuf),
    There(Remote),
}

/// A file or folder on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) origin: Origin,
    pub(super) path: RemotePath,
    /// Who asks, if the URL says so.
    pub(super) user: Option<String>,
}

impl Remote {
    /// Whether it is on the same server, for the same user.
    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        (&self.origin, &self.user) == (&other.origin, &other.user)
    }
}

impl Place {
    /// It, if it is on a server.
    pub(super) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::There(remote) => Some(remote),
            Self::Here(_) => None,
        }
    }

    /// It, if it is here.
    pub(super) fn here(&self) -> Option<&Path> {
        match self {
            Self::Here(path) => Some(path),
            Self::There(_) => None,
        }
    }
}

/// Why an argument cannot be used. No message quotes what may be a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unusable {}

fn unusable<T>(why: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable(why.into()))
}

/// What arguments name. (Not a parser of clap's: it would quote what it cannot take, and a password with it.)
pub(super) fn places(texts: &[String]) -> Result<Vec<Place>, Box<dyn Error>> {
    texts.iter().map(|text| place(text).map_err(usage)).collect()
}

/// The same, where only something on a server will do.
pub(super) fn remotes(texts: &[String]) -> Result<Vec<Remote>, Box<dyn Error>> {
    texts.iter().map(|text| remote(text).map_err(usage)).collect()
}

pub(super) fn place(text: &str) -> Result<Place, Unusable> {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
    match (scheme.as_str(), text.contains("://")) {
        ("http" | "https" | "dav" | "davs", true) => remote(text).map(Place::There),
        ("http" | "https" | "dav" | "davs", false) => {
            unusable(format!("write `//` after `{scheme}:`, as in {scheme}://example.org/folder/"))
        }
        (other, true) if !other.is_empty() && !other.contains('/') => {
            unusable(format!("unsupported scheme `{}://`; use https:// or http://", other.escape_debug()))
        }
        ("", _) if text.is_empty() => unusable("the name is empty"),
        _ => Ok(match named(text)? {
            Some(remote) => Place::There(remote),
            None => Place::Here(PathBuf::from(text)),
        }),
    }
}

/// What is on a server that the settings file names, as in `cloud:photos/2024`.
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
    let rest = RemotePath::from_url_path(&format!("{}/{rest}", folder.path.target().trim_end_matches('/')));
    let path = rest.map_err(|error| Unusable(error.to_string().replace(": left out", "")))?;
    if let Some(sign) = text.chars().find(|char| matches!(char, '?' | '#')) {
        let code = if sign == '?' { "%3F" } else { "%23" };
        return unusable(format!("a file URL has no query or fragment; write `{sign}` in a name as {code}"));
    }
    Ok(Some(Remote { path, user: folder.user.or(server.user), ..folder }))
}

/// Whether it begins as a URL without its scheme does.
fn is_host(text: &str) -> bool {
    let authority = text.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    !authority.starts_with('.')
        && host.contains(['.', ':'])
        && format!("https://{text}").parse::<http::Uri>().is_ok()
        && !authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

pub(super) fn remote(text: &str) -> Result<Remote, Unusable> {
    let known = text.split_once("://").and_then(|(scheme, rest)| match scheme.to_ascii_lowercase().as_str() {
        "http" | "dav" => Some(("http", rest)),
        "https" | "davs" => Some(("https", rest)),
        _ => None,
    });
    let Some((scheme, rest)) = known else {
        if let Place::There(remote) = place(text)? {
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
    let path = RemotePath::from_url_path(if path.is_empty() { "/" } else { path });
    let path = path.map_err(|error| Unusable(error.to_string().replace(": left out", "")))?;
    Ok(Remote { origin, path, user: userinfo.map(|who| who.user) })
}

/// The one server that all of them are on.
pub(super) fn one_server<'a>(places: impl IntoIterator<Item = &'a Remote>) -> Result<&'a Remote, Box<dyn Error>> {
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
    fn what_has_a_scheme_is_there_and_all_else_is_here() {
        for here in ["a", "./a b", "/x", "c:\\x", "me@host:/x", "a/b:c", "a/b://c", ".", "-"] {
            assert!(matches!(place(here), Ok(Place::Here(path)) if *path == *here), "{here}");
        }
        for (text, url) in [
            ("http://h", "http://h/"),
            ("HTTPS://H:443/a b/", "https://h/a%20b/"),
            ("dav://h:8080/é", "http://h:8080/%C3%A9"),
            ("davs://[::1]/100%", "https://[::1]/100%25"),
            ("https://h//a%20b", "https://h/a%20b"),
        ] {
            let Ok(Place::There(remote)) = place(text) else { panic!("{text}") };
            assert_eq!(format!("{}{}", remote.origin, remote.path.target()), url);
        }
        assert_eq!(remote("https://me%40home@h/").unwrap().user.as_deref(), Some("me@home"));
    }

    #[test]
    fn what_cannot_be_meant_is_told_and_no_password_with_it() {
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
            ("", "empty"),
        ] {
            let why = place(text).unwrap_err().to_string();
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
    fn one_command_speaks_with_one_server() {
        let of = |texts: &[&str]| {
            let places: Vec<_> = texts.iter().map(|text| remote(text).unwrap()).collect();
            one_server(&places).map(|first| first.origin.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(of(&["http://a/x", "http://A:80/y"]).unwrap(), "http://a");
        assert!(of(&["http://a/x", "https://a/y"]).unwrap_err().contains("https://a"));
        assert!(of(&["http://a/x", "http://me@a/y"]).is_err());
    }
}
