use dav::RemotePath;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{report::Report, version::Base};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Nothing {}

fn open(folder: &Path) -> Journal<Nothing> {
    Journal::open(folder.to_owned(), "https://dav.example/", "is in use").unwrap()
}

fn add(journal: &Journal<Nothing>, content: &str) -> (Id, io::Result<()>) {
    let mut entries = journal.entries();
    let id = entries.next_id();
    fs::write(journal.data(id), content).unwrap();
    let path = RemotePath::from_url_path("/file").unwrap();
    entries.add(Entry::new(id, path, Base::New, content.len() as u64, None));
    drop(entries);
    (id, journal.commit())
}

fn pending(folder: &Path) -> usize {
    Report::read(folder.to_owned()).unwrap().pending.len()
}

#[test]
fn files_whose_names_were_lost_are_all_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("journal");
    for content in ["first", "second"] {
        let journal = open(&folder);
        add(&journal, content).1.unwrap();
        drop(journal);
        let records = folder.join("records");
        let text = fs::read_to_string(&records).unwrap();
        fs::write(&records, text.replace("/file", "/fiel")).unwrap();
        drop(open(&folder));
        let report = Report::read(folder.clone()).unwrap();
        assert!(report.pending.is_empty() && report.messages.iter().any(|message| message.what.contains("damaged")));
        report.acknowledge().unwrap();
        assert!(Report::read(folder.clone()).unwrap().messages.is_empty());
    }
    let mut found: Vec<_> = fs::read_dir(folder.join("found"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    found.sort();
    assert_eq!(found, ["first", "second"]);
}

#[test]
fn closed_journal_confirms_nothing_and_loses_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("journal");
    let journal = open(&folder);
    let (id, added) = add(&journal, "safe");
    added.unwrap();
    journal.close();
    let other = open(&folder);
    add(&journal, "late").1.unwrap_err();
    journal.entries().give_up(id);
    journal.commit().unwrap_err();
    assert_eq!(fs::read_to_string(other.data(id)).unwrap(), "safe");
    assert_eq!(pending(&folder), 1);
}
