//! What is kept for each credential, for as long as it is used.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::credential::Identity;

/// How long an account is kept after its last request.
const IDLE: Duration = Duration::from_mins(10);
/// The largest number of accounts; at it, the one unused for longest goes.
const MOST: usize = 1024;

/// Accounts, each with its `T`.
pub(crate) struct Accounts<T> {
    all: HashMap<Identity, (T, Instant)>,
}

impl<T> Default for Accounts<T> {
    fn default() -> Self {
        Self { all: HashMap::new() }
    }
}

impl<T: Clone> Accounts<T> {
    /// The account of a credential.
    pub(crate) fn get(&mut self, identity: Identity, now: Instant, new: impl FnOnce() -> T) -> T {
        self.all.retain(|_, (_, used)| now.saturating_duration_since(*used) < IDLE);
        if !self.all.contains_key(&identity) && self.all.len() >= MOST {
            let oldest = self.all.iter().min_by_key(|(_, (_, used))| *used).map(|(identity, _)| *identity);
            oldest.map(|oldest| self.all.remove(&oldest));
        }
        let (account, used) = self.all.entry(identity).or_insert_with(|| (new(), now));
        *used = now;
        account.clone()
    }

    /// All accounts.
    pub(crate) fn all(&self) -> Vec<T> {
        self.all.values().map(|(account, _)| account.clone()).collect()
    }

    /// The server has refused the credential: nothing is kept for it.
    pub(crate) fn refused(&mut self, identity: Identity) {
        self.all.remove(&identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::Identities;

    fn identity(identities: &Identities, token: usize) -> Identity {
        let value = format!("Bearer {token}").parse().unwrap();
        identities.of(&[(http::header::AUTHORIZATION, value)].into_iter().collect()).unwrap().identity
    }

    #[test]
    fn accounts_are_bounded_in_number_and_time() {
        let (identities, mut accounts, start) = (Identities::new().unwrap(), Accounts::default(), Instant::now());
        for number in 0..=MOST {
            let now = start + Duration::from_millis(number as u64);
            assert_eq!(accounts.get(identity(&identities, number), now, || number), number);
        }
        assert_eq!(accounts.all.len(), MOST);
        let now = start + Duration::from_secs(2);
        assert_eq!(accounts.get(identity(&identities, 0), now, || 7777), 7777, "the oldest went");
        assert_eq!(accounts.get(identity(&identities, MOST), now, || 7777), MOST);
        accounts.refused(identity(&identities, MOST));
        assert_eq!(accounts.get(identity(&identities, MOST), now, || 7777), 7777);
        assert_eq!(accounts.get(identity(&identities, 5), now + IDLE, || 5555), 5555);
        assert_eq!(accounts.all.len(), 1);
    }
}
