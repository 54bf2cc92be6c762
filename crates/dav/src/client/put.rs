//! Uploads by one PUT, and what has become of those that were not answered as one would wish.
//!
//! A guarded PUT that was sent more than once may be refused for its own success: what it was to make is there already.
//! And a large one that got no answer in time may have taken effect, or may yet: the engine does not send it again, as
//! the server may be at work on it. Nobody has to be told of a failure before it has been looked at what is there. If
//! it is ours, that was a success. If nothing has changed, it is sent once more, under the same guard: should the first
//! one come to its end after all, one of the two is kept out. Anything else is left as it is, and named.

use std::time::Duration;

use haul_http::{Body, Class, Expected, FollowUp, FollowUpResponse, Options, Timeouts};
use http::{HeaderMap, StatusCode, header};
use tokio::time::timeout;

use crate::{
    Dav, ETag, Entry, Error, If, Precondition, RemotePath, Wanted,
    client::confirmation::is_undecided,
    client::listing::entry_of,
    client::{LONGEST_WORK, TRIES, drain},
    requests::Depth,
};

/// What became of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Whether there was nothing of that name before.
    pub created: bool,
    /// What the server calls this version, if it says so at once.
    pub etag: Option<ETag>,
}

/// What a server stores in a second at the least before it answers to a PUT that it has received: one that scans it, or
/// copies it from a temporary place on a slow disk.
const SLOWEST_STORE: u64 = 8 * 1024 * 1024;
/// The bound on a look at what has become of an upload, which may have to fetch it.
const LOOK: Duration = Duration::from_mins(2);
/// What has become of an upload without an answer.
enum Fate {
    /// It is there.
    Done,
    /// All is as it was before.
    Nothing,
    Unknown,
}

impl Dav {
    /// Uploads a file, unless the guard forbids. What has become of it is looked at where the answer does not tell.
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

    /// The same, and what is there right after it, in the same round trip where that can be.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
    pub(crate) async fn put_and_look(
        &self,
        path: &RemotePath,
        body: Body,
        headers: HeaderMap,
        precondition: &Precondition,
        locks: &If,
        mut options: Options,
        wanted: Option<Wanted>,
    ) -> Result<(Stored, Option<Entry>), Error> {
        let mut request = self.requests().put(path, precondition, locks)?.map(drop);
        request.headers_mut().extend(headers);
        if let Some(wanted) = wanted
            && let Some(look) = FollowUp::new(self.requests().propfind(path, Depth::Zero, wanted)?)
        {
            request.extensions_mut().insert(look);
        }
        if options.class == Class::Large && options.timeouts.is_none() {
            options.timeouts = storing(body.length());
        }
        request.extensions_mut().insert(options);
        let ours = body.again();
        let done = || (Stored { created: *precondition == Precondition::Absent, etag: None }, None);
        let mut answer = self.send(request.clone().map(|()| body), path).await;
        let mut sent_again = false;
        if let Err(error) = &answer
            && (is_undecided(error) || matches!(error, Error::Http(haul_http::Error::Exchange { .. })))
        {
            let [looked, again] = [(); 2].map(|()| ours.as_ref().and_then(Body::again));
            // What the engine or a gateway has tried several times is not sent once more.
            let once = matches!(error, Error::Http(haul_http::Error::Undecided { .. }));
            match (timeout(LOOK, Box::pin(self.fate(path, precondition, looked))).await, again) {
                (Ok(Fate::Done), _) => return Ok(done()),
                (Ok(Fate::Nothing), Some(body)) if once => {
                    (answer, sent_again) = (self.send(request.map(|()| body), path).await, true);
                }
                (Ok(Fate::Nothing), _) => {
                    answer = answer.map_err(|error| error.with_found("nothing has changed there: try again".into()));
                }
                _ => {}
            }
        }
        let answer = match answer {
            Err(error)
                if *precondition != Precondition::None
                    && error.is(412)
                    && (sent_again || was_repeated(&error))
                    && self.is_there(path, ours).await =>
            {
                return Ok(done());
            }
            other => other?,
        };
        let created = answer.status() == StatusCode::CREATED;
        let etag = answer.headers().get(header::ETAG).and_then(ETag::from_header);
        let look = answer.extensions().get::<FollowUpResponse>().cloned();
        drain(answer).await;
        let seen = async { entry_of(look?.answer().await?, path).await.ok().flatten() };
        Ok((Stored { created, etag }, seen.await))
    }

    async fn fate(&self, path: &RemotePath, precondition: &Precondition, ours: Option<Body>) -> Fate {
        let length = ours.as_ref().and_then(Body::length);
        match (precondition, self.stat(path, Wanted::LISTING).await) {
            (Precondition::Absent, Ok(None)) => Fate::Nothing,
            (Precondition::Unchanged(tag), Ok(Some(entry))) if entry.properties.etag.as_ref() == Some(tag) => {
                Fate::Nothing
            }
            (_, Ok(Some(entry))) if entry.properties.length == length && self.is_there(path, ours).await => Fate::Done,
            _ => Fate::Unknown,
        }
    }

    /// Whether a refusal is the echo of our own success: the request was sent more than once, and its effect is there.
    pub(crate) async fn is_ours(&self, refused: &Error, path: &RemotePath, ours: Option<Body>) -> bool {
        was_repeated(refused) && self.is_there(path, ours).await
    }

    /// Whether what is there is what was sent.
    async fn is_there(&self, path: &RemotePath, ours: Option<Body>) -> bool {
        let Some(mut ours) = ours else { return false };
        // What cut the request may cut the look at its effect.
        for _ in 0..TRIES {
            match self.holds(path, &mut ours, &[], Expected::default()).await {
                Err(Error::Http(_)) => {}
                held => return held.unwrap_or(false),
            }
        }
        false
    }
}

fn was_repeated(refused: &Error) -> bool {
    refused.refusal().is_some_and(|failure| failure.sendings > 1)
}

/// The bounds for an upload of so many bytes, whose answer comes when they are stored; the usual ones if that is soon.
fn storing(length: Option<u64>) -> Option<Timeouts> {
    let usual = Timeouts::default();
    let work = Duration::from_secs(length? / SLOWEST_STORE).min(LONGEST_WORK);
    (work > usual.first_byte / 6).then_some(Timeouts { first_byte: usual.first_byte + work, ..usual })
}
