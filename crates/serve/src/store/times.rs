//! Sets modification times and dead properties in one `PROPPATCH`, all or none (RFC 4918 §9.2).

use std::os::fd::OwnedFd;

use dav_server::fs::{DavProp, FsResult};
use http::StatusCode;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};

use super::metadata::{Meta, stamp_at};
use super::properties;
use super::root::{Root, refusal};
use crate::modified;

/// Makes the changes; a time among them is `modified`, or malformed.
pub(crate) fn patch(
    root: &Root,
    file: &OwnedFd,
    changes: Vec<(bool, DavProp)>,
    modified: Option<i64>,
) -> FsResult<Vec<(StatusCode, DavProp)>> {
    let (times, others): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|(_, property)| modified::original(property).is_some());
    if times.is_empty() {
        return properties::patch(root, file, others);
    }
    let names = |status: StatusCode| {
        times.iter().filter_map(move |(_, property)| Some((status, modified::original(property)?)))
    };
    let Some(seconds) = modified else {
        let dependent =
            others.into_iter().map(|(_, other)| (StatusCode::FAILED_DEPENDENCY, DavProp { xml: None, ..other }));
        return Ok(names(StatusCode::CONFLICT).chain(dependent).collect());
    };
    let before = Meta::of(file).map_err(refusal)?.modified_time();
    set(file, stamp_at(Some(seconds))).map_err(refusal)?;
    let patched = if others.is_empty() { Ok(Vec::new()) } else { properties::patch(root, file, others) };
    let has_failed = patched.as_ref().map_or(true, |patched| patched.iter().any(|(status, _)| !status.is_success()));
    if has_failed {
        set(file, before).map_err(refusal)?;
    }
    let mut patched = patched?;
    patched.extend(names(if has_failed { StatusCode::FAILED_DEPENDENCY } else { StatusCode::OK }));
    Ok(patched)
}

fn set(file: &OwnedFd, modified: Timespec) -> rustix::io::Result<()> {
    let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    rustix::fs::futimens(file, &Timestamps { last_access: kept, last_modification: modified })
}
