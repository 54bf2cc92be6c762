//! LOCK requests of the gateway's own.
//!
//! The server may carry one out when its answer is not awaited any more, or the client for which it was sent has gone. The file
//! is then locked for everybody, and nobody knows the token. So each LOCK names an owner that no other one has. By that,
//! `lockdiscovery` shows the lock (RFC 4918 §15.8), and it is released.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use bytes::Bytes;
use dav::{
    Item, Multistatus,
    transfer::{LOCK_IN_FLIGHT, LOCK_LOOKUP},
};
use haul_http::{Client, Error, Incoming, ResponseInfo};
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{
    answers::{self, LOCK_TOKEN},
    listings,
    passing::{Caller, DEPTH, Passing, TIMEOUT},
};

const XML: HeaderValue = HeaderValue::from_static("application/xml; charset=\"utf-8\"");
const DISCOVERY: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:resourcetype/><D:lockdiscovery/></D:prop></D:propfind>"#;

/// A lock that the gateway asks for. Unless this is settled, it is released when the server shows it.
pub(super) struct OwnLock {
    asked: Arc<Asked>,
    is_settled: bool,
}

struct Asked {
    sender: Client,
    client: Caller,
    owner: String,
}

/// Whether a request may be carried out yet, by its answer.
pub(super) fn is_pending(answer: &Result<Response<Incoming>, Error>) -> bool {
    match answer {
        Ok(answer) => {
            let sendings = answer.extensions().get::<ResponseInfo>().map_or(1, |info| info.sendings);
            sendings > 1 || matches!(answer.status().as_u16(), 502 | 504)
        }
        Err(error) => matches!(error, Error::Exchange { .. } | Error::OutcomeUnknown { .. }),
    }
}

impl OwnLock {
    pub(super) fn new(sender: &Client, client: &Caller) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
        let (sender, client) = (sender.clone(), client.at(client.url.clone(), client.path.clone()));
        let asked = Asked { sender, client, owner: format!("haul gateway ({number:016x})") };
        Self { asked: asked.into(), is_settled: false }
    }

    /// The LOCK.
    pub(super) fn request(&self, lasts: HeaderValue) -> Passing {
        let body = format!(
            r#"<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>{}</D:owner></D:lockinfo>"#,
            self.asked.owner
        );
        let mut lock = self.asked.client.request("LOCK", body.into());
        lock.headers.insert(CONTENT_TYPE, XML);
        lock.headers.insert(TIMEOUT, lasts);
        lock
    }

    /// Notes the answer to the LOCK.
    pub(super) fn note(&mut self, answer: &Result<Response<Incoming>, Error>) {
        self.is_settled = !is_pending(answer) && !answer.as_ref().is_ok_and(|answer| answer.status().is_success());
    }

    /// There is no lock any more, or it is used.
    pub(super) fn settle(mut self) {
        self.is_settled = true;
    }
}

impl Drop for OwnLock {
    fn drop(&mut self) {
        if !self.is_settled
            && let Ok(runtime) = Handle::try_current()
        {
            let asked = self.asked.clone();
            runtime.spawn(async move { asked.release().await });
        }
    }
}

impl Asked {
    /// Releases the lock as soon as the server shows it, if it still may.
    async fn release(&self) {
        let end = Instant::now() + LOCK_IN_FLIGHT;
        while Instant::now() < end {
            if let Some(token) = self.find().await
                && unlock(&self.sender, &self.client, token).await.is_ok_and(|answer| answer.status().is_success())
            {
                tracing::info!("{}: released a lock of the gateway that nobody used", self.client.path);
                return;
            }
            sleep(LOCK_LOOKUP).await;
        }
    }

    /// The token of the lock, in its angle brackets, if the server shows it.
    async fn find(&self) -> Option<HeaderValue> {
        let mut look = self.client.request("PROPFIND", Bytes::from_static(DISCOVERY));
        look.headers.insert(DEPTH, HeaderValue::from_static("0"));
        look.headers.insert(CONTENT_TYPE, XML);
        let answer = self.sender.exchange(look.into_request()).await.ok()?;
        if answer.status() != StatusCode::MULTI_STATUS {
            return None;
        }
        let body = answers::read(answer.into_body(), listings::LARGEST).await.ok()?;
        let mut multistatus = Multistatus::new(self.client.path.clone());
        let locks = multistatus.feed(&body).filter_map(|item| match item {
            Ok(Item::Entry(entry)) => Some(entry.properties.locks),
            _ => None,
        });
        let token = locks.flatten().find(|lock| lock.owner.as_deref() == Some(&*self.owner))?.token?;
        HeaderValue::from_str(&format!("<{}>", token.as_str())).ok()
    }
}

pub(super) async fn unlock(sender: &Client, client: &Caller, token: HeaderValue) -> Result<Response<Incoming>, Error> {
    let mut unlock = client.request("UNLOCK", Bytes::new());
    unlock.headers.insert(LOCK_TOKEN, token);
    sender.exchange(unlock.into_request()).await
}
