//! Uploads one file with its lock and its precondition, on request staged under a temporary name.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use haul_http::{Body, Class};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    Upload,
    resume_key::ResumeKey,
    source_content::Source,
    strategy::{LARGE, Strategy, is_long},
};
use crate::{
    Capabilities, Confirmed, Dav, Error, If, Precondition, RemotePath,
    transfer::{
        SHARED,
        plan::{Before, RemoteEntry, Sent},
        source_file::SourceFile,
        temporary_name,
    },
};

/// How a file is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendMode {
    /// Look it up right behind its upload.
    pub(super) looks: bool,
    /// No other request on its connection, because nothing else could show whose success it is.
    pub(super) alone: bool,
}

impl Upload<'_> {
    /// Uploads a file, under its lock if it needs one, and with a lookup right behind it if `mode` says so.
    pub(super) async fn file(
        &self,
        origin: &SourceFile,
        path: &RemotePath,
        length: u64,
        modified: Option<SystemTime>,
        before: Before,
        mode: SendMode,
    ) -> Result<Sent, Error> {
        if before == Before::Folder {
            return self.replace_by_file(origin, path, length, modified).await;
        }
        let exists = matches!(before, Before::File(_));
        if exists {
            self.back_up_copy(path).await?;
        }
        let seen = before != Before::Unseen;
        let _turn = self.held_locks.turn(exists).await;
        let claims = self.held_locks.acquire(path, exists).await?;
        // A lock on a new name has created an empty file.
        let lock_created = !exists && claims != If::default();
        let precondition = match before {
            Before::File(precondition) => precondition,
            _ if lock_created => Precondition::None,
            _ => Precondition::Absent,
        };
        let sent = self.send(origin, path, length, modified, &precondition, &claims, (seen, mode)).await;
        self.held_locks.release(path, sent.is_ok()).await;
        sent
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
    async fn send(
        &self,
        origin: &SourceFile,
        path: &RemotePath,
        length: u64,
        modified: Option<SystemTime>,
        precondition: &Precondition,
        claims: &If,
        (seen, SendMode { looks, alone }): (bool, SendMode),
    ) -> Result<Sent, Error> {
        let way = match origin {
            SourceFile::Local(local) if seen => Some((self.way(path, length).await, local)),
            _ => None,
        };
        match (way, &self.nextcloud) {
            (Some((Strategy::Chunks { size, lanes }, local)), Some(nextcloud)) => {
                let by = (size, lanes);
                return self
                    .send_chunks(nextcloud, local, path, length, modified, precondition, claims, by)
                    .boxed()
                    .await;
            }
            (Some((Strategy::Ranges { lanes }, local)), _) => {
                if let Some(sent) = self.send_ranges(local, path, length, precondition, claims, lanes).boxed().await? {
                    return Ok(sent);
                }
            }
            _ => {}
        }
        let source = self.open(origin, length).await?;
        let bytes = source.body.length().unwrap_or(length);
        let stated = self.stated(&source).await?;
        let headers: HeaderMap = mtime(modified).into_iter().collect();
        let class = if bytes <= SHARED { Class::Small } else { Class::Large };
        let options = haul_http::Options { class, pipeline: !alone, ..haul_http::Options::default() };
        if self.options.temporary {
            self.send_renamed(path, source, (headers, stated), precondition, claims, options).await?;
            return Ok(Sent { bytes, etag: None, compared: false, seen: None });
        }
        let look = looks.then_some(self.properties);
        let put =
            |body, headers| self.dav.put_and_look(path, body, headers, precondition, claims, options.clone(), look);
        let (stored, found) = self.put_stated(source.body, (headers, stated), put).await?;
        source.seen.still_of(origin)?;
        Ok(Sent { bytes, etag: stored.etag, compared: false, seen: found.as_ref().map(RemoteEntry::from) })
    }

    /// Chooses how to send a file. Waits for the server's capabilities only if they matter.
    async fn way(&self, path: &RemotePath, length: u64) -> Strategy {
        let windows = self.dav.client().windows(self.dav.requests().origin());
        let options = self.options;
        let worth = self.nextcloud.is_some() || options.resume || options.temporary || is_long(length, windows);
        let matters = length >= LARGE && worth;
        let known = if matters { self.dav.learn(path).await.ok() } else { None };
        let unknown = Capabilities::default();
        match Strategy::of(length, options, known.unwrap_or(&unknown), windows, self.nextcloud.is_some()) {
            Strategy::Ranges { .. } if self.learned.ranges_unsupported.is_known() && options.temporary => {
                Strategy::Renamed
            }
            Strategy::Ranges { .. } if self.learned.ranges_unsupported.is_known() => Strategy::Whole,
            way => way,
        }
    }

    /// Staged upload: uploads under a temporary name and renames the complete file, if the precondition holds.
    async fn send_renamed(
        &self,
        path: &RemotePath,
        source: Source,
        headers: (HeaderMap, HeaderMap),
        precondition: &Precondition,
        claims: &If,
        options: haul_http::Options,
    ) -> Result<(), Error> {
        let Source { body, seen, origin, .. } = source;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::Differs { path: path.clone(), why: "it is not a file name".into() });
        };
        let temporary = parent.join(&temporary_name(name), false)?;
        self.temporary().insert(temporary.clone(), None);
        let ours = body.try_clone();
        let none = If::default();
        let put =
            |body, headers| self.dav.put(&temporary, body, headers, &Precondition::Absent, &none, options.clone());
        let put = self.put_stated(body, headers, put).await;
        let refused = put.as_ref().is_err_and(|why| why.refusal().is_some());
        let renamed = async {
            put?;
            seen.still_of(&origin)?;
            self.rename(&temporary, path, precondition, claims, ours).await.map(drop)
        };
        let renamed = renamed.await;
        match &renamed {
            Ok(()) => drop(self.temporary().remove(&temporary)),
            Err(_) => self.discard(&temporary, None, refused).await,
        }
        renamed
    }

    /// Renames a complete upload to its final name.
    pub(super) async fn rename(
        &self,
        temporary: &RemotePath,
        path: &RemotePath,
        precondition: &Precondition,
        locks: &If,
        ours: Option<Body>,
    ) -> Result<Confirmed, Error> {
        let (overwrite, claims) = renaming(self.dav, path, precondition, locks);
        match self.dav.rename(temporary, path, overwrite, &claims).await {
            // The rename was done already; its answer was lost.
            Err(error) if error.is(404) && self.dav.is_ours(&error, path, ours).await => Ok(Confirmed::ByLookup),
            // A server without ETags in `If` answers 412 to every tag.
            Err(error)
                if error.is(412)
                    && claims != *locks
                    && let Precondition::Unchanged(tag) = precondition
                    && self.dav.is_still(path, tag).await =>
            {
                self.dav.rename(temporary, path, overwrite, locks).await
            }
            renamed => renamed,
        }
    }

    /// Deletes a temporary file. After a `refused` upload it is believed not to exist. Otherwise, if it cannot be
    /// deleted now, the cleanup at the end tries again.
    pub(super) async fn discard(&self, temporary: &RemotePath, alone: Option<ResumeKey>, refused: bool) {
        let gone = match self.dav.delete(temporary, &Precondition::None, &If::default()).await {
            Ok(_) => true,
            Err(error) => error.is(404) && refused,
        };
        if gone {
            self.temporary().remove(temporary);
        } else {
            self.temporary().insert(temporary.clone(), alone);
        }
    }
}

/// The `Overwrite` and `If` of a MOVE to `path`.
pub(super) fn renaming(dav: &Dav, path: &RemotePath, precondition: &Precondition, claims: &If) -> (bool, If) {
    let claims = match precondition {
        Precondition::Unchanged(tag) => dav.claim_unchanged(claims, path, tag),
        _ => claims.clone(),
    };
    (*precondition != Precondition::Absent, claims)
}

/// The header that sets a file's time on Nextcloud and ownCloud; others ignore it.
pub(super) fn mtime(modified: Option<SystemTime>) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_static("x-oc-mtime"), HeaderValue::from(seconds(modified)?)))
}

pub(super) fn seconds(modified: Option<SystemTime>) -> Option<u64> {
    Some(modified?.duration_since(UNIX_EPOCH).ok()?.as_secs())
}
