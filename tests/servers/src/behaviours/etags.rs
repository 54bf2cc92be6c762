//! What a server shows of a file's state.

use std::time::UNIX_EPOCH;

use crate::behaviour::{Behaviour, Shown, Validators};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// An ETag for each version, and when it was changed.
    Versions,
    /// Neither.
    Nothing,
    /// Of the length and the second of the change, as nginx makes them: two files may have one.
    LengthAndSecond,
    /// ETags in answers alone, as from nginx.
    Answers,
    /// ETags in listings alone.
    Listings,
}

impl Behaviour for Of {
    fn validate(&self, shown: Shown, length: usize, validators: &mut Validators) {
        match self {
            Self::Versions => {}
            Self::Nothing => *validators = Validators { etag: None, modified: None },
            Self::LengthAndSecond => {
                let second = validators.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                validators.etag = second.map(|second| format!("\"{:x}-{length:x}\"", second.as_secs()));
            }
            Self::Answers if shown == Shown::Answer => {}
            Self::Listings if shown == Shown::Listing => {}
            Self::Answers | Self::Listings => validators.etag = None,
        }
    }
}
