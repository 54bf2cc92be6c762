use super::*;

const TOKEN: &str = "<urn:1>";

fn path(text: &str) -> RemotePath {
    RemotePath::from_url_path(text).unwrap()
}

fn lock() -> Bytes {
    Bytes::from_static(b"<lockinfo/>")
}

fn template() -> Template {
    Template { saver: Saver::Redirector, body: lock(), timeout: None }
}

fn locked() -> Locked {
    Locked { token: TOKEN.into(), headers: HeaderMap::new(), body: Bytes::from_static(b"granted") }
}

fn ask<'a>(method: &'a str, path: &'a RemotePath, tokens: Option<&'a str>, body: Option<&'a Bytes>) -> Ask<'a> {
    Ask { method, path, tokens, body, sets_times: method == "PROPPATCH" }
}

fn ready() -> Saves<u32> {
    let mut saves = Saves::default();
    saves.locked(path("/first"), template(), locked(), Instant::now());
    assert!(saves.release(&path("/first")).kept.is_empty());
    saves
}

#[test]
fn a_new_file_passes_on_only_lock_and_content() {
    let (mut saves, file, empty, now) = (ready(), path("/f/a"), Bytes::new(), Instant::now());
    saves.times_kept(true);
    let held = Some("(<urn:1>)");
    assert!(matches!(saves.step(Saver::Redirector, ask("PUT", &file, None, Some(&empty)), true, now), Step::Create(_)));
    saves.created(file.clone(), locked(), Some(0), now);
    assert!(matches!(saves.step(Saver::Redirector, ask("HEAD", &file, None, None), false, now), Step::Pass));
    assert!(matches!(
        saves.step(Saver::Redirector, ask("LOCK", &file, None, Some(&lock())), false, now),
        Step::IsLocked(_)
    ));
    assert!(
        matches!(saves.step(Saver::Redirector, ask("LOCK", &file, None, Some(&lock())), false, now), Step::Pass),
        "another's"
    );
    assert!(matches!(saves.step(Saver::Redirector, ask("PROPPATCH", &file, held, None), false, now), Step::Keep));
    saves.keep(&file, 1);
    assert!(matches!(saves.step(Saver::Redirector, ask("HEAD", &file, None, None), false, now), Step::IsEmpty));
    assert!(matches!(saves.step(Saver::Redirector, ask("PUT", &file, held, None), false, now), Step::Pass));
    assert!(matches!(saves.step(Saver::Redirector, ask("HEAD", &file, None, None), false, now), Step::Pass));
    assert!(matches!(
        saves.step(Saver::Redirector, ask("PROPPATCH", &file, Some("(<urn:2>)"), None), false, now),
        Step::Pass
    ));
    saves.keep(&file, 2);
    assert!(matches!(
        saves.step(Saver::Redirector, ask("UNLOCK", &file, Some(TOKEN), None), false, now),
        Step::Release
    ));
    let released = saves.release(&file);
    assert_eq!((released.kept, released.is_created), (vec![1, 2], false), "the content has created it");
    assert!(released.edited.is_none(), "it was not there before");
    assert!(matches!(saves.step(Saver::Redirector, ask("UNLOCK", &file, Some(TOKEN), None), false, now), Step::Pass));
}

#[test]
fn what_is_not_known_is_passed_on() {
    let (file, empty, content, now) = (path("/a"), Bytes::new(), lock(), Instant::now());
    let put = |body| ask("PUT", &file, None, Some(body));
    assert!(
        matches!(Saves::<()>::default().step(Saver::Redirector, put(&empty), true, now), Step::Pass),
        "no LOCK was seen"
    );
    let mut saves = ready();
    assert!(matches!(saves.step(Saver::Redirector, put(&empty), false, now), Step::Pass), "it may exist");
    assert!(matches!(saves.step(Saver::Redirector, put(&content), true, now), Step::Pass));
    assert!(matches!(
        saves.step(Saver::Redirector, ask("PUT", &file, Some("(<urn:2>)"), Some(&empty)), true, now),
        Step::Pass
    ));
    saves.created(file.clone(), locked(), None, now);
    let shared = Bytes::from_static(b"<shared/>");
    assert!(matches!(saves.step(Saver::Redirector, ask("LOCK", &file, None, Some(&shared)), false, now), Step::Pass));
    assert!(saves.unclaimed(&file).is_some() && saves.unclaimed(&file).is_none());
    saves.cannot_create();
    assert!(matches!(saves.step(Saver::Redirector, put(&empty), true, now), Step::Pass));
}

#[test]
fn a_file_whose_name_is_reserved_is_created_without_content_too() {
    let (mut saves, file, now) = (ready(), path("/f/a"), Instant::now());
    for claims in [false, true] {
        saves.created(file.clone(), locked(), Some(1), now);
        if claims {
            saves.step(Saver::Redirector, ask("LOCK", &file, None, Some(&lock())), false, now);
            saves.keep(&file, 2);
            let released = saves.release(&file);
            assert_eq!((released.kept, released.is_created), (vec![1, 2], true));
        } else {
            assert_eq!(saves.unclaimed(&file).unwrap().1, [1]);
        }
    }
    saves.created(file.clone(), locked(), Some(1), now);
    assert_eq!(saves.kept_around(&path("/f")), [(file.clone(), vec![1])]);
    let released = saves.release(&file);
    assert_eq!((released.kept, released.is_created), (vec![], false));
}

#[test]
fn a_file_that_the_client_has_locked_and_written_is_edited() {
    let (mut saves, file, now) = (ready(), path("/f/a"), Instant::now());
    let held = Some("(<urn:1>)");
    for writes in [false, true] {
        saves.looks(&file, 5);
        saves.locked(file.clone(), template(), locked(), now);
        if writes {
            saves.step(Saver::Redirector, ask("PUT", &file, held, Some(&lock())), false, now);
        }
        assert!(matches!(
            saves.step(Saver::Redirector, ask("UNLOCK", &file, Some(TOKEN), None), false, now),
            Step::Release
        ));
        let edited = saves.release(&file).edited;
        assert_eq!(edited.map(|(_, _, edit)| edit.look), writes.then_some(Some(5)));
    }
    saves.looks(&path("/f/b"), 5);
    saves.locked(file.clone(), template(), locked(), now);
    saves.step(Saver::Redirector, ask("PUT", &file, held, None), false, now);
    assert_eq!(saves.release(&file).edited.unwrap().2.look, None, "another file's");
}

#[test]
fn what_the_server_has_shown_answers_head_until_the_file_changes() {
    let (mut saves, file, now) = (ready(), path("/f/a"), Instant::now());
    let text = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/f/a</D:href><D:propstat><D:prop>\
        <D:getcontentlength>7</D:getcontentlength><D:getetag>\"x\"</D:getetag></D:prop>\
        <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>";
    let fresh = Duration::from_secs(5);
    let shown = FileAnswer::parse(text.as_bytes(), &file, now, fresh);
    assert!(shown.is_some());
    for method in ["PUT", "PROPPATCH", "MOVE"] {
        let edit = Edit { shown: shown.clone(), ..Edit::new(template()) };
        saves.edits(file.clone(), locked(), now, edit);
        assert!(matches!(saves.step(Saver::Redirector, ask("HEAD", &file, None, None), false, now), Step::Shows(_)));
        assert!(matches!(
            saves.step(Saver::Redirector, ask("HEAD", &file, None, None), false, now + fresh),
            Step::Pass
        ));
        saves.step(Saver::Redirector, ask(method, &file, Some("(<urn:1>)"), None), false, now);
        assert!(
            matches!(saves.step(Saver::Redirector, ask("HEAD", &file, None, None), false, now), Step::Pass),
            "{method}"
        );
    }
}

#[test]
fn times_are_acknowledged_after_the_server_has_accepted_some() {
    let (mut saves, file, now) = (ready(), path("/a"), Instant::now());
    saves.locked(file.clone(), template(), locked(), now);
    let ask = ask("PROPPATCH", &file, Some("(<urn:1>)"), None);
    assert!(matches!(saves.step(Saver::Redirector, ask, false, now), Step::Pass));
    saves.times_kept(true);
    assert!(matches!(saves.step(Saver::Redirector, ask, false, now), Step::Keep));
    assert!(matches!(saves.step(Saver::Redirector, Ask { sets_times: false, ..ask }, false, now), Step::Pass));
}

#[test]
fn what_was_kept_goes_before_requests_around_it() {
    let (mut saves, now) = (ready(), Instant::now());
    for file in ["/f/a", "/f/b"] {
        saves.locked(path(file), template(), locked(), now);
        saves.keep(&path(file), 7);
    }
    assert!(saves.kept_around(&path("/f/c")).is_empty() && saves.kept_around(&path("/g")).is_empty());
    assert_eq!(saves.kept_around(&path("/f/a")), [(path("/f/a"), vec![7])]);
    assert_eq!(saves.kept_around(&path("/")), [(path("/f/b"), vec![7])]);
    assert!(saves.kept_around(&path("/")).is_empty());
}

#[test]
fn each_kind_of_client_has_its_own_lock() {
    let (mut saves, file, empty, now) = (ready(), path("/f/a"), Bytes::new(), Instant::now());
    let put = ask("PUT", &file, None, Some(&empty));
    assert!(matches!(saves.step(Saver::Finder, put, true, now), Step::Pass), "only the redirector's lock is known");
    let body = Bytes::from_static(b"<finder/>");
    let finder = Template { saver: Saver::Finder, body: body.clone(), timeout: None };
    saves.locked(path("/g"), finder, locked(), now);
    for (saver, body) in [(Saver::Finder, &body), (Saver::Redirector, &lock())] {
        let Step::Create(template) = saves.step(saver, put, true, now) else { panic!("it creates the file") };
        assert_eq!(&template.body, body);
    }
}
