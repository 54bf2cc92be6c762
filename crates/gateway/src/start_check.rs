//! A look at the server when the gateway starts: the administrator should see a wrong URL, name or certificate, not a user
//! with a failed request. Nothing is refused, because the server may come later.

use std::{sync::atomic::Ordering, time::Duration};

use haul_http::{Body, Client, auth::Authenticator};
use http::{Request, StatusCode};
use tokio::time::timeout;

use crate::Gateway;

impl Gateway {
    /// Why requests would fail now, as far as an OPTIONS without credentials shows; none if they would not. Takes at most
    /// `limit`.
    pub async fn find_problem(&self, limit: Duration) -> Option<String> {
        let server = self.server();
        let is_away = &server.metrics.is_away;
        let url = format!("{}{}", server.upstream.origin, server.upstream.base);
        let request = Request::options(&url).body(Body::empty()).ok()?;
        // With connections of its own: it changes nothing for the first user.
        let answer = match Client::new(server.settings.clone(), Authenticator::default()) {
            Ok(client) => timeout(limit, client.send(request)).await,
            Err(error) => return Some(error.to_string()),
        };
        match answer {
            // It wants a password, which the gateway does not have.
            Ok(Err(haul_http::Error::Credentials { .. })) => None,
            Ok(Ok(answer)) if answer.headers().contains_key("dav") => None,
            Ok(Ok(answer)) => {
                let advice = if answer.status() == StatusCode::NOT_FOUND {
                    "does the folder exist"
                } else {
                    "is it a WebDAV folder"
                };
                Some(format!("OPTIONS {url}: {}, without the header DAV; {advice}?", answer.status()))
            }
            Ok(Err(error)) => {
                is_away.store(true, Ordering::Relaxed);
                Some(error.to_string())
            }
            Err(_) => {
                is_away.store(true, Ordering::Relaxed);
                Some(format!("OPTIONS {url}: no response within {} s", limit.as_secs_f64()))
            }
        }
    }
}
