//! Which files need no download: unchanged ones, and local ones that the user wants to keep.

use std::fs;

use haul_http::Body;

use super::{Download, RemoteFile};
use crate::{
    RemotePath,
    transfer::{
        KeepExisting, Skip, SkipReason, lock,
        unchanged::{Here, SyncedVersion, Times},
    },
};

impl Download<'_> {
    /// Records that both sides of a file are equal now.
    pub(super) fn record_synced(&self, remote: &RemoteFile, here: Here<'_>) {
        lock(&self.synced_versions).keep(
            &remote.folder.path,
            &remote.name,
            SyncedVersion::of(here, remote.facts.version()),
        );
    }

    /// Why an existing local file is kept, if it is.
    pub(super) fn keep_reason(&self, remote: &RemoteFile) -> Option<SkipReason> {
        let keep = Some(self.options.keep_existing)
            .filter(|keep| *keep != KeepExisting::default() && !remote.folder.is_new)?;
        let here = if remote.folder.named {
            fs::metadata(remote.local_path())
        } else {
            fs::symlink_metadata(remote.local_path())
        };
        let here = here.ok().filter(|here| !here.is_dir())?;
        let (source, target) = ((remote.facts.length, remote.facts.modified), (Some(here.len()), here.modified().ok()));
        keep.reason(source, target)
    }

    /// Whether the local file is unchanged, so that no download is needed.
    pub(super) async fn is_unchanged(&self, remote: &RemoteFile, path: &RemotePath) -> bool {
        let (local, facts) = (remote.local_path(), &remote.facts);
        let here = if remote.folder.named { fs::metadata(&local) } else { fs::symlink_metadata(&local) };
        let Ok(here) = here.as_ref().map(|here| (here.is_file(), here.len(), here.modified().ok())) else {
            return false;
        };
        match (here, self.options.skip) {
            (_, Skip::Nothing) | ((false, ..), _) => false,
            ((_, length, _), _) if facts.length != Some(length) => false,
            ((_, length, modified), Skip::SameSizeAndTime) => {
                let (times, here) = (
                    Times { window: self.options.modify_window, ..Times::default() },
                    Here { length, modified, etag: None },
                );
                let same = {
                    let records = lock(&self.synced_versions);
                    times.of_download(here, facts.version(), records.of(&remote.folder.path, &remote.name))
                };
                if same {
                    self.record_synced(remote, here);
                }
                same
            }
            // If the comparison fails, the file is downloaded.
            ((_, length, _), Skip::SameDigest) => {
                let mut body = Body::file(local, 0, length);
                self.dav.holds(path, &mut body, &facts.checksums, facts.expected()).await.unwrap_or(false)
            }
        }
    }
}
