//! Which validators a server sends.

use std::time::UNIX_EPOCH;

use crate::behaviour::{Behaviour, FoundIn, Validators};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// A strong ETag for each version, and `Last-Modified`.
    All,
    /// Neither.
    None,
    /// ETags made of the length and the second of the change, as in nginx: two files may have the same.
    NginxEtags,
    /// ETags in responses to GET, HEAD and PUT, but not in listings, as in nginx.
    EtagsInResponses,
    /// ETags in listings only.
    EtagsInListings,
}

impl Behaviour for Shown {
    fn alter_validators(&self, shown: FoundIn, length: usize, validators: &mut Validators) {
        match self {
            Self::All => {}
            Self::None => *validators = Validators { etag: None, modified: None },
            Self::NginxEtags => {
                let second = validators.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                validators.etag = second.map(|second| format!("\"{:x}-{length:x}\"", second.as_secs()));
            }
            Self::EtagsInResponses if shown == FoundIn::Response => {}
            Self::EtagsInListings if shown == FoundIn::Listing => {}
            Self::EtagsInResponses | Self::EtagsInListings => validators.etag = None,
        }
    }
}
