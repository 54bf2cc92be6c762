//! Retries of answers that break off after they have begun, which the engine cannot repeat elsewhere.

use std::ops::RangeInclusive;

use haul_http::{Cause, Step};

use super::fetch::LARGE;
use crate::Error;

/// How often an answer that breaks off is asked for, the first time included: until all that came of it is as much as a
/// large file, within these bounds. Where connections end after so many bytes, each one that others have used may break
/// once more, and then there is a fresh one. One that stands still until its bound is exceeded is asked for once more.
const TRIES: RangeInclusive<u64> = 3..=10;

/// Why a file, or a part of it, did not come.
pub(super) enum FetchError {
    /// What the engine could do about it, it has done; or nothing can be done.
    Final(Error),
    /// Its answer had begun, and could not be tried elsewhere by then.
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

/// Tries a few times to have what is lost in the middle, of so many bytes.
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

/// Whether an answer stood still until the bound was exceeded.
fn stood_still(error: &Error) -> bool {
    use haul_http::Error::{Exchange, Undecided};
    matches!(
        error,
        Error::Http(
            Exchange { cause: Cause::TimedOut(Step::Receive, _), .. }
                | Undecided { cause: Cause::TimedOut(Step::Receive, _), .. }
        )
    )
}
