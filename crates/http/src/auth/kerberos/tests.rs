use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use super::{ccache::tests::cache, *};

const FAR: u32 = 4_000_000_000;

fn kerberos(tickets: &[(&str, u16, u32)]) -> (tempfile::TempDir, Kerberos) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    fs::write(&path, cache(tickets)).unwrap();
    (folder, Kerberos::new(path))
}

fn token(kerberos: &Kerberos, host: &str) -> Vec<u8> {
    let value = kerberos.authorization(host).unwrap();
    STANDARD.decode(value.to_str().unwrap().strip_prefix("Negotiate ").unwrap()).unwrap()
}

/// Whether `part` is in `whole`.
fn has(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len()).any(|window| window == part)
}

#[test]
fn every_token_is_another_one() {
    for encryption in [17, 18] {
        let (_folder, kerberos) = kerberos(&[("HTTP/dav.example.test@EXAMPLE.TEST", encryption, FAR)]);
        let tokens: Vec<_> = (0..50).map(|_| token(&kerberos, "dav.example.test")).collect();
        let different: std::collections::HashSet<_> = tokens.iter().collect();
        assert_eq!(different.len(), tokens.len());
        let moments: Vec<_> = (0..50).map(|_| kerberos.moment(0)).collect();
        assert!(moments.windows(2).all(|pair| pair[0] < pair[1]));
        // [APPLICATION 0], SPNEGO's OID (RFC 4178 §4.2); Kerberos' OID and the token id of an AP-REQ (RFC 4121 §4.1).
        assert!(tokens[0][0] == 0x60 && has(&tokens[0], &[6, 6, 0x2B, 6, 1, 5, 5, 2]));
        assert!(has(&tokens[0], &[6, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 1, 2, 2, 1, 0, 0x6E]));
        // The ticket as it is in the cache, in [3].
        assert!(has(&tokens[0], &[0xA3, 2, 0x61, 0]));
    }
}

#[test]
fn error_says_what_the_cache_lacks() {
    let (folder, some) = kerberos(&[
        ("HTTP/old.test@R", 18, 1_000_000_000),
        ("HTTP/new.test@R", 20, FAR),
        ("HTTP/both.test@R", 20, FAR),
        ("HTTP/both.test@R", 18, FAR - 1),
    ]);
    let said = |host: &str| some.authorization(host).unwrap_err().to_string();
    assert!(said("old.test").ends_with("expired at Sun, 09 Sep 2001 01:46:40 GMT"), "{}", said("old.test"));
    assert!(said("no.test").contains("no ticket for HTTP/no.test in /"), "{}", said("no.test"));
    assert!(said("new.test").contains("encryption type 20"), "{}", said("new.test"));
    assert!(some.authorization("BOTH.test").is_ok());
    assert_eq!(some.owner().unwrap(), "ann@EXAMPLE.TEST");
    let path = folder.path().join("other");
    let other = Kerberos::new(path.clone());
    assert!(other.authorization("a").unwrap_err().to_string().contains("cannot read"));
    fs::write(&path, "not a cache").unwrap();
    assert!(other.authorization("a").unwrap_err().to_string().contains("is not a Kerberos credential cache"));
    assert!(Kerberos::new("/dev/zero".into()).owner().is_err());
}

#[test]
fn replaced_cache_is_read_again() {
    let (folder, kerberos) = kerberos(&[("HTTP/a.test@R", 18, FAR)]);
    let end = |kerberos: &Kerberos| kerberos.expires("a.test").unwrap();
    let before = end(&kerberos);
    let new = folder.path().join("new");
    fs::write(&new, cache(&[("HTTP/a.test@R", 18, FAR + 60)])).unwrap();
    fs::rename(&new, kerberos.path()).unwrap();
    assert_eq!(end(&kerberos), before + Duration::from_mins(1));
}

#[test]
fn ticket_is_used_until_it_expires_and_only_for_its_owner() {
    let (_folder, kerberos) = kerberos(&[("HTTP/a.test@R", 18, FAR)]);
    token(&kerberos, "a.test");
    // As kinit leaves it, as it looks meanwhile, and as kdestroy leaves it.
    fs::write(kerberos.path(), cache(&[("krbtgt/R@R", 18, FAR)])).unwrap();
    token(&kerberos, "a.test");
    fs::write(kerberos.path(), [5, 4]).unwrap();
    token(&kerberos, "a.test");
    fs::remove_file(kerberos.path()).unwrap();
    token(&kerberos, "a.test");
    assert!(kerberos.authorization("b.test").is_err(), "it never had one");
    assert!(Kerberos::new(kerberos.path().to_owned()).authorization("a.test").is_err());
    // And as it is when somebody else has logged in.
    let mut bytes = cache(&[("HTTP/a.test@R", 18, FAR)]);
    while let Some(at) = bytes.windows(3).position(|window| window == b"ann") {
        bytes[at..at + 3].copy_from_slice(b"bob");
    }
    fs::write(kerberos.path(), bytes).unwrap();
    let said = kerberos.authorization("a.test").unwrap_err().to_string();
    assert!(said.contains("has the tickets of bob@EXAMPLE.TEST, and not of ann@EXAMPLE.TEST"), "{said}");
}

#[test]
fn cache_is_named_by_the_environment() {
    let found = |value: &str| {
        let value = value.to_owned();
        Kerberos::from_environment(move |_| Some(value.clone().into()), 7).map(|found| found.path)
    };
    assert_eq!(found(""), Ok("/tmp/krb5cc_7".into()));
    assert_eq!(
        (found("FILE:/a:b"), found("/a"), found("/a:b")),
        (Ok("/a:b".into()), Ok("/a".into()), Ok("/a:b".into()))
    );
    for name in ["KCM:", "KEYRING:persistent:0", "DIR:/a"] {
        assert!(found(name).unwrap_err().to_string().contains("kvno --out-cache"));
    }
}

#[test]
fn no_key_is_shown() {
    let (_folder, kerberos) = kerberos(&[("HTTP/a.test@R", 18, FAR)]);
    let cache = kerberos.cache().unwrap();
    assert!(!format!("{kerberos:?} {cache:?}").contains("7, 7"));
}

proptest::proptest! {
    #[test]
    fn any_cache_makes_a_token_or_an_error(
        changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..=255_u8), 0..6),
        key in proptest::collection::vec(0..=255_u8, 0..40),
        name in proptest::collection::vec(0..=255_u8, 0..8),
        encryption in 16..=19_u16,
    ) {
        let mut bytes = cache(&[("HTTP/a@R", 18, FAR), ("HTTP/b@R", 17, FAR)]);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let entries = Cache::parse(&bytes).map(|cache| cache.entries).unwrap_or_default();
        for mut entry in entries {
            let _ = negotiate::token(&entry, OffsetDateTime::UNIX_EPOCH);
            entry.client.realm = b"R".to_vec();
            entry.client.components = vec![name.clone()];
            entry.key = Zeroizing::new(key.clone());
            entry.encryption = encryption;
            let made = negotiate::token(&entry, OffsetDateTime::UNIX_EPOCH);
            let is_sound = (encryption == 17 && key.len() == 16 || encryption == 18 && key.len() == 32) && name.is_ascii();
            proptest::prop_assert_eq!(made.is_ok(), is_sound, "{} {}", encryption, key.len());
        }
    }
}

#[test]
fn a_cache_of_another_user_is_refused() {
    let (folder, kerberos) = kerberos(&[("HTTP/a.test@R", 18, FAR)]);
    let of = |uid: u32| {
        let name = kerberos.path().as_os_str().to_owned();
        Kerberos::from_environment(move |_| Some(name.clone()), uid).unwrap()
    };
    if fs::metadata(folder.path()).unwrap().uid() == 0 {
        std::os::unix::fs::chown(kerberos.path(), Some(54321), None).unwrap();
    }
    let uid = fs::metadata(kerberos.path()).unwrap().uid();
    assert!(of(uid).owner().is_ok());
    assert_eq!(of(uid + 1).owner(), Err(KerberosError::Foreign(kerberos.path().to_owned())));
}

#[test]
fn the_clock_of_the_kdc_counts() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let (folder, kerberos) = kerberos(&[("HTTP/a.test@R", 18, u32::try_from(now).unwrap() + 600)]);
    let here = kerberos.moment(0);
    let there = kerberos.moment(-300);
    assert!((here - there).whole_seconds() >= 298, "a clock that was set back sets the next moment back");
    let end = kerberos.expires("a.test").unwrap();
    let mut bytes = fs::read(kerberos.path()).unwrap();
    // The seconds of the tag.
    bytes[8..12].copy_from_slice(&300_i32.to_be_bytes());
    fs::write(folder.path().join("ahead"), bytes).unwrap();
    let ahead = Kerberos::new(folder.path().join("ahead"));
    assert_eq!(end.duration_since(ahead.expires("a.test").unwrap()).unwrap().as_secs(), 300);
}
