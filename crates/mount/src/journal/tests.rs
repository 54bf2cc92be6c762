use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, SystemTime},
};

use super::*;
use crate::file_state::Base;

/// The share of the journal in `tests/journal-0.1`, which release 0.1 has left when its server was away.
const SHARE: &str = "http://127.0.0.1:9871/";

fn of_release_0_1(cache: &Path) -> PathBuf {
    let folder = place(cache, SHARE, "");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal-0.1");
    fs::create_dir_all(folder.join("data")).unwrap();
    for name in ["share", "records", "data/2", "data/3", "data/4", "data/6"] {
        fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    folder
}

#[test]
fn journal_of_release_0_1_is_replayed() {
    let cache = tempfile::tempdir().unwrap();
    let folder = of_release_0_1(cache.path());
    // The second one has the format of today.
    for is_first in [true, false] {
        let has_header = fs::read_to_string(folder.join("records")).unwrap().contains("longhaul.journal/1");
        assert_eq!(has_header, !is_first);
        let journal = open(folder.clone(), SHARE).unwrap();
        let entries = journal.entries();
        let all: BTreeMap<_, _> = entries
            .iter()
            .map(|entry| (entry.id.0, (entry.path.to_string(), fs::read_to_string(journal.data(entry.id)).unwrap())))
            .collect();
        let expected =
            [(2, "/new.txt", "precious"), (3, "/old.txt", ""), (4, "/old.txt", "changed here"), (6, "/moved", "first")];
        assert_eq!(all, expected.map(|(id, path, content)| (id, (path.to_owned(), content.to_owned()))).into());
        let (new, old) = (entries.get(Id(2)).unwrap(), entries.get(Id(4)).unwrap());
        assert_eq!(new.modified, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_934_245)));
        assert!(new.base == Base::New && new.is_doubtful() && new.failure.is_some());
        assert_eq!(old.base.tag().map(ToString::to_string).unwrap(), "\"9900be-9-6b0b750e.281c3c3e\"");
        assert_eq!(entries.messages(), []);
    }
}

#[test]
fn journal_of_a_later_version_is_refused_and_left_as_it_is() {
    let cache = tempfile::tempdir().unwrap();
    let folder = of_release_0_1(cache.path());
    drop(open(folder.clone(), SHARE).unwrap());
    let text = fs::read_to_string(folder.join("records")).unwrap();
    let json = r#"{"format":"longhaul.journal/2"}"#;
    let (_, records) = text.split_once('\n').unwrap();
    let later = format!("{:08x} {json}\n{records}", crc32c::crc32c(json.as_bytes()));
    fs::write(folder.join("records"), &later).unwrap();
    let refused = open(folder.clone(), SHARE).err().unwrap().to_string();
    assert!(refused.contains("longhaul.journal/2") && refused.contains("copy your files out"), "{refused}");
    assert_eq!(Report::read(folder.clone()).unwrap_err().to_string(), refused);
    assert_eq!(fs::read_to_string(folder.join("records")).unwrap(), later);
    assert_eq!(fs::read_dir(folder.join("data")).unwrap().count(), 4);
}
