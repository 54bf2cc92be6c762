//! Settings: options override the environment, which overrides `~/.config/longhaul/config.toml`, which overrides defaults.
//!
//! The file has a table for all servers and one per server with other settings:
//!
//! ```toml
//! [defaults]
//! timeout = "30s"
//!
//! [host."cloud.example.org"]
//! user = "ann"
//! password-file = "~/.secrets/cloud"
//! lock = "edit"
//! ```
//!
//! Unknown keys are errors; otherwise a misspelt `pipeline` would go unnoticed. The file deliberately has no key for
//! `--insecure`, which is for single commands, and none for passwords.

use std::{
    collections::BTreeMap,
    error::Error,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use dav::LockPolicy;
use haul_http::{Origin, Pipelining, Timeouts, Versions, auth::Clear};
use http::HeaderMap;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;
use transport::{ConnectSettings, FastOpen, Identity, Proxies, TlsSettings};
use units::Span;

use crate::files::options::{ConnectionOptions, Http, Lock, Pipeline, Tfo, TransferOptions, Verify};
use crate::files::{options::bandwidth::Timetable, options::headers};
use crate::usage;

/// A table of the file. Not grouped: one field per key.
#[derive(Deserialize, Debug, Clone, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Table {
    http: Option<Http>,
    pipeline: Option<Pipeline>,
    tfo: Option<Tfo>,
    #[serde(deserialize_with = "connections")]
    connections: Option<u8>,
    #[serde(deserialize_with = "span")]
    timeout: Option<Span>,
    ca: Option<PathBuf>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
    lock: Option<Lock>,
    verify: Option<Verify>,
    temporary: Option<bool>,
    negotiate: Option<bool>,
    user: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    cleartext: Option<Spanned<bool>>,
    headers: Option<Spanned<BTreeMap<String, String>>>,
    bwlimit: Option<Timetable>,
}

/// The file.
#[derive(Deserialize, Debug, Clone, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    defaults: Table,
    host: BTreeMap<String, Table>,
    servers: BTreeMap<String, NamedServer>,
}

/// A named server or folder, as in `cloud:photos`.
#[derive(Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedServer {
    pub(crate) url: String,
    pub(crate) user: Option<String>,
}

/// Looks up the name before a `:`.
pub(crate) fn server(name: &str) -> Result<Option<NamedServer>, String> {
    let file = file().map_or(Ok(File::default()), |path| File::read(&path))?;
    Ok(file.servers.get(name).cloned())
}

/// Whether a server may have this name.
pub(crate) fn is_server_name(name: &str) -> bool {
    let is_fit = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    !name.is_empty() && name.chars().all(is_fit) && !matches!(name, "http" | "https" | "dav" | "davs")
}

/// The settings of one command for one server.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) client: haul_http::Settings,
    pub(crate) clear: Clear,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) negotiate: bool,
    pub(crate) lock: LockPolicy,
    pub(crate) verify: dav::transfer::Verify,
    pub(crate) temporary: bool,
}

impl Settings {
    /// The settings for a server.
    pub(crate) fn of(
        origin: &Origin,
        connection: &ConnectionOptions,
        transfer_options: &TransferOptions,
    ) -> Result<Self, Box<dyn Error>> {
        let file = file().map_or(Ok(File::default()), |path| File::read(&path))?;
        let proxies = Proxies::from_environment(|name| std::env::var(name).ok())?;
        let named = headers::headers(connection.header.iter().map(String::as_str)).map_err(usage)?;
        let mut settings = file.settings(origin, connection, transfer_options, proxies);
        let mut all = file.headers(origin)?;
        for name in named.keys() {
            all.remove(name);
        }
        all.extend(named);
        settings.client.headers = (!all.is_empty()).then(|| (origin.clone(), all));
        Ok(settings)
    }
}

/// The file's path.
fn file() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("longhaul/config.toml"))
}

/// A folder of the XDG Base Directory Specification: from its variable, if absolute, or the default below home.
pub(crate) fn base(variable: &str, at_home: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| std::env::home_dir().map(|home| home.join(at_home)))
}

impl File {
    /// A missing file is empty.
    fn read(path: &Path) -> Result<Self, String> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Self::default())
            }
            Err(error) => Err(format!("cannot read the settings file {}: {error}", path.display())),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let at = |span: Option<Range<usize>>, what: &str| {
            let start = text.floor_char_boundary(span.map_or(0, |span| span.start));
            let line = text[..start].matches('\n').count() + 1;
            let what = what.replace(char::is_control, " ");
            format!("{}, line {line}: {}", path.display(), what.trim())
        };
        let mut file: Self = toml::from_str(text).map_err(|error| {
            let is_of_server =
                error.message().starts_with("unknown field") && error.message().ends_with("`url` or `user`");
            let remedy =
                if is_of_server { "; other settings of a server go into its table [host.\"example.org\"]" } else { "" };
            at(error.span(), &format!("{}{remedy}", error.message()))
        })?;
        if let Some(name) = file.servers.keys().find(|name| !is_server_name(name)) {
            let what = "a server name consists of letters, digits, `-` and `_`, and is not a protocol";
            return Err(format!("{}: [servers.{}]: {what}", path.display(), name.escape_debug()));
        }
        let Table { user, password_file, cleartext, headers, .. } = &file.defaults;
        let spans = [
            ("user", user.as_ref().map(Spanned::span)),
            ("password-file", password_file.as_ref().map(Spanned::span)),
            ("cleartext", cleartext.as_ref().map(Spanned::span)),
            ("headers", headers.as_ref().map(Spanned::span)),
        ];
        if let Some((key, span)) = spans.into_iter().find(|(_, span)| span.is_some()) {
            let why = format!("`{key}` is for one server; put it into a table [host.\"example.org\"]");
            return Err(at(span, &why));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        for table in file.host.values_mut().chain([&mut file.defaults]) {
            let spanned = table.password_file.as_mut().map(Spanned::get_mut);
            let named = [&mut table.ca, &mut table.client_cert, &mut table.client_key].into_iter().flatten();
            named.chain(spanned).for_each(|path| *path = place(path, folder));
        }
        Ok(file)
    }

    /// The table of a server, or an empty one. A table with a port takes precedence.
    fn table(&self, origin: &Origin) -> Table {
        let with_port = format!("{}:{}", origin.host(), origin.port());
        let named = |name: &str| self.host.iter().find(|(host, _)| host.eq_ignore_ascii_case(name));
        named(&with_port).or_else(|| named(origin.host())).map(|(_, table)| table.clone()).unwrap_or_default()
    }

    /// The headers for a server.
    fn headers(&self, origin: &Origin) -> Result<HeaderMap, String> {
        let mut made = HeaderMap::new();
        for (name, value) in self.table(origin).headers.map(Spanned::into_inner).unwrap_or_default() {
            let added = headers::add(&mut made, &name, &value);
            added.map_err(|why| why.replacen("--header", "the settings file, headers:", 1))?;
        }
        Ok(made)
    }

    /// The settings for a server. Long, because each setting takes a few lines to combine its sources.
    fn settings(
        &self,
        origin: &Origin,
        connection: &ConnectionOptions,
        transfer_options: &TransferOptions,
        proxies: Proxies,
    ) -> Settings {
        let (host, all) = (self.table(origin), &self.defaults);
        let certificate = connection.client_cert.clone().or(host.client_cert).or_else(|| all.client_cert.clone());
        let key = connection.client_key.clone().or(host.client_key).or_else(|| all.client_key.clone());
        let identity = certificate.map(|certificate| {
            let key = key.unwrap_or(certificate.clone());
            Identity { origin: origin.clone(), certificate, key }
        });
        let own = connection.ca.clone().or(host.ca);
        // Trust in this server does not extend to redirects to others.
        let only = (connection.insecure || own.is_some()).then(|| origin.host().to_owned());
        let authorities = own.or_else(|| all.ca.clone()).into_iter().collect();
        let tls = TlsSettings { authorities, only, identity, unverified: connection.insecure, fresh: false };
        let http = connection.http.or(host.http).or(all.http).unwrap_or_default();
        let pipeline = connection.pipeline.or(host.pipeline).or(all.pipeline).unwrap_or_default();
        let fast_open = match connection.tfo.or(host.tfo).or(all.tfo).unwrap_or_default() {
            Tfo::Off => FastOpen::Off,
            Tfo::On => FastOpen::On,
            Tfo::Private => FastOpen::Private,
        };
        let client = haul_http::Settings::default();
        let client = haul_http::Settings {
            connect: ConnectSettings { tls, proxies, fast_open, ..ConnectSettings::default() },
            versions: match http {
                Http::Auto => Versions::Auto,
                Http::One => Versions::Http1,
                Http::Two => Versions::Http2,
                Http::Three => Versions::Http3,
            },
            pipelining: match pipeline {
                Pipeline::Off => Pipelining::Off,
                Pipeline::Safe => Pipelining::Safe,
                Pipeline::Aggressive => Pipelining::Aggressive,
            },
            connections: connection
                .connections
                .or(host.connections)
                .or(all.connections)
                .map_or(client.connections, usize::from),
            bandwidth_limit: connection
                .bwlimit
                .as_ref()
                .or(host.bwlimit.as_ref())
                .or(all.bwlimit.as_ref())
                .map(Timetable::limit),
            timeouts: connection
                .timeout
                .or(host.timeout)
                .or(all.timeout)
                .map_or(client.timeouts, |span| within(span.0)),
            ..client
        };
        // A named password file is for this once.
        let named = || connection.password_file.is_none() && host.negotiate.or(all.negotiate).unwrap_or(false);
        let clear = connection.cleartext || host.cleartext.is_some_and(|clear| *clear.get_ref());
        Settings {
            client,
            clear: if clear { Clear::Allowed } else { Clear::Refused },
            user: host.user.map(Spanned::into_inner),
            negotiate: connection.negotiate || named(),
            password_file: connection.password_file.clone().or(host.password_file.map(Spanned::into_inner)),
            lock: transfer_options.lock.or(host.lock).or(all.lock).unwrap_or_default().into(),
            verify: match transfer_options.verify.or(host.verify).or(all.verify).unwrap_or_default() {
                Verify::None => dav::transfer::Verify::None,
                Verify::Size => dav::transfer::Verify::Size,
                Verify::Digest => dav::transfer::Verify::Digest,
            },
            temporary: transfer_options.temporary.or(host.temporary).or(all.temporary).unwrap_or(false),
        }
    }
}

/// Limits every timeout but the idle timeout of connections.
fn within(longest: Duration) -> Timeouts {
    let usual = Timeouts::default();
    Timeouts {
        connect: longest,
        first_byte: longest,
        pipelined: usual.pipelined.min(longest),
        stall: longest,
        idle: usual.idle,
    }
}

/// Resolves a path in the file: `~/` is home, and relative paths start at the file's folder.
fn place(path: &Path, folder: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => folder.join(path),
    }
}

fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    let text = String::deserialize(from)?;
    let span: Span = text.parse().map_err(de::Error::custom)?;
    if span.0.is_zero() {
        return Err(de::Error::custom("the timeout is zero; write a time like \"30s\""));
    }
    Ok(Some(span))
}

fn connections<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let number = u64::deserialize(from)?;
    match u8::try_from(number) {
        Ok(number @ 1..=64) => Ok(Some(number)),
        _ => Err(de::Error::custom("expected a number from 1 to 64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, String> {
        File::parse(text, Path::new("/c/config.toml"))
    }

    fn origin(url: &str) -> Origin {
        Origin::of(&url.parse().unwrap()).unwrap()
    }

    #[test]
    fn more_specific_setting_wins() {
        let file = parse(
            "[defaults]\nconnections = 3\nlock = \"edit\"\ntimeout = \"7s\"\n\
             [host.a]\nconnections = 4\nuser = \"ann\"\npassword-file = \"word\"\nca = \"/ca.pem\"\n\
             [host.\"A:8443\"]\nconnections = 5\nhttp = \"2\"\n[host.k]\nnegotiate = true\n",
        )
        .unwrap();
        let settings = |url: &str, connection: &ConnectionOptions| {
            file.settings(&origin(url), connection, &TransferOptions::default(), Proxies::default())
        };
        let none = ConnectionOptions::default();
        for (url, connections, user) in
            [("https://a/", 4, Some("ann")), ("https://a:8443/", 5, None), ("https://b/", 3, None)]
        {
            let found = settings(url, &none);
            assert_eq!((found.client.connections, found.user.as_deref()), (connections, user), "{url}");
            assert_eq!((found.lock, found.client.timeouts.stall), (LockPolicy::OnEdit, Duration::from_secs(7)));
        }
        assert_eq!(settings("https://a", &none).password_file, Some("/c/word".into()));
        assert_eq!(settings("https://a:8443", &none).client.versions, Versions::Http2);
        assert!(settings("https://k", &none).negotiate && !settings("https://a", &none).negotiate);
        let password = ConnectionOptions { password_file: Some("word".into()), ..ConnectionOptions::default() };
        assert!(!settings("https://k", &password).negotiate);
        let connection =
            ConnectionOptions { connections: Some(9), ca: Some("mine".into()), ..ConnectionOptions::default() };
        let found = settings("https://a", &connection);
        assert_eq!(found.client.connections, 9);
        assert_eq!(found.client.connect.tls.authorities, [PathBuf::from("mine")]);
    }

    #[test]
    fn insecure_and_ca_apply_only_to_their_host() {
        let file = parse("[defaults]\nca = \"/all.pem\"\n[host.a]\nca = \"/a.pem\"\n").unwrap();
        let insecure = ConnectionOptions { insecure: true, ..ConnectionOptions::default() };
        let named = ConnectionOptions { ca: Some("mine".into()), ..ConnectionOptions::default() };
        for (url, connection, only) in [
            ("https://a:8443/", ConnectionOptions::default(), Some("a")),
            ("https://b/", ConnectionOptions::default(), None),
            ("https://b/", insecure, Some("b")),
            ("https://b/", named, Some("b")),
        ] {
            let tls = file
                .settings(&origin(url), &connection, &TransferOptions::default(), Proxies::default())
                .client
                .connect
                .tls;
            assert_eq!(tls.only.as_deref(), only, "{url}");
        }
    }

    #[test]
    fn settings_error_names_file_and_line() {
        for (text, line, said) in [
            ("[defaults]\n\npipelin = \"off\"\n", 3, "`pipelin`"),
            ("[defaults]\npipeline = \"on\"\n", 2, "`on`"),
            ("[default]\n", 1, "`default`"),
            ("[host.a]\nlock = \"never\"\npassword = \"hunter2\"\n", 3, "`password`"),
            ("[host.a]\nconnections = 0\n", 2, "from 1 to 64"),
            ("[host.a]\ntimeout = \"soon\"\n", 2, "18ms"),
            ("[defaults]\nlock = \"edit\"\nuser = \"ann\"\n", 3, "is for one server"),
            ("[defaults]\nlock = \n", 2, ""),
            ("[servers.a]\nurl = \"https://a/\"\nca = \"a.pem\"\n", 3, "[host.\"example.org\"]"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.starts_with(&format!("/c/config.toml, line {line}: ")), "{why}");
            assert!(why.contains(said) && !why.contains('\n') && !why.contains("hunter2"), "{why}");
        }
        assert!(parse("").is_ok());
    }
}
