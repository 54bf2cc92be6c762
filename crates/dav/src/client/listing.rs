//! Multistatus answers about many resources, read as they arrive: listings, and changes since a sync token (RFC 6578).

use std::{io, ops::ControlFlow};

use haul_http::{Answer, Options};
use http::{Method, StatusCode};
use http_body_util::BodyExt;

use crate::{
    Dav, Depth, End, Entry, Error, Failure, Item, Multistatus, PathError, PathProblem, PropertySet, RemotePath,
    content_encoding::Decoder,
};

/// Maximum number of bytes without an entry.
const BARREN: usize = 4 * 1024 * 1024;
/// Maximum number of entries kept back until the folder's own entry arrives.
const MOST_HELD: usize = 10_000;
/// Maximum number of parts of a list of changes.
const PARTS: usize = 10_000;
/// Number of entries examined to see whether a report covers folders below.
const SAMPLE: u32 = 1000;

/// Reads an answer to `method` about `path` and passes on each entry as it arrives, until `each` breaks. Returns what
/// follows the entries, if it was read to its end.
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
    let coded = |error: io::Error| differs(format!("cannot decode the listing: {error}"));
    let mut decoder = Decoder::of(answer.headers()).map_err(coded)?;
    let mut barren = 0;
    let mut read = |reader: &mut Multistatus, text: &[u8]| {
        barren += text.len();
        if barren > BARREN {
            return Err(differs(format!("the listing contains {BARREN} bytes without a single entry")));
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
    /// Lists a folder, or a whole tree if the server supports that, and passes on each entry as it arrives, the
    /// folder's own included. An entry with an unusable name, or not directly below the folder at depth 1, is passed on
    /// as an error. Entries with status 404 are dropped.
    ///
    /// Fails if the answer contains an error status for the folder itself (such as 507 for a truncated listing) or no
    /// entry at all, even after other entries have arrived.
    pub async fn list(
        &self,
        path: &RemotePath,
        depth: Depth,
        properties: PropertySet,
        mut each: impl FnMut(Result<Entry, PathError>),
    ) -> Result<(), Error> {
        // A listing contains the folder itself (RFC 4918 §9.1). Until that entry arrives, this may be the answer to
        // another request.
        let (mut held, mut is_own) = (Vec::new(), false);
        let listed = self.list_once(path, depth, properties, Options::default(), |entry| {
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
        let alone = Options { no_pipelining: true, ..Options::default() };
        let all = |entry| {
            each(entry);
            ControlFlow::Continue(())
        };
        self.list_once(path, depth, properties, alone, all).await
    }

    async fn list_once(
        &self,
        path: &RemotePath,
        depth: Depth,
        properties: PropertySet,
        options: Options,
        mut each: impl FnMut(Result<Entry, PathError>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let answer = self.ask(self.requests().propfind(path, depth, properties), path, options).await?;
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
                let why = "the server's listing is empty: even the folder itself is missing".into();
                Err(Error::Differs { path: path.clone(), why })
            }
            None => Ok(()),
        }
    }

    /// Lists the changes in a folder since `token`, with [`Depth::Infinity`] also in all folders below (RFC 6578 §3).
    /// Deleted entries have status 404; properties are current. Returns the new token. A token that is too old is
    /// refused with [`crate::ConditionCode::ValidSyncToken`].
    pub async fn changes(
        &self,
        path: &RemotePath,
        token: &str,
        depth: Depth,
        properties: PropertySet,
        mut each: impl FnMut(Result<Entry, PathError>),
    ) -> Result<String, Error> {
        let mut token = token.to_owned();
        for _ in 0..PARTS {
            let mut more = false;
            let answer = self.report(path, Some(&token), depth, None, properties).await?;
            let end = entries(answer, "REPORT", path, |entry| {
                match entry {
                    // The list continues at its token (RFC 6578 §3.6).
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
        let why = "the server does not say where its list of changes continues".into();
        Err(Error::Differs { path: path.clone(), why })
    }

    /// Whether reports about a folder certainly cover the folders below it. Servers without such reports should say so
    /// (RFC 6578 §3.3), but some just omit what is below. So this checks whether the first entries of a report since
    /// `token` contain anything from below.
    pub(crate) async fn tells_of_all_below(&self, path: &RemotePath, token: Option<&str>) -> bool {
        let report = self.report(path, token, Depth::Infinity, Some(SAMPLE), PropertySet::ETAGS);
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
        properties: PropertySet,
    ) -> Result<Answer, Error> {
        let request = self.requests().sync_collection(path, token, depth, limit, properties);
        // Nothing in the answer names the folder, so it must not be pipelined.
        self.ask(request, path, Options { no_pipelining: true, ..Options::default() }).await
    }
}

/// The entry for `path` in an answer, whatever else it contains.
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

/// The error status of an entry within a listing, if it has one.
fn refusal(entry: &Entry) -> Option<Failure> {
    let status = entry.status.filter(|status| !status.is_success())?;
    let method = Method::from_bytes(b"PROPFIND").unwrap_or_default();
    Some(Failure::of_part(&method, &entry.path, status, entry.conditions.clone()))
}

/// Whether a path is more than one level below `folder`.
pub(crate) fn is_far_below(path: &RemotePath, folder: &RemotePath) -> bool {
    path.relative_to(folder).is_some_and(|names| names.count() > 1)
}
