use dav::ETag;

use super::*;

fn facts(tag: &str) -> Facts {
    Facts { length: 10, modified: None, etag: ETag::parse(tag) }
}

fn open(cache: &Path) -> ContentCache {
    ContentCache::new(cache, "https://dav.example.org/", Some(1)).unwrap()
}

/// Stores half of a file, and returns its content and record.
fn store(cache: &ContentCache, path: &str) -> (PathBuf, PathBuf) {
    let content = cache.new_place();
    fs::write(&content, "0123456789").unwrap();
    let mut present = Ranges::default();
    present.insert(0..5);
    let record = cache.record(path, &facts("\"1\""), &present, &content).unwrap();
    (content, record)
}

fn state(cache: &ContentCache) -> PathBuf {
    cache.folder().join(STATE)
}

#[test]
fn contents_survive_a_mount_and_its_crash() {
    let scratch = tempfile::tempdir().unwrap();
    for ends_well in [true, false] {
        let cache = open(scratch.path());
        let (content, record) = store(&cache, "/a");
        fs::write(cache.new_place(), "of which there is no record").unwrap();
        if ends_well {
            cache.end().unwrap();
        }
        drop(cache);
        let cache = open(scratch.path());
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 4);
        assert!(cache.find("/b", &facts("\"1\"")).is_none());
        let found = cache.find("/a", &facts("\"1\"")).unwrap();
        assert_eq!((found.content, found.record, found.present.total()), (content, record.clone(), 5));
        cache.put_away(&record);
        cache.limit(0);
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 2);
    }
}

#[test]
fn after_a_restart_of_the_machine_only_what_ended_well_is_used() {
    let scratch = tempfile::tempdir().unwrap();
    let cache = open(scratch.path());
    store(&cache, "/a");
    cache.end().unwrap();
    fs::write(state(&cache), ended_well("another boot")).unwrap();
    drop(cache);
    let cache = open(scratch.path());
    assert_eq!(cache.unused().contents().count(), 1);
    fs::write(state(&cache), in_use("another boot")).unwrap();
    drop(cache);
    let cache = open(scratch.path());
    assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 2, "the lock and the state");
}

#[test]
fn another_version_is_deleted() {
    let scratch = tempfile::tempdir().unwrap();
    let cache = open(scratch.path());
    let (content, record) = store(&cache, "/a");
    cache.put_away(&record);
    assert!(cache.find("/a", &facts("\"2\"")).is_none());
    assert!(!content.exists() && !record.exists());
}

#[test]
fn a_torn_record_and_a_short_content_are_not_used() {
    let scratch = tempfile::tempdir().unwrap();
    let cache = open(scratch.path());
    for tear_record in [true, false] {
        let (content, record) = store(&cache, "/a");
        let torn = if tear_record { &record } else { &content };
        File::options().write(true).open(torn).unwrap().set_len(7).unwrap();
        cache.put_away(&record);
        assert!(cache.find("/a", &facts("\"1\"")).is_none());
    }
}

#[test]
fn a_second_mount_and_another_account_see_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let first = open(scratch.path());
    let (_, record) = store(&first, "/a");
    first.put_away(&record);
    let second = open(scratch.path());
    assert_ne!(first.folder(), second.folder());
    assert!(second.find("/a", &facts("\"1\"")).is_none());
    assert!(second.record("/a", &facts("\"1\""), &Ranges::default(), &second.new_place()).is_none());
    let other = ContentCache::new(scratch.path(), "https://dav.example.org/", Some(2)).unwrap();
    assert!(other.find("/a", &facts("\"1\"")).is_none());
    for cache in [&first, &second, &other] {
        assert_eq!(fs::metadata(cache.folder()).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert!(first.find("/a", &facts("\"1\"")).is_some());
}

#[test]
fn the_folder_of_a_killed_mount_goes_and_what_it_could_not_keep_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let running = ContentCache::new(scratch.path(), "", None).unwrap();
    fs::write(running.new_place(), "in use").unwrap();
    let killed = scratch.path().join("mount-killed");
    fs::create_dir(&killed).unwrap();
    for name in ["1", "2", LOCK] {
        fs::write(killed.join(name), name).unwrap();
    }
    unsaved::spare(&killed.join("2"));
    let begins = scratch.path().join("mount-begins");
    fs::create_dir(&begins).unwrap();
    fs::write(scratch.path().join("unsaved"), "in the way").unwrap();
    drop(ContentCache::new(scratch.path(), "", None).unwrap());
    assert!(killed.join("2").exists());
    fs::remove_file(scratch.path().join("unsaved")).unwrap();
    drop(ContentCache::new(scratch.path(), "", None).unwrap());
    assert!(!killed.exists() && begins.exists());
    assert_eq!(fs::read_dir(running.folder()).unwrap().count(), 2, "its content and the lock");
    let kept: Vec<_> = fs::read_dir(scratch.path().join("unsaved")).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(matches!(&kept[..], [file] if fs::read(file).unwrap() == b"2"), "{kept:?}");
}

#[test]
fn the_contents_of_release_0_1_go_and_what_it_could_not_keep_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let [ended, running] =
        ["0123456789abcdef", "123456789abcdef0"].map(|name| scratch.path().join("contents").join(name));
    for folder in [&ended, &running] {
        fs::create_dir_all(folder).unwrap();
        for name in ["1", "2", LOCK, STATE, "1-2-1-9.record"] {
            fs::write(folder.join(name), name).unwrap();
        }
    }
    unsaved::spare(&ended.join("2"));
    let lock = File::open(running.join(LOCK)).unwrap();
    lock.try_lock().unwrap();
    let cache = open(scratch.path());
    assert!(!ended.exists() && running.join("1").exists(), "a mount of that release runs");
    let kept = fs::read_dir(scratch.path().join("unsaved")).unwrap().map(|file| file.unwrap().path());
    assert!(kept.map(|file| fs::read(file).unwrap()).eq([b"2"]));
    assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 2, "the lock and the state");
}

/// What this release stores, the next one finds.
#[test]
fn names_are_those_of_earlier_releases() {
    let scratch = tempfile::tempdir().unwrap();
    let cache = open(scratch.path());
    let folder = cache.folder().strip_prefix(scratch.path()).unwrap();
    assert_eq!((folder, Name::key("/a b")), (Path::new("contents-1/178024df334417ae"), 0xa19f_92be_2741_9940));
}
