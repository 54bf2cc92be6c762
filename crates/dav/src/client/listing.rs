//! Answers about many resources, read as they come: listings, and what has changed since one (RFC 6578).

use std::{io, ops::ControlFlow};

use haul_http::{Answer, Options};
use http::{Method, StatusCode};
use http_body_util::BodyExt;

use crate::{
    Dav, Depth, End, Entry, Error, Failure, Item, Multistatus, PathError, PathProblem, RemotePath, Wanted,
    content_encoding::Decoder,
};

/// How long an answer may go on without an entry, in bytes.
const BARREN: usize = 4 * 1024 * 1024;
/// So many entries are kept until the folder's own has come.
const MOST_HELD: usize = 10_000;
/// In so many parts a server may tell what has changed.
const PARTS: usize = 10_000;
/// How many entries are looked at to see whether a server tells of what is far below.
const SAMPLE: u32 = 1000;

/// Reads an answer to `method` about `path`, each entry as soon as it is there, until `each` has enough; what stands
/// behind the entries, if it came to that.
pub(crate) async fn entries(
    answer: Answer,
    method: &'static str,
    path: &RemotePath,
    mut each: impl FnMut(Result<Entry, PathError>) -> ControlFlow<()>,
) -> Result<Option<End>, Error> {
    if answer.status() != StatusCode::MULTI_STATUS {
        let (parts, _) = answer.into_parts();
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let now = std::time::SystemTime::now();
        let none = Failure::new(&method, path, parts.status, &parts.headers, b"", now);
        return Err(Box::new(none).into());
    }
    let mut reader = Multistatus::new(path.clone());
    let listing = |why| Error::Listing { path: path.clone(), why };
    let differs = |why| Error::Differs { path: path.clone(), why };
    let coded = |error: io::Error| differs(format!("its listing cannot be decoded: {error}"));
    let mut decoder = Decoder::of(answer.headers()).map_err(coded)?;
    let mut barren = 0;
    let mut read = |reader: &mut Multistatus, text: &[u8]| {
        barren += text.len();
        if barren > BARREN {
            return Err(differs(format!("its listing goes on for {BARREN} bytes without saying anything")));
        }
        for item in reader.feed(text) {
            barren = 0;
            let more = match item.map_err(listing)? {
                Item::Entry(entry) => each(Ok(*entry)),
                Item::Misplaced(why) => each(Err(why)),
            };
            if more.is_break() {
                return Ok(more);
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(mut piece) = frame?.into_data() else { continue };
        while let Some(text) = decoder.next(&mut piece).map_err(coded)? {
            if read(&mut reader, &text)?.is_break() {
                return Ok(None);
            }
        }
    }
    let rest = decoder.finish().map_err(coded)?;
    if read(&mut reader, &rest)?.is_break() {
        return Ok(None);
    }
    reader.finish().map(Some).map_err(listing)
}

impl Dav {
    /// Lists a folder, or a whole tree where the server does that; each entry as soon as it is there. The folder itself
    /// is among them. What cannot be here by its name, or is not right below the folder where only that was asked for,
    /// is told as an error to `each`, and left out; so is, without a word, what the server says is not there.
    ///
    /// If the server refuses the folder itself amid its answer, as with a 507 where it has cut it, or says nothing at
    /// all, then the folder was not listed, whatever has come.
    pub async fn list(
        &self,
        path: &RemotePath,
        depth: Depth,
        wanted: Wanted,
        mut each: impl FnMut(Result<Entry, PathError>),
    ) -> Result<(), Error> {
        // A listing of this folder has the folder in it (RFC 4918 §9.1). Until it is seen, what comes may be the
        // answer to another request.
        let (mut held, mut is_own) = (Vec::new(), false);
        let listed = self.list_once(path, depth, wanted, Options::default(), |entry| {
            if is_own {
                each(entry);
                return ControlFlow::Continue(());
            }
            match entry {
                Ok(own) if own.path.same_place(path) => {
                    is_own = true;
                    each(Ok(own));
                    held.drain(..).for_each(|entry| each(Ok(entry)));
                }
                Ok(entry) if held.len() < MOST_HELD => held.push(entry),
                _ => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        });
        match listed.await {
            Ok(()) | Err(Error::Differs { .. } | Error::Listing { .. }) if !is_own => {}
            listed => return listed,
        }
        let alone = Options { alone: true, ..Options::default() };
        let all = |entry| {
            each(entry);
            ControlFlow::Continue(())
        };
        self.list_once(path, depth, wanted, alone, all).await
    }

    async fn list_once(
        &self,
        path: &RemotePath,
        depth: Depth,
        wanted: Wanted,
        options: Options,
        mut each: impl FnMut(Result<Entry, PathError>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let answer = self.ask(self.requests().propfind(path, depth, wanted), path, options).await?;
        let (mut refused, mut silent) = (None, true);
        let is_below = |entry: &Entry| depth != Depth::One || entry.path.parent().is_some_and(|it| it.same_place(path));
        let read = entries(answer, "PROPFIND", path, |entry| {
            silent = false;
            match entry {
                Ok(entry) if entry.path.same_place(path) => {
                    refused = refusal(&entry);
                    if refused.is_some() {
                        return ControlFlow::Break(());
                    }
                    each(Ok(entry))
                }
                Ok(entry) if entry.status == Some(StatusCode::NOT_FOUND) => ControlFlow::Continue(()),
                Ok(entry) if !is_below(&entry) => {
                    each(Err(PathError::new(&entry.path.to_string(), PathProblem::TooDeep(path.clone()))))
                }
                entry => each(entry),
            }
        });
        read.await?;
        match refused {
            Some(refused) => Err(Box::new(refused).into()),
            None if silent => {
                let why = "the server's listing says nothing, not even that it is there".into();
                Err(Error::Differs { path: path.clone(), why })
            }
            None => Ok(()),
        }
    }

    /// What has changed in a folder, or with [`Depth::Infinity`] in all folders below it too, since it had the state
    /// `token`: each entry as soon as it is there. What is gone has the status 404, and the properties are those of
    /// now. The token of the state that this leads to. A token that is too old is refused with
    /// [`crate::ConditionCode::ValidSyncToken`]. (RFC 6578 §3.)
    pub async fn changes(
        &self,
        path: &RemotePath,
        token: &str,
        depth: Depth,
        wanted: Wanted,
        mut each: impl FnMut(Result<Entry, PathError>),
    ) -> Result<String, Error> {
        let mut token = token.to_owned();
        for _ in 0..PARTS {
            let mut more = false;
            let answer = self.report(path, Some(&token), depth, None, wanted).await?;
            let end = entries(answer, "REPORT", path, |entry| {
                match entry {
                    // The list goes on where its token leads (RFC 6578 §3.6).
                    Ok(entry) if entry.status == Some(StatusCode::INSUFFICIENT_STORAGE) => more = true,
                    entry => each(entry),
                }
                ControlFlow::Continue(())
            });
            let next = end.await?.and_then(|end| end.sync_token);
            match next {
                Some(next) if !more => return Ok(next),
                Some(next) if next != token => token = next,
                _ => break,
            }
        }
        let why = "the server does not say where its list of changes goes on".into();
        Err(Error::Differs { path: path.clone(), why })
    }

    /// Whether a report about a folder is known to tell of what is in the folders in it. Servers that have no such
    /// reports ought to say so (RFC 6578 §3.3), and some just leave out what is below. So it is looked whether anything
    /// from there is among the first that has changed since `token`, or that is there.
    pub(crate) async fn tells_of_all_below(&self, path: &RemotePath, token: Option<&str>) -> bool {
        let report = self.report(path, token, Depth::Infinity, Some(SAMPLE), Wanted::ETAGS);
        let Ok(answer) = report.await else { return false };
        let (mut seen, mut left) = (false, SAMPLE);
        let read = entries(answer, "REPORT", path, |entry| {
            seen = entry.is_ok_and(|entry| is_far_below(&entry.path, path));
            left -= 1;
            if seen || left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.await.is_ok() && seen
    }

    async fn report(
        &self,
        path: &RemotePath,
        token: Option<&str>,
        depth: Depth,
        limit: Option<u32>,
        wanted: Wanted,
    ) -> Result<Answer, Error> {
        let request = self.requests().sync_collection(path, token, depth, limit, wanted);
        // Nothing in its answer names the folder.
        self.ask(request, path, Options { alone: true, ..Options::default() }).await
    }
}

/// What an answer about one path tells of it, whatever else it tells of.
pub(crate) async fn entry_of(answer: Answer, path: &RemotePath) -> Result<Option<Entry>, Error> {
    let mut found = None;
    let read = entries(answer, "PROPFIND", path, |entry| {
        found = found.take().or(entry.ok().filter(|entry| entry.path.same_place(path)));
        ControlFlow::Continue(())
    });
    read.await?;
    match found.as_ref().and_then(refusal) {
        Some(failure) if failure.status == StatusCode::NOT_FOUND => Ok(None),
        Some(failure) => Err(Box::new(failure).into()),
        None => Ok(found),
    }
}

/// How the server refuses to list this one, if it does so within a listing.
fn refusal(entry: &Entry) -> Option<Failure> {
    let status = entry.status.filter(|status| !status.is_success())?;
    let method = Method::from_bytes(b"PROPFIND").unwrap_or_default();
    Some(Failure::of_part(&method, &entry.path, status, entry.conditions.clone()))
}

/// Whether a path is below a folder that is in `folder`.
pub(crate) fn is_far_below(path: &RemotePath, folder: &RemotePath) -> bool {
    path.relative_to(folder).is_some_and(|names| names.count() > 1)
}
