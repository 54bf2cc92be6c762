//! Sources of credentials: the environment, files and URLs.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use http::Uri;
use percent_encoding::percent_decode_str;
use transport::UrlError;
use zeroize::Zeroizing;

use super::{Netrc, Secret};

/// The maximum size of a password file, which has one line.
const LARGEST: u64 = 1 << 20;

/// Why credentials could not be read. No message quotes them.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// An unreadable file.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// The reason.
        source: Arc<io::Error>,
    },
    /// A syntax error in `netrc`.
    #[error("{}, line {line}: {why}", path.display())]
    Netrc {
        /// Its name.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error.
        why: &'static str,
    },
    /// An empty file.
    #[error("{} is empty: its first line should be the password or token", path.display())]
    Empty {
        /// Its name.
        path: PathBuf,
    },
    /// An environment variable.
    #[error("the environment variable {variable} is not UTF-8: set it anew, or use a file")]
    Variable {
        /// Its name.
        variable: &'static str,
    },
}

/// A warning: other users can read a file with a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed(PathBuf);

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.display();
        write!(f, "{path} holds a password, but other users can read it: chmod 600 {path}")
    }
}

impl Secret {
    /// The first line of a file; and a warning if other users can read the file.
    pub fn read(path: &Path) -> Result<(Self, Option<Exposed>), SourceError> {
        let (text, exposed) = read(path).map_err(failed(path))?;
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(line) => Ok((line.into(), exposed)),
            None => Err(SourceError::Empty { path: path.into() }),
        }
    }
}

impl Netrc {
    /// Reads the file, if it exists; with a warning if other users can read it.
    pub fn read(path: &Path) -> Result<(Self, Option<Exposed>), SourceError> {
        match read(path) {
            Ok((text, exposed)) => Ok((Self::parse(&text, path)?, exposed)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Self::default(), None)),
            Err(error) => Err(failed(path)(error)),
        }
    }
}

/// The path of the user's `netrc`: `$NETRC`, or `~/.netrc`.
pub fn default_netrc() -> Option<PathBuf> {
    std::env::var_os("NETRC")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".netrc")))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> SourceError {
    move |source| SourceError::File { path: path.into(), source: Arc::new(source) }
}

fn read(path: &Path) -> io::Result<(Zeroizing<String>, Option<Exposed>)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a password file"));
    }
    let mut text = Zeroizing::new(String::with_capacity(about.len() as usize + 1));
    file.take(LARGEST).read_to_string(&mut text)?;
    let exposed = about.is_file() && about.permissions().mode() & 0o044 != 0;
    Ok((text, exposed.then(|| Exposed(path.into()))))
}

/// The variables `HAUL_USER`, `HAUL_PASSWORD` and `HAUL_TOKEN`. An empty one counts as unset.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The user's name.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// A token for `Bearer`.
    pub token: Option<Secret>,
}

impl Environment {
    /// Reads the variables through `variable`, which is `std::env::var_os` outside tests.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, SourceError> {
        let text = |name: &'static str| match variable(name).filter(|text| !text.is_empty()) {
            Some(text) => text.into_string().map(Some).map_err(|_| SourceError::Variable { variable: name }),
            None => Ok(None),
        };
        Ok(Self {
            user: text("HAUL_USER")?,
            password: text("HAUL_PASSWORD")?.map(Secret::from),
            token: text("HAUL_TOKEN")?.map(Secret::from),
        })
    }
}

/// The user, and perhaps the password, in a URL (RFC 3986 §3.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Userinfo {
    /// The user's name.
    pub user: String,
    /// The password, if the URL had a colon after the name.
    pub password: Option<Secret>,
}

/// Removes user and password from a URL, so that they are never printed, logged or sent with it (RFC 9110 §4.2.4).
pub fn take_userinfo(url: &Uri) -> Result<(Uri, Option<Userinfo>), UrlError> {
    let Some((userinfo, host)) = url.authority().and_then(|authority| authority.as_str().rsplit_once('@')) else {
        return Ok((url.clone(), None));
    };
    let wrong = |why| UrlError { url: host.to_owned(), why };
    let mut parts = url.clone().into_parts();
    parts.authority = Some(host.parse().map_err(|_| wrong("it has no host"))?);
    let url = Uri::from_parts(parts).map_err(|_| wrong("it is not a valid URL"))?;
    let decode = |text: &str| {
        percent_decode_str(text)
            .decode_utf8()
            .map(String::from)
            .map_err(|_| UrlError { url: url.to_string(), why: "its user or password is not UTF-8" })
    };
    let (user, password) = match userinfo.split_once(':') {
        Some((user, password)) => (user, Some(Secret::from(decode(password)?))),
        None => (userinfo, None),
    };
    let user = decode(user)?;
    Ok((url, Some(Userinfo { user, password })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_removed_from_the_url() {
        let taken = |url: &str| take_userinfo(&url.parse().unwrap());
        let (url, user) = taken("https://me%40home:p%3Ass%C3%A9@example.org:8443/a?b").unwrap();
        assert_eq!(url, "https://example.org:8443/a?b");
        assert_eq!(user, Some(Userinfo { user: "me@home".into(), password: Some("p:ssé".into()) }));
        let (url, user) = taken("http://me@[::1]/").unwrap();
        assert_eq!((url.to_string().as_str(), user.unwrap().password), ("http://[::1]/", None));
        assert_eq!(taken("http://example.org/@").unwrap().1, None);
        let told = taken("http://me:hunter2%FF@example.org/").unwrap_err().to_string();
        assert!(told.contains("http://example.org/") && !told.contains("hunter2"), "{told}");
    }

    #[test]
    fn credentials_come_from_environment_variables() {
        let read = |variables: &'static [(&str, &str)]| {
            Environment::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        let found = read(&[("HAUL_USER", "me"), ("HAUL_PASSWORD", "p"), ("HAUL_TOKEN", "")]).unwrap();
        assert_eq!((found.user.as_deref(), found.password, found.token), (Some("me"), Some("p".into()), None));
    }

    #[test]
    fn error_names_a_variable_that_is_not_utf8() {
        use std::os::unix::ffi::OsStringExt;
        let read = Environment::read(|name| (name == "HAUL_PASSWORD").then(|| OsString::from_vec(vec![0xFF])));
        assert!(read.unwrap_err().to_string().contains("HAUL_PASSWORD"));
    }

    #[test]
    fn file_readable_by_others_causes_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(Netrc::read(&path).unwrap().0.machine("a", None).is_none());
        assert!(Secret::read(&path).is_err());
        std::fs::write(&path, "machine a login b password c\n").unwrap();
        for (mode, warned) in [(0o600, false), (0o640, true), (0o604, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let (netrc, exposed) = Netrc::read(&path).unwrap();
            assert!(netrc.machine("a", None).is_some());
            assert_eq!(exposed.is_some(), warned);
            let (secret, exposed) = Secret::read(&path).unwrap();
            assert_eq!(secret.reveal(), "machine a login b password c");
            assert_eq!(exposed.is_some(), warned);
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(Secret::read(&path), Err(SourceError::Empty { .. })));
    }
}
