//! What the commands' options have in common.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use dav::transfer::{self, Options};
use serde::Deserialize;
use units::Span;

use super::bandwidth::Timetable;

/// The way to the server.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "The way to the server")]
pub(super) struct Way {
    /// Which HTTP: `auto` pipelines over HTTP/1.1, and takes HTTP/2 where that is known to go wrong; what moves no
    /// trees takes HTTP/3 where the server is known to have it
    #[arg(long, value_enum, env = "HAUL_HTTP", value_name = "VERSION")]
    pub(super) http: Option<Http>,
    /// How boldly requests are sent before earlier ones are answered, over HTTP/1.1
    #[arg(long, value_enum, env = "HAUL_PIPELINE", value_name = "MODE")]
    pub(super) pipeline: Option<Pipeline>,
    /// Whether a connection's first message travels in its SYN (TCP Fast Open), where the way is known to bear it
    #[arg(long, value_enum, env = "HAUL_TFO", value_name = "MODE")]
    pub(super) tfo: Option<Tfo>,
    /// Connections at a time, at most [6 unless said otherwise]
    #[arg(long, env = "HAUL_CONNECTIONS", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) connections: Option<u8>,
    /// A PEM file of certificates to trust besides the system's
    #[arg(long, env = "HAUL_CA", value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Take any certificate: whoever is on the way can then read and change everything
    #[arg(long)]
    pub(super) insecure: bool,
    /// A PEM file with our own certificate, for servers that ask for one
    #[arg(long, env = "HAUL_CLIENT_CERT", value_name = "FILE")]
    pub(super) client_cert: Option<PathBuf>,
    /// A PEM file with its key [the same file unless said otherwise]
    #[arg(long, env = "HAUL_CLIENT_KEY", value_name = "FILE")]
    pub(super) client_key: Option<PathBuf>,
    /// The longest wait for a connection, for an answer to begin, and for anything to move, as in 30s
    #[arg(long, env = "HAUL_TIMEOUT", value_name = "TIME", value_parser = crate::patience)]
    pub(super) timeout: Option<Span>,
    /// Maximum bandwidth in bytes per second, as in 10M, 1M:off (up:down), or a timetable: "08:00,512k 19:00,10M 23:00,off"
    #[arg(long, env = "HAUL_BWLIMIT", value_name = "RATE")]
    pub(super) bwlimit: Option<Timetable>,
    /// Add a header to each request to the server of the URL, as in 'X-Key: value'; repeatable
    #[arg(long, value_name = "HEADER")]
    pub(super) header: Vec<String>,
    /// A file whose first line is the password
    #[arg(long, env = "HAUL_PASSWORD_FILE", value_name = "FILE")]
    pub(super) password_file: Option<PathBuf>,
    /// Send the password without TLS too, where everybody on the way can read it
    #[arg(long)]
    pub(super) cleartext: bool,
    /// Write what was found or done to FILE, as JSON (`-`: standard output)
    #[arg(long, value_name = "FILE|-")]
    pub(super) json: Option<PathBuf>,
}

impl Way {
    /// Whether standard output belongs to the JSON.
    pub(super) fn json_to_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }
}

/// How files are moved.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "How files are moved")]
pub(super) struct Manner {
    /// Which files are locked before they are written: none, those that are there already, or all
    #[arg(long, value_enum, env = "HAUL_LOCK", value_name = "WHICH")]
    pub(super) lock: Option<Lock>,
    /// What is compared once a file has been moved
    #[arg(long, value_enum, env = "HAUL_VERIFY", value_name = "WHAT")]
    pub(super) verify: Option<Verify>,
    /// Upload under a temporary name, and rename when all is there
    #[arg(long, env = "HAUL_TEMPORARY", value_name = "yes|no", num_args = 0..=1, require_equals = true,
        default_missing_value = "yes", value_parser = clap::builder::BoolishValueParser::new())]
    pub(super) temporary: Option<bool>,
}

/// Which files are copied, and by what they are known to be the same.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Which files are copied")]
pub(super) struct Selection {
    /// Treat times that differ by no more than this as equal, as in 2s for FAT; in whole seconds
    #[arg(long, value_name = "DURATION", default_value_t)]
    pub(super) modify_window: Span,
    /// Symbolic links below a local folder: skip them, or copy what they lead to. A link named as a source is followed
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(super) links: Links,
}

#[derive(ValueEnum, Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Links {
    /// Leave them out, with a warning
    #[default]
    Skip,
    /// Copy what they lead to
    Follow,
}

impl Selection {
    /// Options of a transfer, with what was chosen here.
    pub(super) fn apply(&self, options: Options) -> Options {
        let links = match self.links {
            Links::Skip => transfer::Links::Skip,
            Links::Follow => transfer::Links::Follow,
        };
        Options { modify_window: self.modify_window.0, links, ..options }
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
    /// One request at a time on a connection
    Off,
    /// After a test, and deeper with every success
    #[default]
    Safe,
    /// At once and deep
    Aggressive,
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Tfo {
    /// Never, and no cookie is asked for
    Off,
    /// Also with cookies from other programs and networks
    On,
    /// Only with cookies that were given in the network that we are in
    #[default]
    Private,
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Lock {
    /// None: entity tags keep others' versions from being overwritten
    #[default]
    Never,
    /// Those that are there already
    Edit,
    /// All
    Always,
}

#[derive(ValueEnum, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verify {
    /// Nothing: the server's word is taken
    None,
    /// The length
    #[default]
    Size,
    /// A digest, or the bytes themselves, read back
    Digest,
}
