//! A door that opens to Digest alone (RFC 7616), and watches over its nonces: each lasts for some requests, and no count
//! (`nc`) may come twice. What the password is worth is not looked at.

use std::collections::BTreeSet;

use crate::wire::{Answer, Request};

/// What was seen of the nonces so far.
#[derive(Debug, Default)]
pub struct DigestAuth {
    /// So many requests a nonce lasts.
    lasts: usize,
    nonce: usize,
    used: BTreeSet<String>,
    /// Counts that came a second time with their nonce.
    pub repeated: Vec<String>,
}

impl DigestAuth {
    /// One whose nonces last for so many requests.
    pub fn new(lasts: usize) -> Self {
        Self { lasts, ..Self::default() }
    }

    /// The refusal, unless the request may pass.
    pub(crate) fn refuses(&mut self, request: &Request) -> Option<Answer> {
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
                self.repeated.push(format!("{nonce} {count}"));
            } else if self.used.len() <= self.lasts {
                return None;
            }
        }
        if self.used.len() >= self.lasts || !stale {
            self.nonce += 1;
            self.used.clear();
        }
        let nonce = self.nonce;
        let challenge = format!("Digest realm=\"r\", nonce=\"n{nonce}\", qop=\"auth\", stale={stale}");
        Some(Answer::new(401).with("www-authenticate", &challenge))
    }
}
