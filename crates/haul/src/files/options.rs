//! Options that several commands share.

pub(super) mod bandwidth;
pub(super) mod deletion;
pub(super) mod existing;
pub(super) mod filters;
pub(super) mod headers;
pub(super) mod output;
pub(super) mod sizes;
pub(super) mod urls;

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use dav::{
    LockPolicy,
    transfer::{self, Options},
};
use serde::Deserialize;
use units::Span;

use crate::{files::options::bandwidth::Timetable, usage};

/// How to connect to the server.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Connection")]
// Not grouped: one field per option.
pub(super) struct ConnectionOptions {
    /// HTTP version. `auto`: HTTP/1.1 with pipelining, HTTP/2 where pipelining fails; commands other than cp and sync also
    /// use HTTP/3 where the server offers it [default: auto]
    #[arg(long, value_enum, env = "HAUL_HTTP", value_name = "VERSION")]
    pub(super) http: Option<Http>,
    /// HTTP/1.1 pipelining: when to send requests before earlier ones are answered [default: safe]
    #[arg(long, value_enum, env = "HAUL_PIPELINE", value_name = "MODE")]
    pub(super) pipeline: Option<Pipeline>,
    /// TCP Fast Open: send data in the SYN where the network path supports it [default: private]
    #[arg(long, value_enum, env = "HAUL_TFO", value_name = "MODE")]
    pub(super) tfo: Option<Tfo>,
    /// Maximum number of connections [default: 6]
    #[arg(long, env = "HAUL_CONNECTIONS", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) connections: Option<u8>,
    /// PEM file with additional CA certificates to trust
    #[arg(long, env = "HAUL_CA", value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Accept any server certificate. Anyone on the network path can then read and change everything
    #[arg(long)]
    pub(super) insecure: bool,
    /// PEM file with a client certificate
    #[arg(long, env = "HAUL_CLIENT_CERT", value_name = "FILE")]
    pub(super) client_cert: Option<PathBuf>,
    /// PEM file with the client certificate's key [default: the certificate's file]
    #[arg(long, env = "HAUL_CLIENT_KEY", value_name = "FILE")]
    pub(super) client_key: Option<PathBuf>,
    /// Timeout for connecting, for the first byte of a response, and for stalled transfers, as in 30s
    #[arg(long, env = "HAUL_TIMEOUT", value_name = "TIME", value_parser = crate::timeout)]
    pub(super) timeout: Option<Span>,
    /// Maximum bandwidth in bytes per second, as in 10M, 1M:off (up:down), or a timetable: "08:00,512k 19:00,10M 23:00,off"
    #[arg(long, env = "HAUL_BWLIMIT", value_name = "RATE")]
    pub(super) bwlimit: Option<Timetable>,
    /// Add a header to each request to the server of the URL, as in 'X-Key: value'; repeatable
    #[arg(long, value_name = "HEADER")]
    pub(super) header: Vec<String>,
    /// File with the password in its first line
    #[arg(long, env = "HAUL_PASSWORD_FILE", value_name = "FILE")]
    pub(super) password_file: Option<PathBuf>,
    /// Send the password without TLS as well, readable for anyone on the network path
    #[arg(long)]
    pub(super) cleartext: bool,
    /// Authenticate with Kerberos: with the ticket for HTTP/HOST in the credential cache that KRB5CCNAME names. If it has none,
    /// `kvno` gets one (package krb5-user)
    #[arg(long)]
    pub(super) negotiate: bool,
    /// Write the results to FILE as JSON (`-`: standard output)
    #[arg(long, value_name = "FILE|-")]
    pub(super) json: Option<PathBuf>,
}

impl ConnectionOptions {
    /// Refuses options that would apply to both of two servers.
    pub(super) fn for_two_servers(&self) -> Result<(), Box<dyn Error>> {
        if self.header.is_empty() && self.password_file.is_none() {
            return Ok(());
        }
        Err(usage("--header and --password-file are for one server; with two servers, use the settings file"))
    }

    /// Whether standard output belongs to the JSON.
    pub(super) fn json_to_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }
}

/// Whether to change anything.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub(super) struct DryRun {
    /// Print what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,
}

/// How files are transferred.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Transfer")]
pub(super) struct TransferOptions {
    /// Which files to lock during an upload [default: never]
    #[arg(long, value_enum, env = "HAUL_LOCK", value_name = "WHICH")]
    pub(super) lock: Option<Lock>,
    /// How to verify a file after its transfer [default: size]
    #[arg(long, value_enum, env = "HAUL_VERIFY", value_name = "WHAT")]
    pub(super) verify: Option<Verify>,
    /// Upload under a temporary name, then rename [default: no]
    #[arg(long, env = "HAUL_TEMPORARY", value_name = "yes|no", num_args = 0..=1, require_equals = true,
        default_missing_value = "yes", value_parser = clap::builder::BoolishValueParser::new())]
    pub(super) temporary: Option<bool>,
}

/// Which files to copy.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Files to copy")]
pub(super) struct FileOptions {
    /// Treat modification times as equal that differ by at most this, in whole seconds, as in 2s for FAT
    #[arg(long, value_name = "DURATION", default_value_t)]
    pub(super) modify_window: Span,
    /// Symbolic links in a local folder. A link named as the source itself is always followed
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(super) links: Links,
}

#[derive(ValueEnum, Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Links {
    /// Skip them, with a warning
    #[default]
    Skip,
    /// Copy the files that they point to
    Follow,
}

impl From<Links> for transfer::Links {
    fn from(links: Links) -> Self {
        match links {
            Links::Skip => Self::Skip,
            Links::Follow => Self::Follow,
        }
    }
}

impl FileOptions {
    /// Applies these options to a transfer's.
    pub(super) fn apply(&self, options: Options) -> Options {
        Options { modify_window: self.modify_window.0, links: self.links.into(), ..options }
    }
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Http {
    #[default]
    Auto,
    #[value(name = "1.1")]
    #[serde(rename = "1.1")]
    One,
    #[value(name = "2")]
    #[serde(rename = "2")]
    Two,
    #[value(name = "3")]
    #[serde(rename = "3")]
    Three,
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pipeline {
    /// One request at a time per connection
    Off,
    /// After a test, and deeper with every success
    #[default]
    Safe,
    /// Without a test, at full depth
    Aggressive,
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Tfo {
    /// Never; request no cookie
    Off,
    /// Also with cookies that other programs have obtained, or in other networks
    On,
    /// Only with cookies obtained in the current network
    #[default]
    Private,
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Lock {
    /// None; preconditions (If-Match) protect other people's changes
    #[default]
    Never,
    /// Existing files
    Edit,
    /// All files
    Always,
}

impl From<Lock> for LockPolicy {
    fn from(lock: Lock) -> Self {
        match lock {
            Lock::Never => Self::Never,
            Lock::Edit => Self::OnEdit,
            Lock::Always => Self::Always,
        }
    }
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verify {
    /// Do not verify
    None,
    /// Compare the length
    #[default]
    Size,
    /// Compare a digest, or read the file back and compare its bytes
    Digest,
}
