//! `Digest` authentication (RFC 7616) whose nonces expire after a few requests. The password is not checked.

use crate::behaviour::{Action, Behaviour, IncomingRequest};

/// The number of requests that a nonce is valid for.
const MAX_USES: u32 = 7;

#[derive(Default)]
pub(super) struct NonceExpiry {
    number: u32,
    used: u32,
}

impl Behaviour for NonceExpiry {
    fn action(&mut self, asked: &IncomingRequest<'_>) -> Option<Action> {
        let given = asked.header("authorization");
        let is_known = given.is_some_and(|given| given.contains(&format!("nonce=\"n{}\"", self.number)));
        if is_known && self.used < MAX_USES {
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
        Some(Action::Respond(401, challenge))
    }
}
