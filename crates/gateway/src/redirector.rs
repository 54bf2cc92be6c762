//! Saving a file as the Windows redirector does it: which of its requests need a round trip to the server.
//!
//! For a new file it sends PROPFIND (404), an empty PUT, LOCK, PROPPATCH, HEAD, PUT, PROPPATCH and UNLOCK, each when the one
//! before is answered. Two of them decide something: who has the file's lock, and whether the server has the content.
//!
//! - **Empty PUT**: becomes the LOCK that follows, which creates the file too (RFC 4918 §7.3). It has the owner and the
//!   duration of this credential's last LOCK, so the first file of a client is created without this. Apache's LOCK only
//!   reserves the name (RFC 2518 §7.4); if no content follows, the empty PUT is sent after all.
//! - **LOCK**: has the answer already, if it asks for the same lock.
//! - **HEAD** of a file that the lock has created, and that only its holder can write: it is empty.
//! - **PROPPATCH** of Windows' times and attributes: acknowledged, and sent when the file is unlocked, if the server has
//!   accepted such properties from this credential before.
//! - **UNLOCK**: acknowledged, and sent behind them.
//!
//! macOS' Finder saves in the same order, without PROPPATCH and HEAD: empty PUT, LOCK, PUT, UNLOCK; and so once more for the
//! extended attributes of the file, in `._name`. Its questions in between are answered from listings or passed on.
//!
//! - **Saving the file again**: `lingering` has kept its lock, and what the server says about the file since.
//!
//! So a new file takes two round trips, LOCK and PUT. What is acknowledged early is never content, and other requests of
//! this credential for the file, or for a folder above it, wait until it is done.

use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

use bytes::Bytes;
use dav::RemotePath;
use http::{HeaderMap, HeaderValue};

use crate::file_answer::FileAnswer;

/// The largest number of files that a credential saves at a time with this.
const FILES: usize = 256;
/// How long a file may be open.
const OPEN: Duration = Duration::from_hours(2);

/// A kind of client that saves like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saver {
    Redirector,
    /// webdavfs, macOS' file system: without PROPPATCH and HEAD.
    Finder,
}

/// The LOCK that a client will probably send.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) saver: Saver,
    pub(crate) body: Bytes,
    pub(crate) timeout: Option<HeaderValue>,
}

/// The server's answer to a LOCK.
#[derive(Debug, Clone)]
pub(crate) struct Locked {
    /// As in `Lock-Token`, in its angle brackets.
    pub(crate) token: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request, as far as this needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a RemotePath,
    /// Lock tokens that it presents, as the header field has them.
    pub(crate) tokens: Option<&'a str>,
    pub(crate) body: Option<&'a Bytes>,
    /// Whether all it does is to set Windows' properties.
    pub(crate) sets_times: bool,
}

/// What to do with a request.
#[derive(Debug)]
pub(crate) enum Step {
    Pass,
    /// Send this LOCK instead.
    Create(Template),
    /// The lock is there already.
    IsLocked(Locked),
    IsEmpty,
    /// The server has said so since the file's last change, and it is locked.
    Shows(FileAnswer),
    /// Acknowledge it, and keep it for later.
    Keep,
    /// Acknowledge it, and send it behind what was kept.
    Release,
}

/// What is known of a client that edits a file that was there. `L` is a request.
#[derive(Debug)]
pub(crate) struct Edit<L> {
    /// Its LOCK.
    pub(crate) template: Template,
    /// Its PROPFIND before that.
    pub(crate) look: Option<L>,
    /// The server's answer to that since the file's last change.
    pub(crate) shown: Option<FileAnswer>,
    /// Whether it has written.
    pub(crate) is_written: bool,
}

impl<L> Edit<L> {
    pub(crate) fn new(template: Template) -> Self {
        Self { template, look: None, shown: None, is_written: false }
    }
}

/// The lock under which a client writes a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// In its angle brackets.
    pub(crate) token: String,
    /// Whether the lock has created the file, and nothing was written since.
    pub(crate) is_new: bool,
}

/// A file that is not being saved any more.
#[derive(Debug)]
pub(crate) struct Released<L> {
    /// What was kept.
    pub(crate) kept: Vec<L>,
    /// Whether the file is created with that.
    pub(crate) is_created: bool,
    /// If it was edited: the lock, and when the server granted it.
    pub(crate) edited: Option<(Locked, Instant, Edit<L>)>,
}

/// The files that a credential's clients are saving. `L` is a request kept for later.
#[derive(Debug)]
pub(crate) struct Saves<L> {
    /// One of each kind of client: the owner of the lock differs.
    templates: Vec<Template>,
    /// Whether the server accepts Windows' properties.
    keeps_times: bool,
    /// The last look at a file.
    looked: Option<(RemotePath, L)>,
    files: HashMap<RemotePath, Save<L>>,
}

#[derive(Debug)]
struct Save<L> {
    locked: Locked,
    since: Instant,
    /// The client knows of the lock.
    is_claimed: bool,
    /// The lock created it, and nothing was written since.
    is_empty: bool,
    /// The PUT that creates it, if the server's lock only reserves the name.
    creation: Option<L>,
    /// The client has locked it itself.
    edit: Option<Edit<L>>,
    kept: Vec<L>,
}

impl<L> Default for Saves<L> {
    fn default() -> Self {
        Self { templates: Vec::new(), keeps_times: false, looked: None, files: HashMap::new() }
    }
}

impl<L> Saves<L> {
    /// Decides on a request of such a client. `is_absent`: a listing says so.
    pub(crate) fn step(&mut self, saver: Saver, ask: Ask<'_>, is_absent: bool, now: Instant) -> Step {
        let template = self.templates.iter().find(|template| template.saver == saver);
        let Some(save) = self.files.get_mut(ask.path) else {
            self.files.retain(|_, save| now.saturating_duration_since(save.since) < OPEN);
            let creates = ask.method == "PUT" && ask.tokens.is_none() && ask.body.is_some_and(Bytes::is_empty);
            let template = template.filter(|_| creates && is_absent && self.files.len() < FILES);
            return template.cloned().map_or(Step::Pass, Step::Create);
        };
        if !matches!(ask.method, "HEAD" | "UNLOCK")
            && let Some(edit) = &mut save.edit
        {
            edit.shown = None;
        }
        let has_token = ask.tokens.is_some_and(|tokens| tokens.contains(&save.locked.token));
        match ask.method {
            "LOCK" if !save.is_claimed && ask.tokens.is_none() => {
                let wanted = template.map(|template| &template.body);
                if ask.body != wanted {
                    return Step::Pass;
                }
                save.is_claimed = true;
                Step::IsLocked(save.locked.clone())
            }
            "HEAD" if save.is_claimed && save.is_empty => Step::IsEmpty,
            "HEAD" => {
                let shown = save.edit.as_ref().and_then(|edit| edit.shown.clone()).filter(|shown| shown.is_fresh(now));
                shown.map_or(Step::Pass, Step::Shows)
            }
            "PROPPATCH" if has_token && ask.sets_times && self.keeps_times => Step::Keep,
            "UNLOCK" if has_token => Step::Release,
            "PUT" if has_token => {
                (save.is_empty, save.creation) = (false, None);
                save.edit.iter_mut().for_each(|edit| edit.is_written = true);
                Step::Pass
            }
            _ => Step::Pass,
        }
    }

    /// The lock under which a PUT writes, if it is the only condition.
    pub(crate) fn claim(&self, ask: Ask<'_>) -> Option<Claim> {
        let save = self.files.get(ask.path).filter(|save| ask.method == "PUT" && save.is_claimed)?;
        let condition = ask.tokens?.strip_prefix('(')?.strip_suffix(')')?;
        let is_new = save.edit.is_none() && save.is_empty;
        (condition.trim() == save.locked.token).then(|| Claim { token: save.locked.token.clone(), is_new })
    }

    /// Whether a request will be acknowledged whatever goes on with its file.
    pub(crate) fn is_acknowledged(&self, ask: Ask<'_>) -> bool {
        let has_token = |save: &Save<L>| ask.tokens.is_some_and(|tokens| tokens.contains(&save.locked.token));
        self.files.get(ask.path).is_some_and(has_token)
            && (ask.method == "UNLOCK" || ask.method == "PROPPATCH" && ask.sets_times && self.keeps_times)
    }

    /// A LOCK was sent in place of a PUT, and created the file, or reserved its name until the PUT `creation`.
    pub(crate) fn created(&mut self, path: RemotePath, locked: Locked, creation: Option<L>, now: Instant) {
        let save =
            Save { locked, since: now, is_claimed: false, is_empty: true, creation, edit: None, kept: Vec::new() };
        self.files.insert(path, save);
    }

    /// The client looks at a file, perhaps in order to save it.
    pub(crate) fn looks(&mut self, path: &RemotePath, look: L) {
        self.looked = Some((path.clone(), look));
    }

    /// The client has locked a file itself.
    pub(crate) fn locked(&mut self, path: RemotePath, template: Template, locked: Locked, now: Instant) {
        self.templates.retain(|known| known.saver != template.saver);
        self.templates.push(template.clone());
        let look = self.looked.take_if(|(at, _)| at.same_place(&path)).map(|(_, look)| look);
        self.edits(path, locked, now, Edit { look, ..Edit::new(template) });
    }

    /// The client has a lock that the server granted at `since`.
    pub(crate) fn edits(&mut self, path: RemotePath, locked: Locked, since: Instant, edit: Edit<L>) {
        if self.files.len() < FILES {
            let (is_claimed, is_empty, creation, kept) = (true, false, None, Vec::new());
            let edit = Some(Edit { is_written: false, ..edit });
            self.files.insert(path, Save { locked, since, is_claimed, is_empty, creation, edit, kept });
        }
    }

    /// The server does not create files by LOCK as it should.
    pub(crate) fn cannot_create(&mut self) {
        self.templates.clear();
    }

    /// Whether the server has accepted Windows' properties.
    pub(crate) fn times_kept(&mut self, are_kept: bool) {
        self.keeps_times = are_kept;
    }

    pub(crate) fn keep(&mut self, path: &RemotePath, request: L) {
        if let Some(save) = self.files.get_mut(path) {
            save.kept.push(request);
        }
    }

    /// The client does not save a file any more.
    pub(crate) fn release(&mut self, path: &RemotePath) -> Released<L> {
        let Some(mut save) = self.files.remove(path) else {
            return Released { kept: Vec::new(), is_created: false, edited: None };
        };
        let is_created = save.creation.is_some();
        let kept = save.take();
        let edited = save.edit.filter(|edit| edit.is_written).map(|edit| (save.locked, save.since, edit));
        Released { kept, is_created, edited }
    }

    /// A file whose lock no client has claimed: the lock, and what was kept. It is not being saved any more.
    pub(crate) fn unclaimed(&mut self, path: &RemotePath) -> Option<(Locked, Vec<L>)> {
        self.files.get(path).filter(|save| !save.is_claimed)?;
        self.files.remove(path).map(|mut save| (save.locked.clone(), save.take()))
    }

    /// Files of which something was kept.
    pub(crate) fn kept(&self) -> usize {
        self.files.values().filter(|save| !save.kept.is_empty()).count()
    }

    /// What was kept of files at, below or above a path: it goes before a request for that.
    pub(crate) fn kept_around(&mut self, path: &RemotePath) -> Vec<(RemotePath, Vec<L>)> {
        let is_open = |save: &Save<L>| !save.kept.is_empty() || save.creation.is_some();
        let around = self.files.iter_mut().filter(|(file, save)| is_open(save) && are_related(file, path));
        around.map(|(file, save)| (file.clone(), save.take())).collect()
    }
}

impl<L> Save<L> {
    /// What has to be sent, in its order.
    fn take(&mut self) -> Vec<L> {
        self.creation.take().into_iter().chain(self.kept.drain(..)).collect()
    }
}

/// Whether one path is the other, or above it.
pub(crate) fn are_related(one: &RemotePath, other: &RemotePath) -> bool {
    let [one, other] = [one, other].map(|path| path.clone().as_folder(true));
    one.relative_to(&other).is_some() || other.relative_to(&one).is_some()
}

#[cfg(test)]
mod tests;
