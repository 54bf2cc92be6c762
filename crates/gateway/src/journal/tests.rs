use super::*;

const UPSTREAM: &str = "https://dav.example/files/";

fn record(user: &str, length: usize) -> Record {
    let (path, token) = ("/files/a%20b".to_owned(), "<urn:1>".to_owned());
    Record { user: user.to_owned(), path, token, kind: None, length: length as u64, at: 7 }
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
    journal.failed(&ann[1], "the server answered 403", true);
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
async fn what_has_no_room_is_not_taken() {
    let state = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::open(state.path(), UPSTREAM, 10).unwrap());
    let first = store(&journal, "ann", b"sixsix").await;
    assert!(journal.room(5).is_none());
    let room = journal.room(4).unwrap();
    assert!(journal.room(1).is_none(), "a file that is arriving counts");
    drop(room);
    journal.sent(&first).await;
    assert!(journal.room(10).is_some());
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
    assert!(!folder.join("77.new").exists());
    assert!(folder.join("78").exists() && folder.join("79").exists(), "what cannot be read is not deleted");
}
