//! Digest (RFC 7616) with nonces that end after a few requests. Who knows the password is not its concern.

use crate::behaviour::{Asked, Behaviour, Treatment};

/// So many requests a nonce is good for.
const USES: u32 = 7;

#[derive(Default)]
pub(super) struct Nonce {
    number: u32,
    used: u32,
}

impl Behaviour for Nonce {
    fn treat(&mut self, asked: &Asked<'_>) -> Option<Treatment> {
        let given = asked.header("authorization");
        let is_known = given.is_some_and(|given| given.contains(&format!("nonce=\"n{}\"", self.number)));
        if is_known && self.used < USES {
            self.used += 1;
            return None;
        }
        if is_known {
            (self.number, self.used) = (self.number + 1, 0);
        }
        let stale = if given.is_some() { ", stale=true" } else { "" };
        let number = self.number;
        let challenge =
            format!("www-authenticate: Digest realm=\"files\", nonce=\"n{number}\", qop=\"auth\"{stale}\r\n");
        Some(Treatment::Answer(401, challenge))
    }
}
