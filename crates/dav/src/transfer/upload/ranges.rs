//! A file in parts, to a server that writes a part where `Content-Range` says.
//!
//! That is Apache's mod_dav_fs, and what it does was seen with 2.4.71. It writes in place, and several at a time do not
//! disturb each other. It makes a file that is not there, and takes it away again if the part that made it is cut
//! short, from under whoever writes into it by then: so an empty file is made first, and parts are for a file that is
//! there (`If-Match: *`) and else refused. It does not compare the length of a part with the range that it names, and
//! never makes a file shorter. What it has written of a part that was cut short stays.
//!
//! A file with holes in it has a length that says nothing of them. But parts begin in order, and none before all but
//! the last few before it are done: so what is before these is there ([`trusted`]), and no more has to be remembered of
//! an upload to go on with it.
//!
//! RFC 9110 §14.5 leaves a server free to take a part for the whole. So what is there is looked at before it is
//! renamed: one that has another length than was sent, or other bytes where digests are compared, is deleted, and the
//! file goes by one PUT.

use std::{
    ops::Range,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use haul_http::{Body, Class};
use http::{HeaderMap, HeaderValue, header::CONTENT_RANGE};

use super::{
    Upload,
    resume_key::ResumeKey,
    source::Seen,
    strategy::{LANES, LARGE},
};
use crate::{
    Error, If, Precondition, RemotePath, Wanted,
    transfer::{
        Event, Verify, part_name,
        plan::{Sent, There},
        temporary_name,
    },
};

/// A part. Never to be changed but with the mark: what is trusted of an older run's upload depends on it.
const PART: u64 = 4 * 1024 * 1024;

/// Whether the server is known not to take parts.
#[derive(Debug, Default)]
pub(super) struct RangesUnsupported(AtomicBool);

impl RangesUnsupported {
    pub(super) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Upload<'_> {
    /// Uploads a file in parts; none if the server turns out not to take them, or to take them for something else.
    pub(super) async fn send_ranges(
        &self,
        local: &Path,
        path: &RemotePath,
        length: u64,
        precondition: &Precondition,
        claims: &If,
        lanes: usize,
    ) -> Result<Option<Sent>, Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::Differs { path: path.clone(), why: "it is not a file name".into() });
        };
        let seen = Seen::look(local, length)?;
        let alone = self.alone(local, path, PART)?;
        let name = alone.as_ref().map_or_else(|| temporary_name(name), |alone| part_name(name, alone.mark));
        let temporary = parent.join(&name, false)?;
        if alone.is_none() {
            self.temporary().insert(temporary.clone(), None);
        }
        let staged = async {
            let fits = self.stage(local, &temporary, length, alone.is_some(), lanes).await?;
            seen.still(local)?;
            if fits {
                self.rename(&temporary, path, precondition, claims, Some(Body::file(local.to_owned(), 0, length)))
                    .await?;
            }
            Ok(fits)
        };
        let staged = staged.await;
        match &staged {
            Ok(true) => drop(self.temporary().remove(&temporary)),
            Ok(false) => {
                self.whole_only.0.store(true, Ordering::Relaxed);
                self.discard(&temporary, alone, false).await;
            }
            Err(why) if alone.is_some() && is_passing(why) => {}
            Err(_) => self.discard(&temporary, alone, false).await,
        }
        let compared = self.options.verify == Verify::Digest;
        staged.map(|fits| fits.then_some(Sent { bytes: length, etag: None, compared, seen: None }))
    }

    /// Writes all that is missing under the temporary name; whether what is there then is what was sent.
    async fn stage(
        &self,
        local: &Path,
        temporary: &RemotePath,
        length: u64,
        resumes: bool,
        lanes: usize,
    ) -> Result<bool, Error> {
        let mut has = None;
        if resumes {
            has = self.dav.stat(temporary, Wanted::LISTING).await?.and_then(|there| there.properties.length);
            if has.is_some_and(|has| has > length) {
                self.dav.delete(temporary, &Precondition::None, &If::default()).await?;
                has = None;
            }
        }
        if has.is_none() {
            let options = haul_http::Options::default();
            let made = self
                .dav
                .put(temporary, Body::empty(), HeaderMap::new(), &Precondition::Absent, &If::default(), options)
                .await;
            match made {
                // Another name may not be ours to write.
                Err(Error::Refused(why)) if !why.is_passing() => return Ok(false),
                made => drop(made?),
            }
        }
        let start = trusted(has.unwrap_or(0));
        if start > 0 {
            (self.watch)(Event::Moved { bytes: start });
        }
        let parts = (start..length).step_by(PART as usize).map(|start| start..(start + PART).min(length));
        let sent = stream::iter(parts)
            .map(|range| self.send_part(local, temporary, range, length))
            // In order: see `trusted`.
            .buffered(lanes.min(LANES))
            .try_for_each(|()| async { Ok(()) })
            .await;
        match sent {
            Ok(()) => {}
            // What does not know parts says so (RFC 9110 §14.5), if it does not take them for something else.
            Err(error) if error.is(400) || error.is(501) => return Ok(false),
            Err(error) => return Err(error),
        }
        let there = self.dav.stat(temporary, self.wanted).await?;
        let Some(there) = there.filter(|there| there.properties.length == Some(length)) else { return Ok(false) };
        if self.options.verify != Verify::Digest {
            return Ok(true);
        }
        let mut body = Body::file(local.to_owned(), 0, length);
        let there = There::from(&there);
        self.dav.holds(temporary, &mut body, &there.checksums, there.expected()).await
    }

    async fn send_part(
        &self,
        local: &Path,
        temporary: &RemotePath,
        range: Range<u64>,
        whole: u64,
    ) -> Result<(), Error> {
        let told = format!("bytes {}-{}/{whole}", range.start, range.end - 1);
        let headers = HeaderValue::from_str(&told).into_iter().map(|told| (CONTENT_RANGE, told)).collect();
        let body = self.part_of(local, &range);
        let options = haul_http::Options { class: Class::Large, ..haul_http::Options::default() };
        self.dav.put(temporary, body, headers, &Precondition::Present, &If::default(), options).await?;
        Ok(())
    }

    /// A part of a file here, which is counted as it is sent.
    pub(super) fn part_of(&self, local: &Path, range: &Range<u64>) -> Body {
        let watch = self.watch.clone();
        let body = Body::file(local.to_owned(), range.start, range.end - range.start);
        body.watched(move |bytes| watch(Event::Moved { bytes }))
    }

    /// The mark that an upload is gone on from by, if it is to be, and nobody else has it.
    pub(super) fn alone(&self, local: &Path, path: &RemotePath, size: u64) -> Result<Option<ResumeKey>, Error> {
        let origin = self.dav.requests().origin().to_string();
        if self.options.resume { ResumeKey::claim(local, path, &origin, size) } else { Ok(None) }
    }
}

/// How much of a file that is `has` bytes long is certainly there. The last part that has begun reaches to its end, and
/// when it began, all but [`LANES`] with it were done.
fn trusted(has: u64) -> u64 {
    has.div_ceil(PART).saturating_sub(LANES as u64) * PART
}

/// Whether an upload that failed so may succeed later with what is there.
pub(super) fn is_passing(why: &Error) -> bool {
    match why {
        Error::Http(_) => true,
        Error::Refused(failure) => failure.is_passing() || failure.status.as_u16() == 423,
        _ => false,
    }
}

const _: () = assert!(PART < LARGE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_the_last_part_began_is_there() {
        let parts = |count: u64| count * PART;
        for (has, sure) in [(0, 0), (1, 0), (parts(8), 0), (parts(8) + 1, 1), (parts(20) - 1, 12), (parts(20), 12)] {
            assert_eq!(trusted(has), parts(sure), "{has}");
        }
    }
}
