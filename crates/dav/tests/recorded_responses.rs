//! Responses of real servers, and some written in their style.
//!
//! Those of Apache 2.4.71, nginx 1.22.1 with dav-ext, and `haul serve` were recorded over the same folder: a folder, a
//! file, one with a name that needs encoding, and one with a byte of Latin-1 and a control character in its name. Those
//! of Nextcloud, IIS, SharePoint and sabre/dav are written by hand.

use std::{fmt::Write, fs, path::Path, time::Duration};

use dav::{Entry, ErrorBody, Item, Multistatus, Properties, RemotePath};

fn data(file: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)).unwrap()
}

fn read(file: &str, asked: &str) -> (Vec<Entry>, dav::End) {
    let mut answer = Multistatus::new(RemotePath::from_url_path(asked).unwrap());
    let mut entries = Vec::new();
    for piece in data(file).chunks(100) {
        for item in answer.feed(piece) {
            match item.unwrap() {
                Item::Entry(entry) => entries.push(*entry),
                Item::Misplaced(error) => panic!("{file}: {error}"),
            }
        }
    }
    (entries, answer.finish().unwrap())
}

/// A line per entry: path, length, time, entity tag, and other properties.
fn lines(entries: &[Entry]) -> String {
    let mut lines = String::new();
    for Entry { path, properties: p, status, .. } in entries {
        let seconds = p.modified.map(|time| time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs());
        let _ = write!(lines, "{}", path.target());
        let _ = p.length.map(|length| write!(lines, " {length}"));
        let _ = seconds.map(|seconds| write!(lines, " @{seconds}"));
        let _ = p.etag.as_ref().map(|tag| write!(lines, " {tag}"));
        let _ = p.executable.map(|flag| write!(lines, " x={flag}"));
        let _ = status.map(|status| write!(lines, " {status}"));
        let _ = p.locks.first().map(|lock| {
            let token = lock.token.as_ref().map_or("", |token| token.as_str());
            write!(lines, " [{token} {:?} {:?}]", lock.owner.as_deref().unwrap_or_default(), lock.timeout)
        });
        lines.push('\n');
    }
    lines
}

#[test]
fn apache() {
    let (entries, _) = read("apache-listing.xml", "/top");
    assert_eq!(
        lines(&entries),
        "/top/ @1795301375 W/\"1000-660d12cb9d7a2\"\n\
         /top/sub/ @1795301343 \"1000-660d12ad637c1\"\n\
         /top/sp%C3%A4ce%20&%20%3Codd%3E%25.txt 6 @1795301343 \"6-660d12ad6a837\" x=false\n\
         /top/l%E4tin%01ctl.txt 1 @1795301343 \"1-660d12ad6b4c1\" x=false\n\
         /top/a.txt 6 @1795301343 \"6-660d12ad685e1\" x=false \
         [opaquelocktoken:b718ba0d-d825-4725-8cf9-7af6c29b8e21 \"Ann mailto:ann@example.org\" Some(600s)]\n"
    );
    assert!(entries.iter().all(|entry| entry.properties.lockable.exclusive && entry.refused.is_empty()));

    let lock = Properties::read(&data("apache-lock.xml")).unwrap().locks.remove(0);
    assert_eq!((lock.timeout, lock.infinite_depth, lock.shared), (Some(Duration::from_mins(10)), false, false));
    // With status 424 instead of 207, although some of the folder may be deleted.
    assert_eq!(lines(&read("apache-delete-424.xml", "/top/").0), "/top/a.txt 423 Locked\n");
    assert_eq!(ErrorBody::read(&data("apache-423.html")), ErrorBody::default());
}

#[test]
fn nginx() {
    let (entries, _) = read("nginx-listing.xml", "/top/");
    assert_eq!(
        lines(&entries),
        "/top/ @1795301412\n\
         /top/sub/ @1795301412\n\
         /top/new.txt 1 @1795301412\n\
         /top/sp%C3%A4ce%20&%20%3Codd%3E%25.txt 6 @1795301412\n\
         /top/l%E4tin%01ctl.txt 1 @1795301412\n\
         /top/a.txt 6 @1795301412 [urn:5945e80d \"\" Some(60s)]\n"
    );
    let lock = Properties::read(&data("nginx-lock.xml")).unwrap().locks.remove(0);
    assert_eq!((lock.timeout, lock.root.as_deref()), (Some(Duration::from_mins(1)), Some("/top/a.txt")));
}

#[test]
fn longhaul() {
    let (entries, _) = read("longhaul-listing.xml", "/top/");
    let names: Vec<_> = entries.iter().map(|entry| entry.path.target()).collect();
    assert_eq!(
        names,
        [
            "/top/",
            "/top/sub/",
            "/top/new.txt",
            "/top/sp%C3%A4ce%20&%20%3Codd%3E%25.txt",
            "/top/l%E4tin%01ctl.txt",
            "/top/a.txt",
            "/top/.DAV/"
        ]
    );
    let a = &entries[5].properties;
    assert_eq!((a.quota_available, a.windows.attributes), (Some(97_793_294_330), Some(0x20)));
    assert_eq!(a.windows.modified, a.modified);
    assert_eq!(a.locks[0].owner.as_deref(), Some("Ann mailto:ann@example.org"));
    assert_eq!(Properties::read(&data("longhaul-lock.xml")).unwrap().locks, a.locks);
}

#[test]
fn proppatch_fails_as_a_whole() {
    for (file, expected) in [
        ("apache-proppatch.xml", ["Win32LastModifiedTime 424", "executable 424", "getetag 409"]),
        ("longhaul-proppatch.xml", ["executable 403", "getetag 403", "Win32LastModifiedTime 424"]),
    ] {
        let (entries, _) = read(file, "/top/a.txt");
        let refused: Vec<_> =
            entries[0].refused.iter().map(|(name, status)| format!("{} {}", name.local, status.as_u16())).collect();
        assert_eq!(refused, expected, "{file}");
    }
}

#[test]
fn nextcloud() {
    let (entries, _) = read("nextcloud-listing.xml", "/remote.php/dav/files/ann/Photos/");
    assert_eq!(
        lines(&entries),
        "/remote.php/dav/files/ann/Photos/ @1795161600 \"655b13a0c1d2e\"\n\
         /remote.php/dav/files/ann/Photos/caf%C3%A9%20%231.jpg 3145728 @1795071965 \"0a1b2c\"\n"
    );
    assert_eq!(entries[1].properties.checksums.len(), 3);
    assert_eq!((entries[0].properties.quota_available, entries[0].properties.quota_used), (None, Some(3_145_728)));
}

#[test]
fn iis() {
    let (entries, _) = read("iis-listing.xml", "/share/");
    assert_eq!(
        lines(&entries),
        "/share/ 0 @1795161600\n/share/New%20Text%20Document.txt 12 @1795161601 \"4a5b6c:0\"\n"
    );
    assert!(entries[0].properties.created.is_some() && entries[1].properties.windows.modified.is_some());
}

#[test]
fn sharepoint() {
    let (entries, _) = read("sharepoint-listing.xml", "/sites/a/Shared%20Documents/");
    assert_eq!(
        lines(&entries),
        "/sites/a/Shared%20Documents/ @1795161600 \"{0A},0\"\n\
         /sites/a/Shared%20Documents/Bericht%20M%C3%A4rz.docx 20480 @1795161600 \"{1B},3\" \
         [opaquelocktoken:{2C}20261120T080000Z \"EXAMPLE\\\\bob\" Some(543s)]\n"
    );
}

#[test]
fn sabre_sync_report() {
    let (entries, end) = read("sabre-sync.xml", "/dav/");
    assert_eq!(lines(&entries), "/dav/new.txt \"1\"\n/dav/gone.txt 404 Not Found\n/dav/ 507 Insufficient Storage\n");
    assert_eq!(entries[2].conditions[0].code, dav::ConditionCode::NumberOfMatchesWithinLimits);
    assert_eq!(entries[2].description.as_deref(), Some("500 at a time"));
    assert_eq!(end.sync_token.as_deref(), Some("http://sabre.io/ns/sync/5001"));
}
