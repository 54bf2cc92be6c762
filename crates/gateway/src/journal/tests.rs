use super::*;

const UPSTREAM: &str = "https://dav.example/files/";

fn record(user: &str, length: usize) -> Record {
    let (path, token) = ("/files/a%20b".to_owned(), "<urn:1>".to_owned());
    Record { user: user.to_owned(), path, token, base: None, kind: None, length: length as u64, at: 7 }
}

async fn store(journal: &Arc<Journal>, user: &str, content: &'static [u8]) -> Arc<Saved> {
    let room = journal.room(content.len() as u64).unwrap();
    journal.store(room, record(user, content.len()), Received::Whole(content.into())).await.unwrap()
}

async fn content(saved: &Saved) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunks = saved.content().open().unwrap();
    while let Some(chunk) = chunks.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    all
}

#[tokio::test]
async fn what_a_gateway_leaves_waits_for_its_user() {
    let state = tempfile::tempdir().unwrap();
    let open = || Journal::open(state.path(), UPSTREAM, 1000).map(Arc::new).unwrap();
    let journal = open();
    store(&journal, "ann", b"first").await;
    store(&journal, "bob", b"his").await;
    store(&journal, "ann", b"second").await;
    assert!(journal.take("ann").is_empty(), "they are being uploaded");
    assert!(matches!(Journal::open(state.path(), UPSTREAM, 1000), Err(JournalError::InUse { .. })));
    let other = Journal::open(state.path(), "https://other.example/files/", 1000).unwrap();
    assert_eq!(other.totals().files, 0);
    drop(journal);
    let journal = open();
    let totals = journal.totals();
    assert_eq!((totals.files, totals.bytes, totals.signed_out), (3, 14, 3));
    assert!(journal.take("carol").is_empty());
    let ann = journal.take("ann");
    assert_eq!(content(&ann[0]).await, b"first");
    assert_eq!(content(&ann[1]).await, b"second");
    assert_eq!(ann[0].record, record("ann", 5));
    journal.refused(&ann[1], "the server answered 403");
    journal.sent(&ann[0]).await;
    journal.give_back(&ann[1]);
    let pending = pending(state.path()).unwrap();
    let seen: Vec<_> = pending.iter().map(|file| (file.user.as_str(), file.why.as_deref())).collect();
    assert!(seen.contains(&("ann", Some("the server answered 403"))) && seen.contains(&("bob", None)), "{seen:?}");
    assert_eq!(seen.len(), 2);
    assert_eq!(journal.take("ann").len(), 1);
    let next = store(&journal, "ann", b"third").await;
    assert!(next.number > ann[1].number, "no number is used twice");
}

#[tokio::test]
async fn versions_that_wait_replace_nothing_newer() {
    let state = tempfile::tempdir().unwrap();
    let open = || Arc::new(Journal::open(state.path(), UPSTREAM, 1000).unwrap());
    let journal = open();
    let [refused, signed_out] = [store(&journal, "ann", b"1").await, store(&journal, "ann", b"2").await];
    let [sending, other] = [store(&journal, "ann", b"3").await, store(&journal, "bob", b"4").await];
    journal.refused(&refused, "the server answered 507");
    for saved in [&signed_out, &other] {
        journal.give_back(saved);
    }
    let path = |text| RemotePath::from_url_path(text).unwrap();
    for (place, condition) in [("/files/a", None), ("/files/a b/c", None), ("/files/a b", Some("(<urn:1>)"))] {
        journal.set_aside("ann", &path(place), condition).await.unwrap();
    }
    assert_eq!(journal.begins(&refused), Some(false), "nothing has touched it");
    journal.refused(&refused, "the server answered 507");
    journal.set_aside("ann", &path("/files/"), Some("(<urn:2>)")).await.unwrap();
    for (saved, is_aside) in [(&refused, true), (&signed_out, true), (&sending, false), (&other, false)] {
        assert_eq!(journal.begins(saved), Some(is_aside), "{}", saved.number);
    }
    drop(journal);
    let journal = open();
    assert!(journal.waits_for("ann"));
    let ann = journal.take("ann");
    assert!(!journal.waits_for("ann"));
    assert_eq!(
        ann.iter().map(|saved| journal.begins(saved)).collect::<Vec<_>>(),
        [Some(true), Some(true), Some(false)]
    );
    journal.give_back(&ann[2]);
    let newest = store(&journal, "ann", b"5").await;
    journal.supersede(&newest).await;
    assert_eq!(journal.begins(&ann[2]), None, "it was saved again under the same lock");
    assert_eq!(journal.begins(&ann[0]), Some(true));
}

#[tokio::test]
async fn what_has_no_room_is_not_taken() {
    let state = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::open(state.path(), UPSTREAM, 10).unwrap());
    let first = store(&journal, "ann", b"sixsix").await;
    assert!(journal.room(5).is_none());
    let room = journal.room(4).unwrap();
    assert!(journal.room(1).is_none(), "a file that is arriving counts");
    drop(room);
    journal.sent(&first).await;
    assert!(journal.room(10).is_some() && journal.room(u64::MAX).is_none());
    journal.end();
    assert!(journal.room(1).is_none());
    assert!(!journal.pause(Duration::from_mins(1)).await);
}

#[tokio::test]
async fn half_a_file_is_none() {
    let state = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::open(state.path(), UPSTREAM, 1000).unwrap());
    let chunks = |pieces: Vec<io::Result<Bytes>>| {
        Received::Streamed(Body::once(Some(8), Box::pin(futures_util::stream::iter(pieces))))
    };
    for (pieces, is_whole) in [
        (vec![Ok("four".into()), Ok("more".into())], true),
        (vec![Ok("four".into())], false),
        (vec![Ok("four".into()), Err(io::ErrorKind::ConnectionReset.into())], false),
        (vec![Ok("four".into()), Ok("too much".into())], false),
    ] {
        let room = journal.room(8).unwrap();
        let stored = journal.store(room, record("ann", 8), chunks(pieces)).await;
        assert_eq!(stored.is_ok(), is_whole);
    }
    assert_eq!((journal.totals().files, journal.totals().bytes), (1, 8));
    let folder = journal.folder.clone();
    drop(journal);
    fs::write(folder.join("77.new"), "half").unwrap();
    fs::write(folder.join("78"), "damaged").unwrap();
    let cut = fs::read(folder.join("1")).unwrap();
    fs::write(folder.join("79"), &cut[..cut.len() - 1]).unwrap();
    let journal = Journal::open(state.path(), UPSTREAM, 1000).unwrap();
    assert_eq!(journal.totals().files, 1);
    let failed: Vec<_> = pending(state.path()).unwrap().into_iter().filter_map(|file| file.why).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(!folder.join("77.new").exists());
    assert!(folder.join("78").exists() && folder.join("79").exists(), "what cannot be read is not deleted");
}
