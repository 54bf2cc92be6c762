//! What is kept for one connection of a client, and ends with it.
//!
//! Negotiate and NTLM authenticate a connection. So a client that uses them has a connection to the server of its own: it
//! carries all later requests of the client's connection, one after another, and nobody else's. If the server closes it,
//! the next one begins without an identity. A Digest covers one request; it goes over connections that only this client
//! uses, and nothing that it asked for is kept.

use std::sync::{Arc, OnceLock};

use haul_http::{Client, SingleConnection, auth::Authenticator};
use http::{Response, header::CONNECTION};
use serve::AnswerBody;
use tokio::sync::Mutex;
use transport::{Connector, Offer};

use crate::{
    account::{Account, Shared, WriteBack},
    answers,
    credential::Credential,
    head::Upstream,
    journal::Journal,
    metrics::Metrics,
    passing::Passing,
};

/// How to reach the server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) settings: haul_http::Settings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shared: Shared,
    /// What is acknowledged before the server has it; none if nothing is.
    pub(crate) journal: Option<Arc<Journal>>,
}

impl Server {
    /// An account with connections of its own. Its HTTP client has no credentials of its own. With a credential, large files
    /// may be kept, and with a user's name, files may be acknowledged once they are in the journal.
    pub(crate) fn account(&self, fresh: std::time::Duration, credential: Option<&Credential>) -> Arc<Account> {
        let client = Client::over(self.connector.clone(), self.settings.clone(), Authenticator::default());
        let user = credential.and_then(|credential| credential.user.clone());
        let identity = credential.map(|credential| credential.identity);
        let write_back = self.journal.clone().zip(user).map(|(journal, user)| WriteBack::new(journal, user));
        Arc::new(Account::new(
            client,
            self.upstream.clone(),
            self.metrics.clone(),
            self.shared.clone(),
            fresh,
            (identity, write_back),
        ))
    }
}

/// A client's connection.
#[derive(Default)]
pub(crate) struct OwnConnection {
    /// Set once an authentication of the connection has begun.
    bound: OnceLock<Mutex<Option<Arc<SingleConnection>>>>,
    account: OnceLock<Arc<Account>>,
}

impl OwnConnection {
    pub(crate) fn is_bound(&self) -> bool {
        self.bound.get().is_some()
    }

    /// Passes a request on over the connection that belongs to this one.
    pub(crate) async fn pass_bound(
        &self,
        server: &Server,
        request: Passing,
    ) -> Result<(Response<AnswerBody>, bool), haul_http::Error> {
        server.shared.lingering.give_way(&request, None).await;
        let mut bound = self.bound.get_or_init(Mutex::default).lock().await;
        let connection = if let Some(connection) = bound.take().filter(|connection| !connection.has_ended()) {
            connection
        } else {
            let (connector, origin) = (&server.connector, &server.upstream.origin);
            Arc::new(SingleConnection::open(connector, origin, Offer::Http1, false, &server.settings).await?)
        };
        // After an error the connection may have half a request.
        let answer = connection.send(request.into_request()).await?;
        let closing = answer.headers().get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        let is_closing =
            closing.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"));
        if !is_closing {
            *bound = Some(connection);
        }
        Ok((answer.map(answers::streamed), is_closing))
    }

    /// Passes a request on whose credential is for itself alone.
    pub(crate) async fn pass_single(
        &self,
        server: &Server,
        request: Passing,
    ) -> Result<Response<AnswerBody>, haul_http::Error> {
        let account = self.account.get_or_init(|| server.account(std::time::Duration::ZERO, None));
        account.only_pass(request).await
    }
}
