mod outcomes;

use std::{fs, path::PathBuf, time::SystemTime};

use super::*;
use crate::{
    ETag, Precondition, RemotePath,
    transfer::{FileFacts, filter::Scope, source_file::SourceFile, walk::Folder},
};

fn path(text: &str) -> RemotePath {
    RemotePath::from_url_path(text).unwrap()
}

fn tag(text: &str) -> ETag {
    ETag::parse(text).unwrap()
}

/// `/up/` with the files `one` and `two`, and in it `/up/sub/` with `three`, of 10 bytes each.
fn outline() -> Outline {
    let folder = |text, parent| Folder::new(path(text), parent, Scope::default());
    let file = |name: &str, folder| File {
        origin: SourceFile::Local(PathBuf::from(name)),
        folder,
        name: name.into(),
        length: 10,
        modified: Some(SystemTime::UNIX_EPOCH),
    };
    Outline {
        folders: vec![folder("/up/", None), folder("/up/sub/", Some(0))],
        files: vec![file("one", 0), file("two", 0), file("three", 1)],
        ..Outline::default()
    }
}

fn file_like(file: &File) -> File {
    let File { folder, length, modified, .. } = *file;
    File { origin: file.origin.clone(), name: file.name.clone(), folder, length, modified }
}

fn begun(outline: Outline, rules: Options, bulk: bool, tops: Vec<(usize, Option<Listing>)>, first: usize) -> Plan {
    Plan::new(outline, rules, tops, first, Known { bulk_upload: bulk, ..Known::default() })
}

fn there(length: u64, etag: &str) -> RemoteEntry {
    RemoteEntry {
        is_folder: false,
        facts: FileFacts { length: Some(length), etag: Some(tag(etag)), ..FileFacts::default() },
    }
}

fn listing(entries: &[(&str, RemoteEntry)]) -> Listing {
    entries.iter().map(|(name, there)| (name.as_bytes().to_vec(), there.clone())).collect()
}

fn sent(etag: &str) -> Sent {
    Sent { bytes: 10, etag: Some(tag(etag)), compared: false, seen: None }
}

fn wrong() -> Error {
    Error::Differs { path: path("/up/"), why: "wrong".into() }
}

fn ready(plan: &mut Plan) -> Vec<Step> {
    std::iter::from_fn(|| plan.next()).collect()
}

/// What was told, in a few words.
fn reported(plan: &mut Plan) -> Vec<String> {
    let words = |news| match news {
        PlanEvent::HidesFiles => "hides".to_owned(),
        PlanEvent::Done(file) => format!("done {file}"),
        PlanEvent::Renamed(from, to) => format!("renamed {from} {}", String::from_utf8_lossy(&to)),
        PlanEvent::Skipped(file) => format!("skipped {file}"),
        PlanEvent::Kept(file, why) => format!("spared {file}: {why}"),
        PlanEvent::Made(folder) => format!("made {folder}"),
        PlanEvent::Swept(path) => format!("swept {path}"),
        PlanEvent::Deleted(path) => format!("deleted {path}"),
        PlanEvent::Failed(what, _) => format!("failed {what}"),
    };
    let mut reported: Vec<_> = plan.take_events().into_iter().map(words).collect();
    reported.sort();
    reported
}

#[test]
fn folder_is_created_before_its_files_and_listed_after_them() {
    let mut plan = begun(outline(), Options::default(), false, vec![(0, None)], 0);
    assert_eq!(ready(&mut plan), [Step::Make(0)]);
    plan.take(Outcome::Made(0, Ok(true)));
    // What was made is empty: nothing is asked for.
    let upload = |file| Step::Upload(file, Before::Nothing);
    assert_eq!(ready(&mut plan), [Step::Make(1), upload(0), upload(1)]);
    plan.take(Outcome::Uploaded(0, Ok(sent("a"))));
    assert_eq!(ready(&mut plan), []);
    plan.take(Outcome::Uploaded(1, Ok(sent("b"))));
    assert_eq!(ready(&mut plan), [Step::Check(0, vec![0, 1])]);
    plan.take(Outcome::Made(1, Ok(false)));
    assert_eq!(ready(&mut plan), [Step::List(1)], "somebody else has made it, and may have filled it");
    plan.take(Outcome::Checked(vec![0, 1], Ok(listing(&[("one", there(10, "a")), ("two", there(10, "b"))]))));
    assert_eq!(reported(&mut plan), ["done 0", "done 1", "made 0"]);
}

#[test]
fn optimistic_files_are_in_flight_and_existing_ones_are_replaced() {
    let refused = |status| -> Error {
        let status = http::StatusCode::from_u16(status).unwrap();
        let now = SystemTime::UNIX_EPOCH;
        Box::new(crate::Failure::new(&http::Method::PUT, &path("/up/one"), status, &http::HeaderMap::new(), b"", now))
            .into()
    };
    let three = || {
        let mut outline = outline();
        outline.folders.truncate(1);
        outline.files.iter_mut().for_each(|file| file.folder = 0);
        outline
    };
    let listed = listing(&[("two", there(5, "x"))]);
    let plan = || begun(three(), Options::default(), false, vec![(0, Some(listed.clone()))], 2);
    let mut one = plan();
    assert_eq!(ready(&mut one), [Step::Upload(2, Before::Nothing)], "two are under way");
    let replacing = Before::File(Precondition::Unchanged(tag("x")));
    one.take(Outcome::Uploaded(1, Err(refused(412))));
    assert_eq!(ready(&mut one), [Step::Upload(1, replacing)]);
    for (file, etag) in [(0, "a"), (2, "b"), (1, "c")] {
        one.take(Outcome::Uploaded(file, Ok(sent(etag))));
    }
    assert_eq!(ready(&mut one), [Step::Check(0, vec![0, 2, 1])]);
    // What is there now was not there when it was looked; and another refusal has another reason.
    for (file, status) in [(0, 412), (1, 507)] {
        let mut other = plan();
        ready(&mut other);
        other.take(Outcome::Uploaded(file, Err(refused(status))));
        assert_eq!(ready(&mut other), []);
        assert_eq!(reported(&mut other), [format!("failed {}", ["one", "two"][file])]);
    }
}

#[test]
fn large_files_start_first_and_leave_one_connection_to_small_ones() {
    let mut outline = outline();
    outline.files[1].length = SHARED + 1;
    let large = File { name: b"four".to_vec(), ..file_like(&outline.files[1]) };
    outline.files.push(large);
    let rules = Options { connections: 2, ..Options::default() };
    let mut plan = begun(outline, rules, false, vec![(0, Some(Listing::new()))], 0);
    let upload = |file| Step::Upload(file, Before::Nothing);
    assert_eq!(ready(&mut plan), [Step::Make(1), upload(1), upload(0)]);
    plan.take(Outcome::Uploaded(1, Ok(sent("a"))));
    assert_eq!(ready(&mut plan), [upload(3)]);
}

#[test]
fn failed_folder_reports_all_its_files_as_failed() {
    let mut plan = begun(outline(), Options::default(), false, vec![(0, None)], 0);
    ready(&mut plan);
    plan.take(Outcome::Made(0, Err(wrong())));
    assert_eq!(ready(&mut plan), []);
    assert_eq!(reported(&mut plan), ["failed /up/", "failed one", "failed three", "failed two"]);

    // A file where a folder is to be loses that folder alone.
    let mut plan = begun(outline(), Options::default(), false, vec![(0, Some(listing(&[("sub", there(1, "a"))])))], 0);
    assert_eq!(ready(&mut plan).len(), 2);
    assert_eq!(reported(&mut plan), ["failed /up/sub/", "failed three"]);
}

/// A plan whose files in `/up/` have been sent as `a` and `b`, so that the folder is to be checked.
fn unchecked() -> Plan {
    let mut plan = begun(outline(), Options::default(), false, vec![(0, Some(Listing::new()))], 0);
    ready(&mut plan);
    plan.take(Outcome::Made(1, Err(wrong())));
    plan.take(Outcome::Uploaded(0, Ok(sent("a"))));
    plan.take(Outcome::Uploaded(1, Ok(sent("b"))));
    assert_eq!(ready(&mut plan), [Step::Check(0, vec![0, 1])]);
    reported(&mut plan);
    plan
}

#[test]
fn missing_upload_is_sent_once_more() {
    let mut plan = unchecked();
    // One is not there, of the other a part is, and it is ours.
    plan.take(Outcome::Checked(vec![0, 1], Ok(listing(&[("two", there(4, "b"))]))));
    let precondition = Precondition::Unchanged(tag("b"));
    assert_eq!(ready(&mut plan), [Step::Upload(0, Before::Nothing), Step::Upload(1, Before::File(precondition))]);
    plan.take(Outcome::Uploaded(0, Ok(sent("c"))));
    plan.take(Outcome::Uploaded(1, Ok(sent("d"))));
    assert_eq!(ready(&mut plan), [Step::Check(0, vec![0, 1])]);
    plan.take(Outcome::Checked(vec![0, 1], Ok(listing(&[("one", there(10, "c")), ("two", there(4, "d"))]))));
    assert_eq!(ready(&mut plan), []);
    assert_eq!(reported(&mut plan), ["done 0", "failed two"]);
}

#[test]
fn another_writers_file_is_not_overwritten() {
    let mut plan = unchecked();
    plan.take(Outcome::Checked(vec![0, 1], Ok(listing(&[("one", there(4, "theirs")), ("two", there(10, "b"))]))));
    assert_eq!(ready(&mut plan), []);
    let news = plan.take_events();
    let [PlanEvent::Failed(what, why), PlanEvent::Done(1)] = &news[..] else { panic!("{news:?}") };
    assert!(what == "one" && why.to_string().contains("somebody else"), "{why}");
}

#[test]
fn deletions_come_last_and_only_without_failures() {
    let gone = listing(&[("gone", there(1, "x")), ("old", there(1, "y")), ("one", there(10, "o"))]);
    for fails in [false, true] {
        let rules = Options { delete: true, verify: Verify::None, ..Options::default() };
        let mut plan = begun(outline(), rules, false, vec![(0, Some(gone.clone()))], 0);
        let steps = ready(&mut plan);
        assert!(!steps.iter().any(|step| matches!(step, Step::Delete(..))), "{steps:?}");
        plan.take(Outcome::Made(1, Ok(true)));
        plan.take(Outcome::Uploaded(0, Ok(sent("a"))));
        plan.take(Outcome::Uploaded(1, Ok(sent("b"))));
        assert_eq!(ready(&mut plan).len(), 1);
        plan.take(Outcome::Uploaded(2, if fails { Err(wrong()) } else { Ok(sent("c")) }));
        let mut deleted: Vec<_> = ready(&mut plan).into_iter().map(|step| format!("{step:?}")).collect();
        deleted.sort();
        assert_eq!(deleted.len(), if fails { 0 } else { 2 }, "{deleted:?}");
        assert_eq!(plan.skips_deletions(), fails);
    }
}

#[test]
fn unreadable_local_file_is_not_deleted_on_the_server() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("file"), "0123456789").unwrap();
    std::os::unix::fs::symlink("file", here.path().join("link")).unwrap();
    let walked = |unread: Option<Error>| {
        let mut outline = Outline::default();
        outline.add_folder(here.path(), path("/up/"), None, Scope::default());
        outline.left_out.extend(unread.map(|why| ("other".into(), why)));
        outline
    };
    let outline = walked(Some(wrong()));
    assert_eq!(outline.skipped.len(), 1, "of a link nobody is to know what is there");
    let rules = Options { delete: true, verify: Verify::None, ..Options::default() };
    let listed = || listing(&[("link", there(1, "x")), ("gone", there(1, "y"))]);
    let mut plan = begun(outline, rules, false, vec![(0, Some(listed()))], 0);
    assert_eq!(ready(&mut plan), [Step::Upload(0, Before::Nothing)]);
    plan.take(Outcome::Uploaded(0, Ok(sent("a"))));
    assert_eq!(ready(&mut plan), []);
    assert!(plan.skips_deletions());

    // Not even if errors are ignored.
    let outline = walked(Some(wrong()));
    let rules = Options { delete: true, ignore_errors: true, verify: Verify::None, ..Options::default() };
    let mut plan = begun(outline, rules, false, vec![(0, Some(listed()))], 0);
    assert_eq!(ready(&mut plan).len(), 1);
    plan.take(Outcome::Uploaded(0, Ok(sent("a"))));
    assert_eq!(ready(&mut plan), [Step::Delete(path("/up/gone"), there(1, "y").precondition())]);

    let rules = Options { delete: true, verify: Verify::None, ..Options::default() };
    let mut plan = begun(walked(None), rules, false, vec![(0, Some(listed()))], 0);
    ready(&mut plan);
    plan.take(Outcome::Uploaded(0, Ok(sent("a"))));
    assert_eq!(ready(&mut plan), [Step::Delete(path("/up/gone"), there(1, "y").precondition())]);
}

#[test]
fn file_with_equal_content_is_skipped() {
    let rules = Options { skip: Skip::SameDigest, ..Options::default() };
    let listed = listing(&[("one", there(10, "a")), ("two", there(10, "b"))]);
    let mut plan = begun(outline(), rules, false, vec![(0, Some(listed))], 0);
    assert_eq!(ready(&mut plan)[1..], [Step::Compare(0, there(10, "a")), Step::Compare(1, there(10, "b"))]);
    plan.take(Outcome::Compared(0, Ok(true)));
    plan.take(Outcome::Compared(1, Ok(false)));
    assert_eq!(ready(&mut plan), [Step::Upload(1, Before::File(Precondition::Unchanged(tag("b"))))]);
    assert_eq!(reported(&mut plan), ["skipped 0"]);
}

#[test]
fn digests_are_compared_after_lengths_and_a_stop_counts_sent_files() {
    let rules = Options { verify: Verify::Digest, ..Options::default() };
    let mut plan = begun(outline(), rules, false, vec![(0, Some(Listing::new()))], 0);
    ready(&mut plan);
    plan.take(Outcome::Uploaded(0, Ok(sent("a"))));
    plan.take(Outcome::Uploaded(1, Ok(sent("b"))));
    ready(&mut plan);
    plan.take(Outcome::Checked(vec![0, 1], Ok(listing(&[("one", there(10, "a")), ("two", there(10, "b"))]))));
    assert_eq!(ready(&mut plan), [Step::Compare(0, there(10, "a")), Step::Compare(1, there(10, "b"))]);
    plan.take(Outcome::Compared(0, Ok(false)));
    assert_eq!(reported(&mut plan), ["failed one"]);
    assert_eq!(plan.end(), 1);
    assert_eq!(reported(&mut plan), ["done 1"]);
}

#[test]
fn long_verification_listing_does_not_wait_for_the_last_files() {
    let mut outline = outline();
    let file = |number: usize| File {
        origin: SourceFile::Local(number.to_string().into()),
        folder: 0,
        name: number.to_string().into_bytes(),
        length: 10,
        modified: None,
    };
    let count = 2 * TAIL + 10;
    outline.files = (0..count).map(file).collect();
    outline.folders.truncate(1);
    let mut plan = begun(outline, Options::default(), false, vec![(0, Some(Listing::new()))], 0);
    assert_eq!(ready(&mut plan).len(), count);
    let mut checks = Vec::new();
    for number in 0..count {
        plan.take(Outcome::Uploaded(number, Ok(sent("a"))));
        checks.extend(ready(&mut plan));
        if let Some(Step::Check(_, files)) = checks.first() {
            assert!(count - files.len() <= TAIL);
        }
    }
    let Step::Check(0, listed) = checks.remove(0) else { panic!("the folder is not listed") };
    let rest = (listed.len()..count).map(Step::Look).collect::<Vec<_>>();
    assert_eq!(checks, rest);
    let everything = (0..count).map(|number| (number.to_string().into_bytes(), there(10, "a"))).collect::<Listing>();
    plan.take(Outcome::Checked(listed, Ok(everything.clone())));
    // A file that is missed is sent once more, and looked at for itself again.
    for (nth, step) in rest.into_iter().enumerate() {
        let Step::Look(file) = step else { unreachable!() };
        let found = if nth == 0 { Listing::new() } else { everything.clone() };
        plan.take(Outcome::Checked(vec![file], Ok(found)));
    }
    let [Step::Upload(again, Before::Nothing)] = ready(&mut plan)[..] else { panic!("nothing is sent again") };
    plan.take(Outcome::Uploaded(again, Ok(sent("b"))));
    assert_eq!(ready(&mut plan), [Step::Look(again)]);
    plan.take(Outcome::Checked(vec![again], Ok(everything)));
    assert_eq!(reported(&mut plan).len(), count);
    assert_eq!(ready(&mut plan), []);
}

#[test]
fn small_files_of_a_new_folder_are_bulk_uploaded_if_supported() {
    let together = || {
        let mut outline = outline();
        outline.files.iter_mut().for_each(|file| file.folder = 0);
        outline.files.push(File { length: BULK + 1, name: b"four".to_vec(), ..file_like(&outline.files[0]) });
        outline
    };
    let plan = |rules, bulk, listing| begun(together(), rules, bulk, vec![(0, listing)], 0);
    let mut filled = plan(Options::default(), true, None);
    assert_eq!(ready(&mut filled), [Step::Fill(0, vec![0, 1, 2])]);
    // One could not be read.
    filled.take(Outcome::Filled(0, vec![(0, sent("a")), (2, sent("c"))]));
    let upload = |file| Step::Upload(file, Before::Nothing);
    assert_eq!(ready(&mut filled), [Step::Make(1), upload(1), upload(3)]);
    filled.take(Outcome::Uploaded(1, Ok(sent("b"))));
    filled.take(Outcome::Uploaded(3, Ok(Sent { bytes: BULK + 1, ..sent("d") })));
    assert_eq!(ready(&mut filled), [Step::Check(0, vec![0, 2, 1, 3])]);
    // The server has lost one of them: it goes by itself, and guarded.
    let left = [("two", there(10, "b")), ("three", there(10, "c")), ("four", there(BULK + 1, "d"))];
    filled.take(Outcome::Checked(vec![0, 2, 1, 3], Ok(listing(&left))));
    assert_eq!(ready(&mut filled), [upload(0)]);
    assert_eq!(reported(&mut filled), ["done 1", "done 2", "done 3", "made 0"]);

    let mut undone = plan(Options::default(), true, None);
    ready(&mut undone);
    undone.take(Outcome::Made(0, Ok(false)));
    assert_eq!(ready(&mut undone), [Step::List(0)], "somebody else has made it");
    // Nothing is known to be free in a folder that was there, and a lock is for each.
    assert_eq!(ready(&mut plan(Options::default(), true, Some(Listing::new()))).len(), 5);
    for (rules, bulk) in [
        (Options::default(), false),
        (Options { lock: crate::LockPolicy::Always, ..Options::default() }, true),
        (Options { dry_run: true, ..Options::default() }, true),
    ] {
        assert_eq!(ready(&mut plan(rules, bulk, None)), [Step::Make(0)]);
    }
}

#[test]
fn last_files_are_looked_up_behind_their_uploads_and_earlier_ones_listed() {
    let mut many = outline();
    many.folders.truncate(1);
    many.files.truncate(1);
    // One more than are looked at so, and another that the plan's end is not yet in sight of.
    while many.files.len() < 258 {
        many.files.push(File { name: many.files.len().to_string().into(), ..file_like(&many.files[0]) });
    }
    let plan =
        |rules| begun(many_like(&many), rules, false, vec![(0, Some(Listing::new()))], 0).with_lookups_behind(true);
    let mut last = plan(Options::default());
    let steps = ready(&mut last);
    assert_eq!(steps[..2], [0, 1].map(|file| Step::Upload(file, Before::Nothing)));
    assert!(steps[2..].iter().all(|step| matches!(step, Step::UploadAndLook(_, Before::Nothing))));
    last.take(Outcome::Uploaded(1, Ok(sent("a"))));
    let seen = |length, etag| Sent { seen: Some(there(length, etag)), ..sent("a") };
    last.take(Outcome::Uploaded(2, Ok(seen(10, "a"))));
    assert_eq!((ready(&mut last), reported(&mut last)), (vec![], vec!["done 2".to_owned()]));
    last.take(Outcome::Uploaded(0, Ok(sent("a"))));
    assert_eq!(ready(&mut last), [Step::Check(0, vec![1, 0])], "the others are not waited for");
    // What was seen is short, another's, or nothing: it is looked at once more.
    for (file, sent) in [(3, seen(9, "a")), (4, seen(10, "b")), (5, sent("a"))] {
        last.take(Outcome::Uploaded(file, Ok(sent)));
        assert_eq!(ready(&mut last), [Step::Look(file)]);
    }
    last.take(Outcome::Uploaded(6, Err(wrong())));
    assert_eq!((ready(&mut last), reported(&mut last)), (vec![], vec!["failed one".to_owned()]));

    // Digests are asked for where they are wanted, and nothing is looked at where nothing is verified.
    let mut digests = plan(Options { verify: Verify::Digest, ..Options::default() });
    ready(&mut digests);
    digests.take(Outcome::Uploaded(2, Ok(seen(10, "a"))));
    assert_eq!(ready(&mut digests), [Step::Compare(2, there(10, "a"))]);
    for rules in
        [Options { verify: Verify::None, ..Options::default() }, Options { temporary: true, ..Options::default() }]
    {
        assert!(ready(&mut plan(rules)).iter().all(|step| matches!(step, Step::Upload(..))));
    }

    // While a folder is not known, there may be more files than these.
    let mut early =
        begun(outline(), Options::default(), false, vec![(0, Some(Listing::new()))], 0).with_lookups_behind(true);
    let upload = |file| Step::Upload(file, Before::Nothing);
    assert_eq!(ready(&mut early), [Step::Make(1), upload(0), upload(1)]);
    early.take(Outcome::Made(1, Ok(true)));
    assert_eq!(ready(&mut early), [Step::UploadAndLook(2, Before::Nothing)]);
}

fn many_like(outline: &Outline) -> Outline {
    let folder = |folder: &Folder| Folder {
        given: folder.given,
        ..Folder::new(folder.path.clone(), folder.parent, Scope::default())
    };
    Outline {
        folders: outline.folders.iter().map(folder).collect(),
        files: outline.files.iter().map(file_like).collect(),
        ..Outline::default()
    }
}
