//! Retries of answers that break off after they have begun, which the engine cannot repeat elsewhere.

use std::ops::RangeInclusive;

use haul_http::{Cause, Step};

use super::fetch::LARGE;
use crate::Error;

/// Bounds of the number of attempts, the first included: the smaller the file, the more. If a middlebox ends connections
/// after some number of bytes, every connection that others have used may break once. An answer that stalls until its
/// timeout is retried only once.
const TRIES: RangeInclusive<u64> = 3..=10;

/// Why a download of a file or range failed.
pub(super) enum FetchError {
    /// A retry cannot help, or the engine has already retried.
    Final(Error),
    /// The answer broke off after it had begun; a retry may help.
    Interrupted(Error),
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

pub(super) fn cut(error: haul_http::Error) -> FetchError {
    FetchError::Interrupted(error.into())
}

/// Retries interrupted downloads of `length` bytes a few times.
pub(super) async fn retry<T, F: Future<Output = Result<T, FetchError>>>(
    length: u64,
    fetch: impl Fn() -> F,
) -> Result<T, Error> {
    let tries = (LARGE / length.max(1)).clamp(*TRIES.start(), *TRIES.end());
    let mut stood = false;
    for left in (0..tries).rev() {
        match fetch().await {
            Ok(fetched) => return Ok(fetched),
            Err(FetchError::Interrupted(error)) if left > 0 => {
                if stood_still(&error) && std::mem::replace(&mut stood, true) {
                    return Err(error);
                }
            }
            Err(FetchError::Interrupted(error) | FetchError::Final(error)) => return Err(error),
        }
    }
    unreachable!("the last try returns")
}

/// Whether an answer stalled until its timeout.
fn stood_still(error: &Error) -> bool {
    use haul_http::Error::{Exchange, OutcomeUnknown};
    matches!(
        error,
        Error::Http(
            Exchange { cause: Cause::TimedOut(Step::Receive, _), .. }
                | OutcomeUnknown { cause: Cause::TimedOut(Step::Receive, _), .. }
        )
    )
}
