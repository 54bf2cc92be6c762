use bytes::Bytes;
use writeback::Report;

use super::*;

const UPSTREAM: &str = "https://dav.example/files/";

fn saving(user: &str, length: usize) -> Entry {
    let path = RemotePath::from_url_path("/files/a%20b").unwrap();
    entry(path, ETag::parse("\"1\""), length as u64, Details::new(user.to_owned(), "<urn:1>".to_owned(), None))
}

async fn store(journal: &Arc<Journal>, user: &str, content: &'static [u8]) -> Arc<Saved> {
    let room = journal.room(content.len() as u64).unwrap();
    journal.store(room, saving(user, content.len()), Received::Whole(content.into())).await.unwrap()
}

/// Whether a file whose upload begins goes beside another version; none if it is not wanted any more.
fn begins(journal: &Journal, saved: &Saved) -> Option<bool> {
    journal.begins(saved).map(|saved| saved.entry.details.is_aside)
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
    let (is, was) = (&ann[0].entry, saving("ann", 5));
    assert_eq!((&is.path, &is.base, &is.details.token), (&was.path, &was.base, &was.details.token));
    let pause = journal.refused(&ann[1], failed(Failure::Refused, "the server answered 403", None)).await;
    assert_eq!(pause, Duration::from_mins(5));
    journal.sent(&ann[0]).await;
    journal.give_back(&ann[1]);
    let pending = pending(state.path()).unwrap();
    let seen: Vec<_> = pending
        .iter()
        .map(|file| (file.details.user.as_deref().unwrap(), file.failure.as_ref().map(|(_, why)| why.as_str())))
        .collect();
    assert_eq!(seen, [("bob", None), ("ann", Some("the server answered 403"))]);
    assert_eq!(journal.take("ann").len(), 1);
    let next = store(&journal, "ann", b"third").await;
    assert!(next.entry.id > ann[1].entry.id, "no number is used twice");
}

#[tokio::test]
async fn versions_that_wait_replace_nothing_newer() {
    let state = tempfile::tempdir().unwrap();
    let open = || Arc::new(Journal::open(state.path(), UPSTREAM, 1000).unwrap());
    let journal = open();
    let [refused, signed_out] = [store(&journal, "ann", b"1").await, store(&journal, "ann", b"2").await];
    let [sending, other] = [store(&journal, "ann", b"3").await, store(&journal, "bob", b"4").await];
    for seconds in [1, 2] {
        let pause = journal.refused(&refused, failed(Failure::Passing, "the server answered 507", None)).await;
        assert_eq!(pause, Duration::from_secs(seconds));
    }
    for saved in [&signed_out, &other] {
        journal.give_back(saved);
    }
    let path = |text| RemotePath::from_url_path(text).unwrap();
    for (place, condition) in [("/files/a", None), ("/files/a b/c", None), ("/files/a b", Some("(<urn:1>)"))] {
        journal.set_aside("ann", &path(place), condition).await.unwrap();
    }
    assert_eq!(begins(&journal, &refused), Some(false), "nothing has touched it");
    journal.refused(&refused, failed(Failure::Passing, "the server answered 507", None)).await;
    journal.set_aside("ann", &path("/files/"), Some("(<urn:2>)")).await.unwrap();
    for (saved, is_aside) in [(&refused, true), (&signed_out, true), (&sending, false), (&other, false)] {
        assert_eq!(begins(&journal, saved), Some(is_aside), "{:?}", saved.entry.id);
    }
    drop(journal);
    let journal = open();
    assert!(journal.waits_for("ann"));
    let ann = journal.take("ann");
    assert!(!journal.waits_for("ann"));
    assert_eq!(
        ann.iter().map(|saved| begins(&journal, saved)).collect::<Vec<_>>(),
        [Some(true), Some(true), Some(false)]
    );
    journal.give_back(&ann[2]);
    store(&journal, "ann", b"5").await;
    assert_eq!(begins(&journal, &ann[2]), None, "it was saved again under the same lock");
    assert_eq!(begins(&journal, &ann[0]), Some(true));
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
        let stored = journal.store(room, saving("ann", 8), chunks(pieces)).await;
        assert_eq!(stored.is_ok(), is_whole);
    }
    assert_eq!((journal.totals().files, journal.totals().bytes), (1, 8));
    let folder = journal.log.folder().to_owned();
    assert_eq!(fs::read_dir(folder.join("data")).unwrap().count(), 1, "the others are gone");
    drop(journal);
    fs::write(folder.join("data/77"), "nobody was told of it").unwrap();
    fs::write(folder.join("data/1"), "cut").unwrap();
    let journal = Journal::open(state.path(), UPSTREAM, 1000).unwrap();
    assert_eq!((journal.totals().files, folder.join("data/77").exists()), (0, false));
    assert_eq!(fs::read(folder.join("found/1.0")).unwrap(), b"cut", "what cannot be used is not deleted");
    let report = &Report::read_all(state.path()).unwrap()[0];
    assert!(report.messages.iter().any(|message| message.what.contains("/files/a b is missing")), "{report:?}");
}

/// A journal that release 0.1 has left, when its server did not answer.
fn of_release_0_1(state: &Path) -> PathBuf {
    let server = "http://127.0.0.1:9872/files/";
    let folder = Journal::place(state, server);
    fs::create_dir_all(&folder).unwrap();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/journal-0.1")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    assert_eq!(fs::read_to_string(folder.join("upstream")).unwrap(), server);
    folder
}

#[tokio::test]
async fn journal_of_release_0_1_is_taken_over() {
    let state = tempfile::tempdir().unwrap();
    let folder = of_release_0_1(state.path());
    fs::write(folder.join("5"), "damaged").unwrap();
    fs::write(folder.join("6.new"), "half").unwrap();
    for is_first in [true, false] {
        let journal = Journal::open(state.path(), "http://127.0.0.1:9872/files/", 1000).unwrap();
        assert_eq!((journal.totals().files, journal.totals().bytes), (4, 97), "{is_first}");
        let failed = pending(state.path()).unwrap().into_iter().filter_map(|file| file.failure);
        let failed: Vec<_> = failed.map(|(_, why)| why[..30].to_owned()).collect();
        assert_eq!(failed, ["PUT http://127.0.0.1:9872/file"; 2]);
        let ann = journal.take("ann");
        let paths: Vec<_> = ann.iter().map(|saved| saved.entry.path.target()).collect();
        assert_eq!(paths, ["/files/old", "/files/a%20b%C3%A4.txt", "/files/new"], "in their order");
        for saved in &ann {
            let expected = format!("content of {}", saved.entry.path.target());
            assert_eq!(String::from_utf8(content(saved).await).unwrap(), expected);
        }
        let old = &ann[0].entry;
        assert_eq!(old.base.tag().map(ToString::to_string).unwrap(), "\"9900d3-8-6b0b7537.1980947\"");
        assert_eq!(old.details.token, "<urn:uuid:90a4c86c-fc12-4fa0-8cff-1480f9202c19>");
        assert_eq!(old.details.kind.as_deref(), Some("text/plain"));
        assert_eq!(ann.iter().map(|saved| begins(&journal, saved)).collect::<Vec<_>>(), [false, false, true].map(Some));
        let report = &Report::read_all(state.path()).unwrap()[0];
        assert_eq!(report.messages.len(), 1, "of the damaged one");
        assert_eq!(fs::read(folder.join("found/5.0")).unwrap(), b"damaged");
        let left = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        assert!(
            left.into_iter().all(|name| !name.starts_with(|first: char| first.is_ascii_digit()) && name != "upstream")
        );
    }
}
