//! What is kept for each credential, for as long as it is used.

use std::{collections::HashMap, net::IpAddr, time::Duration};
use tokio::time::Instant;

use crate::credential::{Credential, Identity};

/// How long an account is kept after its last request.
const IDLE: Duration = Duration::from_mins(10);
/// The largest number of accounts; at it, the one unused for longest goes, first of those that the server has not accepted.
const MOST: usize = 1024;
/// Of one address.
const OF_ADDRESS: usize = 256;
/// Of one `Authorization`, with different cookies.
const OF_AUTHORIZATION: usize = 6;
/// How often unused accounts are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Accounts, each with its `T`.
pub(crate) struct Accounts<T> {
    all: HashMap<Identity, Entry<T>>,
    looked: Option<Instant>,
}

/// What an account is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// For later requests only.
    None,
    /// It has acknowledged something that the server does not have.
    Keeps,
    /// A request is being answered.
    Answers,
}

struct Entry<T> {
    account: T,
    /// The client's address, and its `Authorization`.
    of: (IpAddr, Identity),
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
    /// The account of a client's credential. One that is needed is kept, whatever its age. None if the client has too many
    /// credentials in use at once.
    pub(crate) fn get(
        &mut self,
        (client, credential): (IpAddr, &Credential),
        now: Instant,
        need: impl Fn(&T) -> Need,
        new: impl FnOnce() -> T,
    ) -> Option<T> {
        let identity = credential.identity;
        let of = (client.to_canonical(), credential.authorization);
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK) {
            self.looked = Some(now);
            self.all.retain(|_, entry| {
                now.saturating_duration_since(entry.used) < IDLE || need(&entry.account) != Need::None
            });
        }
        if !self.all.contains_key(&identity) {
            let is_of_address = |entry: &Entry<T>| entry.of.0 == of.0;
            let is_of_authorization = |entry: &Entry<T>| entry.of.1 == of.1;
            for (most, is_one) in
                [(OF_AUTHORIZATION, &is_of_authorization as &dyn Fn(&_) -> _), (OF_ADDRESS, &is_of_address)]
            {
                if self.all.values().filter(|entry| is_one(entry)).count() >= most {
                    let (oldest, needed) = self.oldest(is_one, &need)?;
                    if needed == Need::Answers {
                        return None;
                    }
                    self.all.remove(&oldest);
                }
            }
            if self.all.len() >= MOST {
                let (oldest, _) = self.oldest(&|_| true, &need)?;
                self.all.remove(&oldest);
            }
        }
        let entry = self.all.entry(identity);
        let entry = entry.or_insert_with(|| Entry { account: new(), of, used: now, is_accepted: false });
        entry.used = now;
        Some(entry.account.clone())
    }

    /// The one of these that is missed least.
    fn oldest(&self, is_one: &dyn Fn(&Entry<T>) -> bool, need: impl Fn(&T) -> Need) -> Option<(Identity, Need)> {
        let all = self.all.iter().filter(|(_, entry)| is_one(entry));
        let ranked = all.map(|(identity, entry)| (*identity, need(&entry.account), entry));
        let oldest = ranked.min_by_key(|(_, need, entry)| (*need, entry.is_accepted, entry.used));
        oldest.map(|(identity, need, _)| (identity, need))
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
    use http::header::{AUTHORIZATION, COOKIE};

    use super::*;
    use crate::credential::Identities;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn credential(identities: &Identities, token: usize, cookie: Option<usize>) -> Credential {
        let token = format!("Bearer {token}").parse().unwrap();
        let cookie = cookie.map(|cookie| (COOKIE, format!("a={cookie}").parse().unwrap()));
        let headers = [(AUTHORIZATION, token)].into_iter().chain(cookie).collect();
        identities.of(&headers, HERE).unwrap()
    }

    /// Of this many addresses in turn.
    fn address(number: usize) -> IpAddr {
        IpAddr::from([10, 0, 0, (number % 8) as u8])
    }

    #[test]
    fn accounts_are_bounded_in_number_and_time() {
        let (identities, mut accounts, start) = (Identities::new().unwrap(), Accounts::default(), Instant::now());
        let credential = |token| credential(&identities, token, None);
        let get = |accounts: &mut Accounts<usize>, token, after: Duration, new| {
            accounts.get((address(token), &credential(token)), start + after, |_| Need::None, || new).unwrap()
        };
        for token in 0..=MOST {
            assert_eq!(get(&mut accounts, token, Duration::from_millis(token as u64), token), token);
        }
        assert_eq!(accounts.all.len(), MOST);
        let later = Duration::from_secs(2);
        assert_eq!(get(&mut accounts, 0, later, 7777), 7777, "the oldest went");
        assert_eq!(get(&mut accounts, MOST, later, 7777), MOST);
        accounts.refused(credential(MOST).identity);
        assert_eq!(get(&mut accounts, MOST, later, 7777), 7777);
        accounts.accepted(credential(2).identity);
        for token in 0..=MOST {
            get(&mut accounts, 9000 + token, later, token);
        }
        assert_eq!(get(&mut accounts, 2, later, 7777), 2, "others than the guessed ones stay");
        assert_eq!(get(&mut accounts, 5, later + IDLE, 5555), 5555);
        assert_eq!(accounts.all.len(), 1);
    }

    #[test]
    fn an_address_and_an_authorization_have_a_part_of_them() {
        let (identities, mut accounts, now) = (Identities::new().unwrap(), Accounts::default(), Instant::now());
        let others: Vec<_> =
            (0..20).map(|token| (IpAddr::from([10, 0, 0, 1]), credential(&identities, token, None))).collect();
        for (address, other) in &others {
            accounts.get((*address, other), now, |()| Need::None, || ()).unwrap();
        }
        let made_up = |cookie| (HERE, credential(&identities, 100, Some(cookie)));
        for cookie in 0..100 {
            let (address, credential) = made_up(cookie);
            accounts.get((address, &credential), now, |()| Need::Keeps, || ()).unwrap();
        }
        assert_eq!(accounts.all.len(), 20 + OF_AUTHORIZATION);
        let (address, another) = made_up(100);
        assert!(accounts.get((address, &another), now, |()| Need::Answers, || ()).is_none(), "all are in use");
        assert!(accounts.get((HERE, &made_up(99).1), now, |()| Need::Answers, || ()).is_some());
        for token in 1000..2000 {
            accounts.get((HERE, &credential(&identities, token, None)), now, |()| Need::None, || ()).unwrap();
        }
        assert_eq!(accounts.all.len(), 20 + OF_ADDRESS);
        assert!(others.iter().all(|(_, other)| accounts.all.contains_key(&other.identity)), "others keep theirs");
    }
}
