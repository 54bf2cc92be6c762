//! `Digest` authentication (RFC 7616) that checks the use of nonces: each is valid for some requests, and no nonce
//! count (`nc`) may be used twice. The password is not checked.

use std::collections::BTreeSet;

use crate::message::{Request, Response};

/// The current nonce and its uses.
#[derive(Debug, Default)]
pub struct DigestAuth {
    /// The number of requests that a nonce is valid for.
    max_uses: usize,
    nonce: usize,
    used: BTreeSet<String>,
    /// Nonce counts that were used twice.
    pub reused: Vec<String>,
}

impl DigestAuth {
    /// With nonces that are valid for so many requests.
    pub fn new(max_uses: usize) -> Self {
        Self { max_uses, ..Self::default() }
    }

    /// The 401, unless the request is authenticated.
    pub(crate) fn challenge(&mut self, request: &Request) -> Option<Response> {
        let said = request.header("authorization").unwrap_or_default();
        let field = |name: &str| {
            let (_, rest) = said.split_once(&format!("{name}="))?;
            rest.split([',', ' ']).next().map(|value| value.trim_matches('"').to_owned())
        };
        let (nonce, count) = (field(" nonce"), field("nc"));
        let stale = nonce.is_some();
        if let (Some(nonce), Some(count)) = (nonce, count)
            && nonce == format!("n{}", self.nonce)
        {
            if !self.used.insert(count.clone()) {
                self.reused.push(format!("{nonce} {count}"));
            } else if self.used.len() <= self.max_uses {
                return None;
            }
        }
        if self.used.len() >= self.max_uses || !stale {
            self.nonce += 1;
            self.used.clear();
        }
        let nonce = self.nonce;
        let challenge = format!("Digest realm=\"r\", nonce=\"n{nonce}\", qop=\"auth\", stale={stale}");
        Some(Response::new(401).with("www-authenticate", &challenge))
    }
}
