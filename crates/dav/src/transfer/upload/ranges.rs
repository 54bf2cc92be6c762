//! Uploads a file in parts, to a server that writes a part where `Content-Range` says.
//!
//! Only Apache's mod_dav_fs does; this was observed with 2.4.71. It writes in place, and several parts at a time do not
//! disturb each other. It creates a missing file, and deletes it again if the part that created it is cut short, even while
//! others write to it: so an empty file is created first, and parts require that it exists (`If-Match: *`). It does not
//! compare the length of a part with its range, and never truncates a file. What it wrote of a part that was cut short stays.
//!
//! The length of a file with holes says nothing about them. But parts start in order, and none starts before all but the last
//! few before it are complete. So everything before those is complete ([`trusted`]), and nothing else needs to be stored to
//! resume an upload.
//!
//! RFC 9110 §14.5 allows a server to take a part for the whole. So the temporary file is checked before it is renamed: if its
//! length differs from what was sent, or its content where digests are compared, it is deleted, and the file is sent by a
//! single PUT.

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
    source_content::Seen,
    strategy::{LANES, LARGE},
};
use crate::{
    Error, If, Precondition, PropertySet, RemotePath,
    transfer::{
        Event, Verify, part_name,
        plan::{RemoteEntry, Sent},
        temporary_name,
    },
};

/// The size of a part. Must only change together with the resume key: how much of an older upload is trusted depends on
/// it.
const PART: u64 = 4 * 1024 * 1024;

/// Whether the server is known not to support `Content-Range`.
#[derive(Debug, Default)]
pub(super) struct RangesUnsupported(AtomicBool);

impl RangesUnsupported {
    pub(super) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Upload<'_> {
    /// Uploads a file in parts; none if the server does not support that, or misinterprets it.
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
                self.learned.ranges_unsupported.0.store(true, Ordering::Relaxed);
                self.discard(&temporary, alone, false).await;
            }
            Err(why) if alone.is_some() && is_passing(why) => {}
            Err(_) => self.discard(&temporary, alone, false).await,
        }
        let compared = self.options.verify == Verify::Digest;
        staged.map(|fits| fits.then_some(Sent { bytes: length, etag: None, compared, seen: None }))
    }

    /// Writes all missing parts under the temporary name; returns whether the result is right.
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
            has = self.dav.stat(temporary, PropertySet::LISTING).await?.and_then(|there| there.properties.length);
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
                // We may not be allowed to create another name.
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
            // A server without support should answer so (RFC 9110 §14.5).
            Err(error) if error.is(400) || error.is(501) => return Ok(false),
            Err(error) => return Err(error),
        }
        let there = self.dav.stat(temporary, self.properties).await?;
        let Some(there) = there.filter(|there| there.properties.length == Some(length)) else { return Ok(false) };
        if self.options.verify != Verify::Digest {
            return Ok(true);
        }
        let mut body = Body::file(local.to_owned(), 0, length);
        let there = RemoteEntry::from(&there);
        self.dav.holds(temporary, &mut body, &there.facts.checksums, there.facts.expected()).await
    }

    async fn send_part(
        &self,
        local: &Path,
        temporary: &RemotePath,
        range: Range<u64>,
        whole: u64,
    ) -> Result<(), Error> {
        let value = format!("bytes {}-{}/{whole}", range.start, range.end - 1);
        let headers = HeaderValue::from_str(&value).into_iter().map(|value| (CONTENT_RANGE, value)).collect();
        let body = self.part_of(local, &range);
        let options = haul_http::Options { class: Class::Large, ..haul_http::Options::default() };
        self.dav.put(temporary, body, headers, &Precondition::Present, &If::default(), options).await?;
        Ok(())
    }

    /// A part of a local file, which reports progress.
    pub(super) fn part_of(&self, local: &Path, range: &Range<u64>) -> Body {
        let watch = self.watch.clone();
        let body = Body::file(local.to_owned(), range.start, range.end - range.start);
        body.watched(move |bytes| watch(Event::Moved { bytes }))
    }

    /// The resume key of an upload; none without `--resume`, or if another process holds it.
    pub(super) fn alone(&self, local: &Path, path: &RemotePath, size: u64) -> Result<Option<ResumeKey>, Error> {
        let origin = self.dav.requests().origin().to_string();
        if self.options.resume { ResumeKey::claim(local, path, &origin, size) } else { Ok(None) }
    }
}

/// How much of a file of `has` bytes is certainly complete. The last part that was started reaches to its end, and when
/// it started, all but [`LANES`] parts were complete.
fn trusted(has: u64) -> u64 {
    has.div_ceil(PART).saturating_sub(LANES as u64) * PART
}

/// Whether a failed upload may be resumed later.
pub(super) fn is_passing(why: &Error) -> bool {
    match why {
        Error::Http(_) => true,
        Error::Refused(failure) => failure.is_passing(),
        _ => false,
    }
}

const _: () = assert!(PART < LARGE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_before_the_last_few_are_trusted() {
        let parts = |count: u64| count * PART;
        for (has, sure) in [(0, 0), (1, 0), (parts(8), 0), (parts(8) + 1, 1), (parts(20) - 1, 12), (parts(20), 12)] {
            assert_eq!(trusted(has), parts(sure), "{has}");
        }
    }
}
