//! Lock files of programs: `index.lock`, `refs/heads/main.lock`.
//!
//! Git and others lock by creating a file that must not exist, and unlock by deleting or renaming it. Uploaded when it is
//! closed, such a file would not keep programs on other machines out while it is held, and its program would wait for the
//! upload in the end. So an empty new file `*.lock` that stays empty for a moment is created on the server while its program
//! works. One that is written at once is uploaded whole when it is closed, as any file: that is one request, not two.

use std::time::Duration;

use dav::{If, Precondition};
use tracing::debug;

use super::{Share, storing::failure, writing};
use crate::{
    cached_file::CachedFile,
    file_state::{Base, FileState},
    journal::Failure,
    tree::Ino,
};

const SUFFIX: &[u8] = b".lock";

/// How long a program may take to write content that it has at hand.
const PAUSE: Duration = Duration::from_millis(5);

impl Share {
    /// Whether a new file of this name is to exist on the server before it is closed.
    pub(crate) fn is_lock_file(&self, name: &[u8]) -> bool {
        self.write_back.is_none() && name.ends_with(SUFFIX)
    }

    /// A program has created a file. If it stays empty, the server gets it. If that fails, close(2) tries again, and says so.
    pub(crate) async fn create_if_empty(&self, ino: Ino, file: &CachedFile) {
        tokio::time::sleep(PAUSE).await;
        let _busy = self.closing().await;
        let _turn = file.upload.lock().await;
        let path = self.place_of(ino).0.filter(|_| self.tree().opens(ino) > 0);
        let snapshot = file.state(|state| state.snapshot());
        let snapshot = snapshot.filter(|snapshot| snapshot.base == Base::New && snapshot.length == 0);
        let Some((path, snapshot)) = path.zip(snapshot) else { return };
        let Ok(content) = writing::content(file, &snapshot) else { return };
        // Under a lock of the server, the file is there already.
        if self.locks.claims(&[&path]) != If::default() {
            return;
        }
        file.state(|state| state.begin_upload(&snapshot));
        match self.put(&path, content, &Precondition::Absent, &If::default()).await {
            Ok(stored) => self.stored(ino, file, &snapshot, stored),
            Err(error) => {
                debug!("cannot create {path} while it is empty: {error}");
                if failure(&error) != Failure::Unknown {
                    file.state(FileState::upload_refused);
                }
            }
        }
    }
}
