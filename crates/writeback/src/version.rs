//! Versions of a file on a server.

use std::time::{Duration, SystemTime};

use dav::ETag;
use serde::{Deserialize, Serialize};

/// What a server says of a file or folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// In bytes.
    pub length: u64,
    /// Its modification time.
    pub modified: Option<SystemTime>,
    /// Its entity tag.
    pub etag: Option<ETag>,
}

impl Facts {
    /// Whether both are the same version, as far as is known.
    pub fn is_version(&self, other: &Self) -> bool {
        let same_tag = match (&self.etag, &other.etag) {
            (Some(one), Some(other)) => one.resembles(other),
            _ => self.modified == other.modified,
        };
        same_tag && self.length == other.length
    }
}

/// The version on the server that a content began with, and that its upload replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Version", into = "Version")]
pub enum Base {
    /// There is none, or none is known.
    New,
    /// This one.
    Version(Facts),
}

impl Base {
    /// Its entity tag, if the server has sent one.
    pub fn tag(&self) -> Option<&ETag> {
        match self {
            Self::New => None,
            Self::Version(facts) => facts.etag.as_ref(),
        }
    }
}

/// A version as it is in a record.
#[derive(Serialize, Deserialize)]
struct Version {
    /// Whether there is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    new: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(default)]
    length: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modified: Option<f64>,
}

impl From<Base> for Version {
    fn from(base: Base) -> Self {
        match base {
            Base::New => Self { new: true, etag: None, length: 0, modified: None },
            Base::Version(Facts { length, modified, etag }) => {
                Self { new: false, etag: etag.map(|etag| etag.to_string()), length, modified: modified.map(seconds) }
            }
        }
    }
}

impl From<Version> for Base {
    fn from(Version { new, etag, length, modified }: Version) -> Self {
        let etag = etag.as_deref().and_then(ETag::parse);
        if new { Self::New } else { Self::Version(Facts { length, modified: modified.map(time), etag }) }
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

pub(crate) fn time(seconds: f64) -> SystemTime {
    let from_zero = Duration::try_from_secs_f64(seconds.abs()).unwrap_or_default();
    let zero = SystemTime::UNIX_EPOCH;
    let time = if seconds < 0.0 { zero.checked_sub(from_zero) } else { zero.checked_add(from_zero) };
    time.unwrap_or(zero)
}
