//! Records that were damaged, moved or read with the wrong key.

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use tempfile::TempDir;

use super::*;

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn password(text: &str) -> Enrolment {
    Enrolment::Password { account: "ann@example.org".into(), password: text.into() }
}

/// A folder with a vault and its key.
struct World(TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        VaultKey::create(&world.key()).unwrap();
        world
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("keys/key")
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("vault")
    }

    fn record(&self, user: &str) -> PathBuf {
        self.folder().join(format!("{user}.sealed"))
    }

    fn vault(&self) -> Vault {
        Vault::open(&self.folder(), VaultKey::read(&self.key()).unwrap(), &self.key()).unwrap()
    }
}

#[test]
fn stored_enrolment_is_loaded_and_removed() {
    let world = World::new();
    let (ann, bob) = (name("ann"), name("Bob"));
    let token = Enrolment::Token { account: "bob".into(), token: "tök€n".into() };
    world.vault().store(&ann, &password("first")).unwrap();
    world.vault().store(&ann, &password("second \"quoted\"\n")).unwrap();
    world.vault().store(&bob, &token).unwrap();
    assert_eq!(world.vault().load(&ann).unwrap(), Some(password("second \"quoted\"\n")));
    assert_eq!(world.vault().load(&bob).unwrap(), Some(token));
    assert_eq!(world.vault().load(&name("carol")).unwrap(), None);
    assert_eq!(users(&world.folder()).unwrap(), [ann.clone(), name("bob")]);
    assert!(world.vault().remove(&ann).unwrap() && !world.vault().remove(&ann).unwrap());
    assert_eq!(world.vault().load(&ann).unwrap(), None);
    let left: Vec<_> = fs::read_dir(world.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["bob.sealed"], "no temporary file is left");
}

#[test]
fn files_are_readable_by_their_owner_only_and_without_secret() {
    let world = World::new();
    world.vault().store(&name("ann"), &password("hunter2")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&world.key()), mode(&world.record("ann")), mode(&world.folder())), (0o600, 0o600, 0o700));
    let content = fs::read(world.record("ann")).unwrap();
    for text in ["hunter2", "ann@example.org"] {
        assert!(!content.windows(text.len()).any(|part| part == text.as_bytes()), "{text}");
    }
    let shown = format!("{:?} {:?}", world.vault(), password("hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn record_of_another_user_does_not_open() {
    let world = World::new();
    world.vault().store(&name("ann"), &password("hunter2")).unwrap();
    fs::copy(world.record("ann"), world.record("bob")).unwrap();
    let error = world.vault().load(&name("bob")).unwrap_err();
    assert!(matches!(&error, VaultError::Sealed(user) if user == "bob"), "{error}");
}

#[test]
fn changed_or_torn_record_does_not_open() {
    let world = World::new();
    let (vault, ann) = (world.vault(), name("ann"));
    vault.store(&ann, &password("hunter2")).unwrap();
    let whole = fs::read(world.record("ann")).unwrap();
    for length in 0..whole.len() {
        fs::write(world.record("ann"), &whole[..length]).unwrap();
        assert!(matches!(vault.load(&ann), Err(VaultError::Sealed(_))), "{length} bytes");
        let mut changed = whole.clone();
        changed[length] ^= 1;
        fs::write(world.record("ann"), changed).unwrap();
        assert!(matches!(vault.load(&ann), Err(VaultError::Sealed(_))), "byte {length}");
    }
    fs::write(world.record("ann"), [&whole[..], b"x"].concat()).unwrap();
    assert!(matches!(vault.load(&ann), Err(VaultError::Sealed(_))));
    fs::write(world.record("ann"), whole).unwrap();
    assert_eq!(vault.load(&ann).unwrap(), Some(password("hunter2")));
}

#[test]
fn record_does_not_open_with_another_key() {
    let (world, other) = (World::new(), World::new());
    world.vault().store(&name("ann"), &password("hunter2")).unwrap();
    let key = VaultKey::read(&other.key()).unwrap();
    let vault = Vault::open(&world.folder(), key, &other.key()).unwrap();
    assert!(matches!(vault.load(&name("ann")), Err(VaultError::Sealed(_))));
}

#[test]
fn equal_enrolments_are_sealed_differently() {
    let world = World::new();
    let sealed = || {
        world.vault().store(&name("ann"), &password("hunter2")).unwrap();
        fs::read(world.record("ann")).unwrap()
    };
    assert_ne!(sealed(), sealed());
}

#[test]
fn key_that_others_can_read_is_refused() {
    let world = World::new();
    for mode in [0o640, 0o620, 0o604, 0o601, 0o660] {
        fs::set_permissions(world.key(), Permissions::from_mode(mode)).unwrap();
        let error = VaultKey::read(&world.key()).unwrap_err();
        assert!(matches!(error, VaultError::Exposed { .. }) && error.to_string().contains("chmod 600"), "{error}");
    }
    fs::set_permissions(world.key(), Permissions::from_mode(0o440)).unwrap();
    assert!(VaultKey::read_credential(&world.key()).is_ok());
    fs::set_permissions(world.key(), Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(world.folder(), Permissions::from_mode(0o755))
        .or_else(|_| fs::create_dir(world.folder()))
        .unwrap();
    fs::set_permissions(world.folder(), Permissions::from_mode(0o755)).unwrap();
    let opened = Vault::open(&world.folder(), VaultKey::read(&world.key()).unwrap(), &world.key());
    assert!(matches!(opened, Err(VaultError::Exposed { .. })));
}

#[test]
fn key_file_is_checked_and_never_replaced() {
    let world = World::new();
    let before = fs::read(world.key()).unwrap();
    VaultKey::create(&world.key()).unwrap();
    assert_eq!(fs::read(world.key()).unwrap(), before);
    for content in ["", "abc", "AAAA", &"A".repeat(200)] {
        fs::write(world.key(), content).unwrap();
        assert!(matches!(VaultKey::read(&world.key()), Err(VaultError::Key(_))), "{content}");
    }
    assert!(matches!(VaultKey::read(&world.0.path().join("none")), Err(VaultError::NoKey(_))));
    let inside = world.folder().join("key");
    VaultKey::create(&inside).unwrap();
    let opened = Vault::open(&world.folder(), VaultKey::read(&inside).unwrap(), &inside);
    assert!(matches!(opened, Err(VaultError::KeyInside(_))));
}

#[test]
fn names_are_safe_everywhere() {
    for text in ["ann", "Ann", "a.b-c_d9"] {
        assert_eq!(name(text).as_str(), text.to_lowercase());
    }
    for text in ["", ".", "..", "../a", "a/b", "a b", "a:b", "a\n", "-a", "9a", "ä", "%u", "a\\b", &"a".repeat(33)] {
        assert!(text.parse::<UserName>().is_err(), "{text}");
    }
}
