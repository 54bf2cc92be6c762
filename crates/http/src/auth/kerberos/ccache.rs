//! Credential caches of MIT Kerberos and Heimdal: file format version 4.
//!
//! The format is documented in the MIT Kerberos manual, "Credential cache file format". All numbers are big-endian, and
//! each length is checked against the rest of the file.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use zeroize::Zeroizing;

/// The realm of entries that are settings of the cache, not credentials.
const SETTINGS: &[u8] = b"X-CACHECONF:";
/// The tag of the difference between the KDC's clock and this one's.
const DELTA_TIME: u16 = 1;
/// The most components of a name; more are no Kerberos principal that anybody uses.
const MAX_COMPONENTS: u32 = 32;

/// A principal (RFC 4120 §5.2.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Principal {
    pub(super) name_type: u32,
    pub(super) realm: Vec<u8>,
    pub(super) components: Vec<Vec<u8>>,
}

impl Principal {
    /// Whether both names mean the same one: their types do not matter (RFC 4120 §6.2).
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.realm == other.realm && self.components == other.components
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, component) in self.components.iter().enumerate() {
            let separator = if number > 0 { "/" } else { "" };
            write!(f, "{separator}{}", component.escape_ascii())?;
        }
        write!(f, "@{}", self.realm.escape_ascii())
    }
}

/// A ticket and the key that proves its ownership.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) client: Principal,
    pub(super) server: Principal,
    /// The encryption type of the session key (RFC 3961 §8).
    pub(super) encryption: u16,
    pub(super) key: Zeroizing<Vec<u8>>,
    /// Seconds since the epoch.
    pub(super) end: u32,
    /// In DER.
    pub(super) ticket: Vec<u8>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({} for {}, until {})", self.server, self.client, self.end)
    }
}

/// The contents of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cache {
    /// Whose cache it is.
    pub(super) owner: Principal,
    /// How many seconds the KDC's clock was ahead of this one's when the cache was made.
    pub(super) ahead: i32,
    pub(super) entries: Vec<Entry>,
}

impl Cache {
    /// Parses a file. `None` if it is none of version 4, or damaged.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.u16()? != 0x0504 {
            return None;
        }
        let tags = reader.u16()?;
        let ahead = Reader(reader.take(tags.into())?).ahead()?;
        let owner = reader.principal()?;
        let mut entries = Vec::new();
        while !reader.0.is_empty() {
            let entry = reader.entry()?;
            if entry.server.realm != SETTINGS {
                entries.push(entry);
            }
        }
        Some(Self { owner, ahead, entries })
    }

    /// When a ticket ends, by this machine's clock.
    pub(super) fn end_of(&self, entry: &Entry) -> SystemTime {
        let end = i64::from(entry.end) - i64::from(self.ahead);
        SystemTime::UNIX_EPOCH + Duration::from_secs(end.max(0).unsigned_abs())
    }

    /// The owner's tickets for a service on a host, the one that is valid longest last. Host names match in any case. A service
    /// that acts for others may have tickets of theirs in its own cache.
    pub(super) fn tickets(&self, service: &str, host: &str) -> Vec<&Entry> {
        let is_it = |entry: &&Entry| {
            let [first, second] = entry.server.components.as_slice() else { return false };
            let is_service = first == service.as_bytes() && second.eq_ignore_ascii_case(host.as_bytes());
            is_service && entry.client.is_same(&self.owner)
        };
        let mut found: Vec<_> = self.entries.iter().filter(is_it).collect();
        found.sort_by_key(|entry| entry.end);
        found
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// The whole seconds of the tag `DeltaTime`; none if the tags are damaged.
    fn ahead(mut self) -> Option<i32> {
        let mut ahead = 0;
        while !self.0.is_empty() {
            let (tag, length) = (self.u16()?, self.u16()?);
            let mut value = Reader(self.take(length.into())?);
            if tag == DELTA_TIME {
                ahead = value.u32()?.cast_signed();
            }
        }
        Some(ahead)
    }

    fn data(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn principal(&mut self) -> Option<Principal> {
        let name_type = self.u32()?;
        let count = self.u32().filter(|count| *count <= MAX_COMPONENTS)?;
        let realm = self.data()?.to_vec();
        let components = (0..count).map(|_| self.data().map(<[u8]>::to_vec)).collect::<Option<_>>()?;
        Some(Principal { name_type, realm, components })
    }

    fn entry(&mut self) -> Option<Entry> {
        let (client, server) = (self.principal()?, self.principal()?);
        let encryption = self.u16()?;
        let key = Zeroizing::new(self.data()?.to_vec());
        let (_authenticated, _start) = (self.u32()?, self.u32()?);
        let end = self.u32()?;
        let _renewable_until = self.u32()?;
        let _encrypted_in_session_key = self.take(1)?;
        let _flags = self.u32()?;
        // Addresses, then authorization data: each has a type.
        for _ in 0..2 {
            for _ in 0..self.u32()? {
                self.u16()?;
                self.data()?;
            }
        }
        let ticket = self.data()?.to_vec();
        let _second_ticket = self.data()?;
        Some(Entry { client, server, encryption, key, end, ticket })
    }
}

#[cfg(test)]
pub(in crate::auth) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    fn principal(name: &str) -> Vec<u8> {
        let (name, realm) = name.split_once('@').unwrap();
        let components: Vec<_> = name.split('/').collect();
        let head = [1_u32.to_be_bytes(), (components.len() as u32).to_be_bytes()].concat();
        [head, data(realm.as_bytes()), components.iter().flat_map(|part| data(part.as_bytes())).collect()].concat()
    }

    /// A cache of ann with these tickets: server, encryption type, end.
    pub(in crate::auth) fn cache(tickets: &[(&str, u16, u32)]) -> Vec<u8> {
        let mut bytes = vec![5, 4, 0, 12, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(principal("ann@EXAMPLE.TEST"));
        for (server, encryption, end) in tickets {
            bytes.extend([principal("ann@EXAMPLE.TEST"), principal(server)].concat());
            bytes.extend(encryption.to_be_bytes());
            bytes.extend(data(&[7; 32][..if *encryption == 17 { 16 } else { 32 }]));
            bytes.extend([0, 0, *end, 0].iter().flat_map(|time: &u32| time.to_be_bytes()));
            bytes.extend([0, 0x40, 0, 0, 0]);
            // One address and one piece of authorization data.
            bytes.extend([&1_u32.to_be_bytes()[..], &[0, 2], &data(&[127, 0, 0, 1])].concat());
            bytes.extend([&1_u32.to_be_bytes()[..], &[0, 1], &data(b"x")].concat());
            // An empty [APPLICATION 1].
            bytes.extend([data(&[0x61, 0]), data(&[])].concat());
        }
        bytes
    }

    #[test]
    fn tickets_are_found_by_service_and_host() {
        let bytes = cache(&[
            ("krbtgt/EXAMPLE.TEST@EXAMPLE.TEST", 18, 90),
            ("krb5_ccache_conf_data/pa_type@X-CACHECONF:", 0, 0),
            ("HTTP/dav.example.test@EXAMPLE.TEST", 18, 100),
            ("HTTP/DAV.example.test@EXAMPLE.TEST", 17, 50),
            ("HTTP/other.example.test@EXAMPLE.TEST", 17, 500),
        ]);
        let cache = Cache::parse(&bytes).unwrap();
        assert_eq!((cache.owner.to_string().as_str(), cache.entries.len()), ("ann@EXAMPLE.TEST", 4));
        let found = cache.tickets("HTTP", "dav.example.test");
        let found: Vec<_> = found.iter().map(|entry| (entry.end, entry.encryption, entry.key.len())).collect();
        assert_eq!(found, [(50, 17, 16), (100, 18, 32)]);
        assert!(
            cache.tickets("HTTP", "dav.example").is_empty() && cache.tickets("cifs", "dav.example.test").is_empty()
        );
        let shown = format!("{:?}", cache.entries[1]);
        assert_eq!(shown, "Entry(HTTP/dav.example.test@EXAMPLE.TEST for ann@EXAMPLE.TEST, until 100)");
    }

    #[test]
    fn ticket_of_another_client_is_not_the_owners() {
        let mut bytes = cache(&[("HTTP/a@R", 18, 1)]);
        let at = bytes.windows(3).position(|window| window == b"ann").unwrap();
        bytes[at..at + 3].copy_from_slice(b"bob");
        let cache = Cache::parse(&bytes).unwrap();
        assert_eq!((cache.owner.to_string().as_str(), cache.tickets("HTTP", "a").len()), ("bob@EXAMPLE.TEST", 0));
    }

    #[test]
    fn truncated_cache_is_refused() {
        let bytes = cache(&[("HTTP/a@R", 18, 1)]);
        let whole = Cache::parse(&bytes).unwrap();
        let without_tickets = cache(&[]).len();
        for end in 0..bytes.len() {
            let parsed = Cache::parse(&bytes[..end]);
            assert_eq!(parsed.is_some(), end == without_tickets, "{end}");
        }
        assert_eq!(whole.entries.len(), 1);
        for version in [&[5, 1][..], &[5, 2], &[5, 3], &[4, 4]] {
            assert_eq!(Cache::parse(&[version, &bytes[2..]].concat()), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Cache::parse(&bytes);
            let _ = Cache::parse(&[&[5, 4, 0, 0], bytes.as_slice()].concat());
        }

        #[test]
        fn changed_cache_is_parsed_without_panic(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
            end in any::<proptest::sample::Index>(),
        ) {
            let mut bytes = cache(&[("HTTP/a@R", 18, 1), ("HTTP/b@R", 17, 2)]);
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            // No name or ticket is longer than the file, whatever the lengths in it say.
            if let Some(cache) = Cache::parse(&bytes) {
                prop_assert!(cache.entries.iter().map(|entry| entry.ticket.len() + entry.key.len()).sum::<usize>() <= bytes.len());
                prop_assert!(cache.tickets("HTTP", "a").len() <= 2);
            }
        }
    }
}
