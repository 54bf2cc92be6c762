//! What is believed of outcomes on a pipeline, where one success looks like another.

use super::*;

fn deleting(gone: &Listing) -> Plan {
    let rules = Options { delete: true, ..Options::default() };
    let nothing = Outline { files: Vec::new(), folders: vec![outline().folders.remove(0)], ..Outline::default() };
    begun(nothing, rules, false, vec![(0, Some(gone.clone()))], 0)
}

#[test]
fn deletion_is_reported_after_a_lookup_confirms_it() {
    let mut plan = deleting(&listing(&[("a", there(1, "x")), ("b", there(1, "y"))]));
    let steps = ready(&mut plan);
    assert_eq!(steps.len(), 2);
    for step in steps {
        let Step::Delete(path, precondition) = step else { panic!("{step:?}") };
        plan.take(Outcome::Deleted(path, precondition, Ok(())));
    }
    let [Step::Remaining(folder, mut paths)] = <[Step; 1]>::try_from(ready(&mut plan)).unwrap() else { panic!() };
    paths.sort_by_key(|(path, _)| path.clone());
    assert_eq!((reported(&mut plan), folder), (vec![], path("/up/")));
    let b = path("/up/b");
    plan.take(Outcome::Remained(paths, Ok([b.clone()].into())));
    assert_eq!(reported(&mut plan), ["deleted /up/a"]);

    // What is still there goes once more, alone and under the same guard; then it is named.
    let precondition = Precondition::Unchanged(tag("y"));
    assert_eq!(ready(&mut plan), [Step::DeleteAlone(b.clone(), precondition.clone())]);
    plan.take(Outcome::Deleted(b.clone(), precondition.clone(), Ok(())));
    assert_eq!(ready(&mut plan), [Step::Remaining(path("/up/"), vec![(b.clone(), precondition.clone())])]);
    plan.take(Outcome::Remained(vec![(b.clone(), precondition)], Ok([b].into())));
    assert_eq!((ready(&mut plan), reported(&mut plan)), (vec![], vec!["failed /up/b".to_owned()]));
}

#[test]
fn deletions_are_checked_even_if_one_was_refused() {
    let mut plan = deleting(&listing(&[("a", there(1, "x")), ("b", there(1, "y"))]));
    for (nth, step) in ready(&mut plan).into_iter().enumerate() {
        let Step::Delete(path, precondition) = step else { panic!("{step:?}") };
        plan.take(Outcome::Deleted(path, precondition, if nth == 0 { Err(wrong()) } else { Ok(()) }));
    }
    assert!(matches!(&ready(&mut plan)[..], [Step::Remaining(_, paths)] if paths.len() == 1));
}

/// Begins an upload of `/up/` and `/up/sub/`, which the server seems to have made.
fn seemingly_made() -> Plan {
    let mut plan = begun(outline(), Options::default(), false, vec![(0, Some(Listing::new()))], 0);
    ready(&mut plan);
    plan.take(Outcome::Made(1, Ok(true)));
    assert_eq!(ready(&mut plan), [Step::Upload(2, Before::Nothing)]);
    plan
}

fn no_folder() -> Error {
    let failure = crate::Failure::new(
        &http::Method::PUT,
        &path("/up/sub/three"),
        http::StatusCode::CONFLICT,
        &http::HeaderMap::new(),
        b"",
        SystemTime::UNIX_EPOCH,
    );
    Box::new(failure).into()
}

#[test]
fn missing_folder_is_created_again_and_filled() {
    let mut plan = seemingly_made();
    assert!(!plan.makes_alone(1));
    plan.take(Outcome::Uploaded(2, Err(no_folder())));
    assert_eq!(ready(&mut plan), [Step::Make(1)]);
    assert!(plan.makes_alone(1));
    plan.take(Outcome::Made(1, Ok(true)));
    assert_eq!(ready(&mut plan), [Step::Upload(2, Before::Nothing)]);
    plan.take(Outcome::Uploaded(2, Ok(sent("c"))));
    assert_eq!(ready(&mut plan), [Step::Check(1, vec![2])]);
    assert_eq!(reported(&mut plan), ["made 1"], "once");
}

#[test]
fn refused_file_fails_if_its_folder_exists() {
    let mut plan = seemingly_made();
    plan.take(Outcome::Uploaded(2, Err(no_folder())));
    ready(&mut plan);
    plan.take(Outcome::Made(1, Ok(false)));
    ready(&mut plan);
    plan.take(Outcome::Uploaded(2, Err(no_folder())));
    assert_eq!((ready(&mut plan), reported(&mut plan)), (vec![], vec!["failed three".to_owned(), "made 1".to_owned()]));

    let mut plan = seemingly_made();
    plan.take(Outcome::Uploaded(2, Err(no_folder())));
    ready(&mut plan);
    plan.take(Outcome::Made(1, Err(wrong())));
    assert_eq!(reported(&mut plan), ["failed /up/sub/", "failed three", "made 1"]);
}

#[test]
fn empty_folder_is_looked_up_and_created_again() {
    let mut empty = outline();
    empty.files.truncate(2);
    let mut plan = begun(empty, Options::default(), false, vec![(0, Some(Listing::new()))], 0);
    ready(&mut plan);
    plan.take(Outcome::Made(1, Ok(true)));
    assert_eq!(ready(&mut plan), [Step::Confirm(1)]);
    plan.take(Outcome::Confirmed(1, Ok(false)));
    assert_eq!((ready(&mut plan), plan.makes_alone(1)), (vec![Step::Make(1)], true));
    plan.take(Outcome::Made(1, Ok(true)));
    assert_eq!(ready(&mut plan), []);
}

#[test]
fn folder_is_created_again_after_its_parent() {
    let mut deep = outline();
    deep.folders.push(Folder::new(path("/up/sub/deep/"), Some(1), Scope::default()));
    let mut plan = begun(deep, Options::default(), false, vec![(0, Some(Listing::new()))], 0);
    ready(&mut plan);
    plan.take(Outcome::Made(1, Ok(true)));
    assert_eq!(ready(&mut plan)[..1], [Step::Make(2)]);
    plan.take(Outcome::Made(2, Err(no_folder())));
    assert_eq!(ready(&mut plan), [Step::Make(1)]);
    plan.take(Outcome::Made(1, Ok(true)));
    assert_eq!(ready(&mut plan), [Step::Make(2)]);
    plan.take(Outcome::Made(2, Ok(true)));
    assert_eq!(ready(&mut plan), [Step::Confirm(2)]);
}

#[test]
fn unchanged_target_is_overwritten_again_on_its_own_connection() {
    let before = there(10, "old");
    let mut without_etag = before.clone();
    without_etag.facts.etag = None;
    let listed = listing(&[("one", before.clone()), ("two", without_etag)]);
    let mut plan = begun(outline(), Options::default(), false, vec![(0, Some(listed.clone()))], 0);
    let old = Before::File(Precondition::Unchanged(tag("old")));
    assert_eq!(
        ready(&mut plan)[1..],
        [Step::Upload(0, old.clone()), Step::Upload(1, Before::File(Precondition::None))]
    );
    // A listing tells the versions of the first apart, and not those of the second.
    assert_eq!([0, 1].map(|file| plan.goes_alone(file)), [false, true]);
    let silent = || Sent { etag: None, ..sent("a") };
    plan.take(Outcome::Uploaded(0, Ok(silent())));
    plan.take(Outcome::Uploaded(1, Ok(silent())));
    assert_eq!(ready(&mut plan), [Step::Check(0, vec![0, 1])]);
    plan.take(Outcome::Checked(vec![0, 1], Ok(listed)));
    assert_eq!(reported(&mut plan), ["done 1"]);
    assert_eq!((ready(&mut plan), plan.goes_alone(0)), (vec![Step::Upload(0, old)], true));
    // The same bytes may get the same tag.
    plan.take(Outcome::Uploaded(0, Ok(silent())));
    ready(&mut plan);
    plan.take(Outcome::Checked(vec![0], Ok(listing(&[("one", before)]))));
    assert_eq!(reported(&mut plan), ["done 0"]);
}
