//! Uploads by a single PUT, and the outcome of those without a clear answer.
//!
//! A conditional PUT that was sent more than once may be refused because of its own success: the file that it should create
//! exists already. And a large PUT without an answer may have taken effect, or may still do so; the engine does not repeat
//! it, because the server may be working on it. So before an error is reported, a lookup checks the server:
//!
//! - If the server has our content, the upload has succeeded.
//! - If nothing has changed, it is sent once more under the same precondition. Should the first one complete after all, the
//!   precondition keeps one of the two out.
//! - Anything else stays as it is, and is reported.

use std::time::Duration;

use haul_http::{Body, Class, Expected, FollowUp, FollowUpResponse, Options, ResponseInfo, Timeouts};
use http::{HeaderMap, StatusCode, header};
use tokio::time::timeout;

use crate::{
    Dav, ETag, Entry, Error, If, Precondition, PropertySet, RemotePath,
    client::confirmation::is_undecided,
    client::listing::entry_of,
    client::{LONGEST_WORK, TRIES, drain},
    requests::Depth,
};

/// The result of a successful upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Whether the file is new.
    pub created: bool,
    /// The entity tag of this version, if the response has one.
    pub etag: Option<ETag>,
    /// How often it was sent. Another copy may still be on its way.
    pub times_sent: u32,
}

/// Bytes per second that a server stores at the least after it has received a PUT: it may scan the file, or copy it on
/// a slow disk.
const SLOWEST_STORE: u64 = 8 * 1024 * 1024;
/// Time limit of a check on an upload without an answer, which may have to download it.
const LOOK: Duration = Duration::from_mins(2);
/// The outcome of an upload without an answer.
enum Fate {
    /// The file is there, with our content.
    Done,
    /// Nothing has changed.
    Nothing,
    Unknown,
}

impl Dav {
    /// Uploads a file, if `precondition` holds. If the answer does not tell the outcome, a lookup does.
    pub async fn put(
        &self,
        path: &RemotePath,
        body: Body,
        headers: HeaderMap,
        precondition: &Precondition,
        locks: &If,
        options: Options,
    ) -> Result<Stored, Error> {
        Ok(self.put_and_look(path, body, headers, precondition, locks, options, None).await?.0)
    }

    /// The same, followed by a PROPFIND of the result (its [`PropertySet::LISTING`]) in the same round trip. `None` if the
    /// connection did not allow that, or the entry is missing in the answer.
    pub async fn put_and_stat(
        &self,
        path: &RemotePath,
        body: Body,
        headers: HeaderMap,
        precondition: &Precondition,
        locks: &If,
        options: Options,
    ) -> Result<(Stored, Option<Entry>), Error> {
        let properties = Some(PropertySet::LISTING);
        self.put_and_look(path, body, headers, precondition, locks, options, properties).await
    }

    /// The same, followed by a PROPFIND of the result, in the same round trip if possible.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
    pub(crate) async fn put_and_look(
        &self,
        path: &RemotePath,
        body: Body,
        headers: HeaderMap,
        precondition: &Precondition,
        locks: &If,
        mut options: Options,
        properties: Option<PropertySet>,
    ) -> Result<(Stored, Option<Entry>), Error> {
        let mut request = self.requests().put(path, precondition, &self.claims(path, precondition, locks))?.map(drop);
        request.headers_mut().extend(headers);
        if let Some(properties) = properties
            && let Some(look) = FollowUp::new(self.requests().propfind(path, Depth::Zero, properties)?)
        {
            request.extensions_mut().insert(look);
        }
        if options.class == Class::Large && options.timeouts.is_none() {
            options.timeouts = storing(body.length(), self.client().timeouts());
        }
        request.extensions_mut().insert(options);
        let ours = body.try_clone();
        let done = || (Stored { created: *precondition == Precondition::Absent, etag: None, times_sent: 2 }, None);
        let mut answer = self.send(request.clone().map(|()| body), path).await;
        if let Err(error) = &answer
            && (is_undecided(error) || matches!(error, Error::Http(haul_http::Error::Exchange { .. })))
        {
            let [looked, again] = [(); 2].map(|()| ours.as_ref().and_then(Body::try_clone));
            // What the engine or a gateway has tried several times is not repeated again.
            let once = matches!(error, Error::Http(haul_http::Error::OutcomeUnknown { .. }));
            match (timeout(self.look_limit(LOOK), Box::pin(self.fate(path, precondition, looked))).await, again) {
                (Ok(Fate::Done), _) => return Ok(done()),
                (Ok(Fate::Nothing), Some(body)) if once => {
                    answer = self.send(request.map(|()| body), path).await.map_err(Error::sent_again);
                }
                (Ok(Fate::Nothing), _) => {
                    answer =
                        answer.map_err(|error| error.with_found("nothing has changed on the server; retry".into()));
                }
                _ => {}
            }
        }
        let answer = match answer {
            Err(error)
                if *precondition != Precondition::None
                    && error.is(412)
                    && was_repeated(&error)
                    && self.is_there(path, ours).await =>
            {
                return Ok(done());
            }
            other => other?,
        };
        let created = answer.status() == StatusCode::CREATED;
        let etag = answer.headers().get(header::ETAG).and_then(ETag::from_header);
        // What followed the first copy of a PUT that was sent again shows what the file was before.
        let times_sent = answer.extensions().get::<ResponseInfo>().map_or(1, |info| info.sendings);
        let look = answer.extensions().get::<FollowUpResponse>().filter(|_| times_sent <= 1).cloned();
        drain(answer).await;
        let seen = async { entry_of(look?.answer().await?, path).await.ok().flatten() };
        Ok((Stored { created, etag, times_sent }, seen.await))
    }

    async fn fate(&self, path: &RemotePath, precondition: &Precondition, ours: Option<Body>) -> Fate {
        let length = ours.as_ref().and_then(Body::length);
        match (precondition, self.stat(path, PropertySet::LISTING).await) {
            (Precondition::Absent, Ok(None)) => Fate::Nothing,
            (Precondition::Unchanged(tag), Ok(Some(entry)))
                if entry.properties.etag.as_ref().is_some_and(|found| found.resembles(tag)) =>
            {
                Fate::Nothing
            }
            (_, Ok(Some(entry))) if entry.properties.length == length && self.is_there(path, ours).await => Fate::Done,
            _ => Fate::Unknown,
        }
    }

    /// Whether an error response is due to our own success: the request was sent more than once, and its effect is
    /// there.
    pub(crate) async fn is_ours(&self, refused: &Error, path: &RemotePath, ours: Option<Body>) -> bool {
        was_repeated(refused) && self.is_there(path, ours).await
    }

    /// Whether the file at a path has this content.
    pub async fn has_content(&self, path: &RemotePath, mut content: Body) -> Result<bool, Error> {
        // Whatever cut an upload may cut the comparison.
        for _ in 1..TRIES {
            match self.holds(path, &mut content, &[], Expected::default()).await {
                Err(Error::Http(_)) => {}
                held => return held,
            }
        }
        self.holds(path, &mut content, &[], Expected::default()).await
    }

    /// Whether the server is known to have what was sent.
    async fn is_there(&self, path: &RemotePath, ours: Option<Body>) -> bool {
        match ours {
            Some(ours) => self.has_content(path, ours).await.unwrap_or(false),
            None => false,
        }
    }
}

fn was_repeated(refused: &Error) -> bool {
    refused.refusal().is_some_and(|failure| failure.times_sent > 1)
}

/// Timeouts for an upload of this length, whose answer arrives only when it is stored; none for the usual ones.
fn storing(length: Option<u64>, usual: Timeouts) -> Option<Timeouts> {
    let work = Duration::from_secs(length? / SLOWEST_STORE).min(LONGEST_WORK);
    (work > usual.first_byte / 6).then_some(Timeouts { first_byte: usual.first_byte + work, ..usual })
}
