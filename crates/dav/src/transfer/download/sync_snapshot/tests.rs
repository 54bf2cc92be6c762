use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::Properties;

fn path(text: &str) -> RemotePath {
    RemotePath::from_url_path(text).unwrap()
}

fn facts(version: u64) -> FileFacts {
    let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(version));
    let (etag, checksums) = (ETag::parse(&format!("\"{version}\"")), vec![format!("SHA1:{version}")]);
    FileFacts { length: Some(version), modified, etag, checksums }
}

fn new() -> SyncSnapshot {
    SyncSnapshot::new("http://h/m/".into(), path("/m/"), true, "urn:1".into())
}

/// What a report says of a path: a file's version, a folder, or that it is gone.
fn entry(text: &str, collection: Option<bool>, version: Option<u64>) -> Entry {
    let FileFacts { length, modified, etag, checksums } = facts(version.unwrap_or_default());
    let properties = Properties { collection, length, modified, etag, checksums, ..Properties::default() };
    let status = (collection.is_none() && version.is_none()).then_some(StatusCode::NOT_FOUND);
    let path = path(text).as_folder(collection == Some(true));
    Entry { path, status, properties, refused: vec![], conditions: vec![], description: None }
}

/// A server's folder: every folder by its path, and what is in it.
type Model = BTreeMap<RemotePath, FolderSnapshot>;

/// Lists what is not known, as a run does.
fn walk(remembered: &mut SyncSnapshot, model: &Model) {
    let mut waiting = vec![path("/m/")];
    while let Some(folder) = waiting.pop() {
        if remembered.content(&folder).is_none() {
            remembered.keep(folder.clone(), model[&folder].clone());
        }
        let below = remembered.content(&folder).unwrap().folders.iter();
        waiting.extend(below.map(|name| folder.join(name, true).unwrap()));
    }
}

fn written(remembered: &SyncSnapshot) -> Vec<u8> {
    let mut text = Vec::new();
    remembered.write(&mut text).unwrap();
    text
}

/// What somebody does on the server.
#[derive(Debug, Clone)]
enum Change {
    Put(String),
    Make(String),
    Delete(String),
    /// A folder gives way to one with other content.
    Replace(String),
}

fn change() -> impl Strategy<Value = Change> {
    let name = || vec(select(vec!["a", "b", "c", "%E4%"]), 1..4).prop_map(|names| format!("/m/{}", names.join("/")));
    prop_oneof![
        4 => name().prop_map(Change::Put),
        2 => name().prop_map(Change::Make),
        2 => name().prop_map(Change::Delete),
        1 => name().prop_map(Change::Replace),
    ]
}

/// Does it, where a server would, and says so as a report does: each path that is not what it was.
fn act(model: &mut Model, change: &Change, version: u64, told: &mut BTreeSet<String>) {
    let (Change::Put(text) | Change::Make(text) | Change::Delete(text) | Change::Replace(text)) = change;
    let place = path(text).as_folder(true);
    let (parent, name) = (place.parent().unwrap(), place.name().unwrap().to_vec().into_boxed_slice());
    let Some(content) = model.get_mut(&parent) else { return };
    let (is_folder, is_file) = (content.folders.contains(&name), content.files.contains_key(&name));
    match change {
        Change::Put(_) if !is_folder => drop(content.files.insert(name, facts(version))),
        Change::Make(_) if !is_folder && !is_file => {
            content.folders.insert(name);
            model.insert(place, FolderSnapshot::default());
        }
        Change::Delete(_) if is_folder || is_file => {
            content.folders.remove(&name);
            content.files.remove(&name);
            model.retain(|known, _| known.relative_to(&place).is_none());
        }
        Change::Replace(_) if is_folder => {
            model.retain(|known, _| known.relative_to(&place).is_none());
            let files = BTreeMap::from([(b"new".to_vec().into_boxed_slice(), facts(version))]);
            model.insert(place, FolderSnapshot { files, ..FolderSnapshot::default() });
            told.insert(format!("{text}/new"));
        }
        _ => return,
    }
    told.insert(text.clone());
}

/// What is at a path now.
fn now(model: &Model, text: &str) -> Entry {
    let place = path(text).as_folder(true);
    let content = model.get(&place.parent().unwrap());
    let name = place.name().unwrap();
    match content.and_then(|content| content.files.get(name)) {
        Some(facts) => entry(text, Some(false), facts.length),
        None if content.is_some_and(|content| content.folders.contains(name)) => entry(text, Some(true), None),
        None => entry(text, None, None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn snapshot_updated_by_reports_equals_the_server(rounds in vec(vec(change(), 0..8), 1..5), backwards: bool) {
        let mut model = Model::from([(path("/m/"), FolderSnapshot::default())]);
        let (mut remembered, mut version) = (new(), 0);
        for changes in rounds {
            walk(&mut remembered, &model);
            remembered = SyncSnapshot::read(&*written(&remembered)).unwrap();
            let mut told = BTreeSet::new();
            for change in &changes {
                version += 1;
                act(&mut model, change, version, &mut told);
            }
            // In either order: a folder before what is in it, or after.
            let mut told: Vec<_> = told.into_iter().collect();
            if backwards {
                told.reverse();
            }
            for text in &told {
                prop_assert_eq!(remembered.take(now(&model, text)), Ok(()));
            }
        }
        walk(&mut remembered, &model);
        let again = SyncSnapshot::read(&*written(&remembered)).unwrap();
        prop_assert_eq!(again.folders, model);
    }
}

#[test]
fn report_is_trusted_only_if_it_covers_nested_folders() {
    let mut remembered = new();
    let with = |folders: &[&str]| FolderSnapshot {
        folders: folders.iter().map(|name| name.as_bytes().into()).collect(),
        ..FolderSnapshot::default()
    };
    remembered.keep(path("/m/"), with(&[]));
    assert_eq!(remembered.reach(), Some(Depth::One));
    remembered.take(entry("/m/a/", Some(true), None)).unwrap();
    assert_eq!(remembered.reach(), None, "nothing below a folder was ever told of");
    remembered.take(entry("/m/a/b", Some(false), Some(1))).unwrap();
    assert_eq!(remembered.reach(), Some(Depth::Infinity));
    // A folder that a server does not speak for.
    let mut other = entry("/m/a/", Some(true), None);
    other.status = Some(StatusCode::FORBIDDEN);
    assert_eq!(remembered.take(other), Err(Unusable));
}

#[test]
fn broken_or_foreign_snapshot_counts_as_missing() {
    let mut remembered = new();
    remembered.keep(
        path("/m/"),
        FolderSnapshot { files: [(b"f".as_slice().into(), facts(3))].into(), ..FolderSnapshot::default() },
    );
    let text = written(&remembered);
    assert_eq!(SyncSnapshot::read(&*text).as_ref(), Some(&remembered));
    assert!(remembered.is_of("http://h/m/", true) && !remembered.is_of("http://h/m/", false));
    for end in 0..text.len() - 1 {
        let cut = SyncSnapshot::read(&text[..end]);
        assert!(cut.is_none_or(|cut| cut.content(&path("/m/")).is_none()), "cut after {end} bytes");
    }
    let other = String::from_utf8(text).unwrap().replace("mirror/1", "mirror/2");
    assert_eq!(SyncSnapshot::read(other.as_bytes()), None);
}
