//! What is kept for each credential, for as long as it is used.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::credential::Identity;

/// How long an account is kept after its last request.
const IDLE: Duration = Duration::from_mins(10);
/// The largest number of accounts; at it, the one unused for longest goes, first of those that the server has not accepted.
const MOST: usize = 1024;
/// How often unused accounts are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Accounts, each with its `T`.
pub(crate) struct Accounts<T> {
    all: HashMap<Identity, Entry<T>>,
    looked: Option<Instant>,
}

struct Entry<T> {
    account: T,
    used: Instant,
    /// The server has answered, and not with 401. Otherwise guessed passwords would push out users.
    is_accepted: bool,
}

impl<T> Default for Accounts<T> {
    fn default() -> Self {
        Self { all: HashMap::new(), looked: None }
    }
}

impl<T: Clone> Accounts<T> {
    /// The account of a credential. One that is busy is kept, whatever its age.
    pub(crate) fn get(
        &mut self,
        identity: Identity,
        now: Instant,
        is_busy: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> T {
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK) {
            self.looked = Some(now);
            self.all.retain(|_, entry| now.saturating_duration_since(entry.used) < IDLE || is_busy(&entry.account));
        }
        if !self.all.contains_key(&identity) && self.all.len() >= MOST {
            let oldest =
                self.all.iter().min_by_key(|(_, entry)| (is_busy(&entry.account), entry.is_accepted, entry.used));
            let oldest = oldest.map(|(identity, _)| *identity);
            oldest.map(|oldest| self.all.remove(&oldest));
        }
        let entry = self.all.entry(identity);
        let entry = entry.or_insert_with(|| Entry { account: new(), used: now, is_accepted: false });
        entry.used = now;
        entry.account.clone()
    }

    /// The server has accepted the credential.
    pub(crate) fn accepted(&mut self, identity: Identity) {
        if let Some(entry) = self.all.get_mut(&identity) {
            entry.is_accepted = true;
        }
    }

    /// All accounts.
    pub(crate) fn all(&self) -> Vec<T> {
        self.all.values().map(|entry| entry.account.clone()).collect()
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
        let headers = [(http::header::AUTHORIZATION, value)].into_iter().collect();
        identities.of(&headers, [127, 0, 0, 1].into()).unwrap().identity
    }

    #[test]
    fn accounts_are_bounded_in_number_and_time() {
        let (identities, mut accounts, start) = (Identities::new().unwrap(), Accounts::default(), Instant::now());
        for number in 0..=MOST {
            let now = start + Duration::from_millis(number as u64);
            assert_eq!(accounts.get(identity(&identities, number), now, |_| false, || number), number);
        }
        assert_eq!(accounts.all.len(), MOST);
        let now = start + Duration::from_secs(2);
        assert_eq!(accounts.get(identity(&identities, 0), now, |_| false, || 7777), 7777, "the oldest went");
        assert_eq!(accounts.get(identity(&identities, MOST), now, |_| false, || 7777), MOST);
        accounts.refused(identity(&identities, MOST));
        assert_eq!(accounts.get(identity(&identities, MOST), now, |_| false, || 7777), 7777);
        accounts.accepted(identity(&identities, 2));
        for number in 0..=MOST {
            accounts.get(identity(&identities, 9000 + number), now, |_| false, || number);
        }
        assert_eq!(
            accounts.get(identity(&identities, 2), now, |_| false, || 7777),
            2,
            "others than the guessed ones stay"
        );
        assert_eq!(accounts.get(identity(&identities, 5), now + IDLE, |_| false, || 5555), 5555);
        assert_eq!(accounts.all.len(), 1);
    }
}
