//! The error numbers that programs see.

use std::io;

use dav::RemotePath;
use haul_http::Cause;
use nix::errno::Errno;
use tracing::{debug, warn};

/// The number for an error of a request; logs the sentence, which a number cannot say.
pub(crate) fn of(path: &RemotePath, doing: &str, error: &dav::Error) -> Errno {
    let number = number(error);
    // Programs look for files that are not there all the time.
    if number == Errno::ENOENT {
        debug!("cannot {doing} {path}: {error}");
    } else {
        warn!("cannot {doing} {path}: {error}");
    }
    number
}

fn number(error: &dav::Error) -> Errno {
    use haul_http::Error::{Connect, Credentials, Exchange, OutcomeUnknown, Sending, Shutdown};
    match error {
        dav::Error::Refused(failure) => status(failure.status.as_u16()),
        dav::Error::Path(_) => Errno::EINVAL,
        dav::Error::Local { source, .. } | dav::Error::Http(Sending { source, .. }) => of_io(source),
        dav::Error::Http(Credentials { .. }) => Errno::EACCES,
        dav::Error::Http(Connect(_)) => Errno::EHOSTUNREACH,
        dav::Error::Http(
            Exchange { cause: Cause::TimedOut(..), .. } | OutcomeUnknown { cause: Cause::TimedOut(..), .. },
        )
        | dav::Error::Lost { cause: Cause::TimedOut(..), .. } => Errno::ETIMEDOUT,
        dav::Error::Http(Shutdown) => Errno::ENODEV,
        _ => Errno::EIO,
    }
}

/// The number for a status code (RFC 9110 §15, RFC 4918 §11).
fn status(status: u16) -> Errno {
    match status {
        400 | 415 | 422 => Errno::EINVAL,
        401 | 403 | 407 => Errno::EACCES,
        // 409: the folder is missing (RFC 4918 §9.7.1).
        404 | 409 | 410 => Errno::ENOENT,
        405 | 501 => Errno::EPERM,
        408 | 504 => Errno::ETIMEDOUT,
        412 => Errno::ESTALE,
        413 => Errno::EFBIG,
        414 => Errno::ENAMETOOLONG,
        423 => Errno::EBUSY,
        507 => Errno::ENOSPC,
        _ => Errno::EIO,
    }
}

/// The number for an error of a local file.
pub(crate) fn of_io(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
