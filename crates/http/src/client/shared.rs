//! Shared by a client's clones and dispatchers: how to connect, and the state of each origin.

use http::{HeaderMap, Request, Uri, request::Parts};
use transport::{ConnectError, Dialed, Facts, Offer, TlsFacts, race};

use super::{Proof, Shared, Versions, lock, target};
use crate::{
    Body, Error, Origin, PipeliningHistory, RequestLine, Windows,
    auth::{Attempt, GiveUp},
    dispatch,
};

impl Shared {
    /// Adds the headers that every request to an origin gets: the user's, our name, and cookies.
    pub(super) fn complete(&self, origin: &Origin, uri: &Uri, headers: &mut HeaderMap) {
        self.settings.adorn(origin, headers);
        if self.settings.cookies {
            lock(&self.cookies).add(uri, headers);
        }
    }

    /// Adds the credentials for an origin to the headers of a request.
    pub(super) fn sign(&self, origin: &Origin, asked: &Parts, headers: &mut HeaderMap) -> Result<Attempt, Error> {
        let signed = lock(&self.authenticator).authorize(origin, &asked.method, &target(&asked.uri), headers);
        signed.map_err(|why| refused(asked, why))
    }

    /// Adds the credentials that a 401 with the headers `answer` asks for.
    pub(super) fn answer(
        &self,
        origin: &Origin,
        asked: &Parts,
        tried: &Attempt,
        answer: &HeaderMap,
        headers: &mut HeaderMap,
    ) -> Result<Attempt, Error> {
        let target = target(&asked.uri);
        let next = lock(&self.authenticator).retry(origin, &asked.method, &target, tried, answer, headers);
        next.map_err(|why| refused(asked, why))
    }

    /// Renews the credentials of a request for a retry, or if it has been waiting for too long.
    pub(crate) fn sign_again(&self, origin: &Origin, request: &mut Request<Body>, is_retry: bool) {
        let Some(Proof(attempt)) = request.extensions().get::<Proof>().cloned() else { return };
        let (method, target) = (request.method().clone(), target(request.uri()));
        let mut attempt = lock(&attempt);
        if !is_retry && !attempt.is_stale() {
            return;
        }
        lock(&self.authenticator).renew(origin, &method, &target, &mut attempt, request.headers_mut());
    }

    /// The versions to offer for the next connection.
    pub(crate) fn offer(&self, origin: &Origin) -> Offer {
        match self.settings.versions {
            Versions::Http1 => Offer::Http1,
            Versions::Http2 => Offer::Http2,
            Versions::Http3 => Offer::Http3,
            Versions::Brief if self.knows_http3(origin) => Offer::Http3,
            Versions::Auto | Versions::Brief => {
                let known = lock(&self.pipelining_history).get(origin).copied().unwrap_or_default();
                let seconds = dispatch::now().seconds;
                // Without TLS there is no ALPN.
                if known.is_banned(seconds) && origin.is_tls() { Offer::Both } else { Offer::Http1 }
            }
        }
    }

    /// Whether an origin announces HTTP/3, and the path is not known to block it.
    fn knows_http3(&self, origin: &Origin) -> bool {
        let now = dispatch::now().seconds;
        lock(&self.alt_svc).get(origin).is_some_and(|known| known.is_offered(now) && !known.is_paused(now))
    }

    /// Makes a connection. HTTP/3 has TCP run beside it, and where that is first, UDP is left
    /// alone for a while.
    pub(crate) async fn dial(&self, origin: &Origin, offer: Offer) -> Result<Dialed, ConnectError> {
        let (within, early) = (self.settings.timeouts.connect, self.settings.early_data);
        if offer != Offer::Http3 {
            return self.dialer.dial(origin, offer, early, None, within).await;
        }
        let now = dispatch::now().seconds;
        let known = lock(&self.alt_svc).get(origin).cloned().unwrap_or_default();
        let tcp = self.dialer.dial(origin, Offer::Both, early, None, within);
        if known.is_paused(now) || !self.dialer.takes_quic(origin) {
            return tcp.await;
        }
        let at = known.alternative(origin, now);
        let quic = self.dialer.dial(origin, Offer::Http3, early, at.as_ref(), within);
        let raced = race(quic, tcp).await;
        let mut alt_svc = lock(&self.alt_svc);
        let known = alt_svc.entry(origin.clone()).or_default();
        match &raced {
            Ok(Dialed::Quic(quic)) if quic.pending.is_none() => known.record_success(),
            Ok(Dialed::Stream(_)) => known.failed(now),
            _ => {}
        }
        raced
    }

    /// UDP no longer gets through to an origin.
    pub(crate) fn record_quic_failure(&self, origin: &Origin) {
        lock(&self.alt_svc).entry(origin.clone()).or_default().failed(dispatch::now().seconds);
    }

    /// A handshake under early data is done.
    pub(crate) fn confirm(&self, origin: &Origin, tls: TlsFacts) {
        if let Some(facts) = lock(&self.facts).get_mut(origin) {
            if facts.quic {
                facts.tcp = tls.handshake;
                lock(&self.alt_svc).entry(origin.clone()).or_default().record_success();
            }
            facts.tls = Some(tls);
        }
    }

    pub(crate) fn record_pipelining(&self, origin: &Origin, known: PipeliningHistory) {
        lock(&self.pipelining_history).insert(origin.clone(), known);
    }

    pub(crate) fn record_windows(&self, origin: &Origin, windows: Windows) {
        lock(&self.windows).insert(origin.clone(), windows);
    }

    pub(crate) fn record_facts(&self, origin: &Origin, facts: Facts) {
        lock(&self.facts).insert(origin.clone(), facts);
        self.noted.notify_waiters();
    }
}

/// The error of a request that cannot be authenticated.
fn refused(asked: &Parts, why: GiveUp) -> Error {
    Error::Credentials { asked: RequestLine::new(&asked.method, &asked.uri), why: why.into() }
}
