use tokio::time::Instant;

use http::{HeaderValue, header::AUTHORIZATION};

use super::*;
use crate::credential::Identities;

const SIZE: u64 = 4000;
const PART: usize = 1000;

fn owner() -> Identity {
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer x"))]);
    let of = Identities::new().unwrap().of(&headers, std::net::Ipv4Addr::LOCALHOST.into());
    of.unwrap_or_else(|_| panic!("it is a credential")).identity
}

fn path(name: &str) -> RemotePath {
    RemotePath::from_url_path(name).unwrap()
}

fn contents(folder: &tempfile::TempDir) -> Arc<LargeContents> {
    LargeContents::open(DiskCache { folder: folder.path().to_owned(), size: SIZE }).unwrap()
}

fn expect(all: &Arc<LargeContents>, owner: Identity, name: &str, length: usize) -> Option<Arriving> {
    let headers = HeaderMap::from_iter([(ETAG, HeaderValue::from_static("\"1\""))]);
    all.expect(owner, &path(name), headers, length as u64)
}

async fn store(all: &Arc<LargeContents>, owner: Identity, name: &str) {
    let body = expect(all, owner, name, PART).unwrap().copy_of(serve::whole(vec![7; PART]));
    assert_eq!(body.collect().await.unwrap().to_bytes(), vec![7; PART]);
    let begin = Instant::now();
    while all.find(owner, &path(name)).is_none() {
        assert!(begin.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn nothing_is_dropped_for_what_has_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let (all, owner) = (contents(&folder), owner());
    for name in ["/a", "/b", "/c"] {
        store(&all, owner, name).await;
    }
    let arriving = expect(&all, owner, "/d", PART).unwrap();
    let read = all.find(owner, &path("/a")).unwrap();
    let _second = expect(&all, owner, "/e", PART).expect("the place of b, which nobody reads");
    assert!(all.find(owner, &path("/b")).is_none() && all.bytes() == SIZE);
    let _third = expect(&all, owner, "/f", PART).expect("the place of c");
    // What is left is being read or arrives.
    assert!(expect(&all, owner, "/g", 1).is_none() && all.find(owner, &path("/a")).is_some());
    drop((read, arriving));
    assert!(all.bytes() == SIZE - PART as u64 && expect(&all, owner, "/h", PART + 1).is_none());
}

#[tokio::test]
async fn what_the_disk_does_not_return_is_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let (all, owner) = (contents(&folder), owner());
    store(&all, owner, "/a").await;
    let stored = all.find(owner, &path("/a")).unwrap();
    assert_eq!(stored.body(1..3).collect().await.unwrap().to_bytes(), &[7, 7][..]);
    assert!(stored.body(0..SIZE).collect().await.is_err(), "there is less");
    assert!(all.find(owner, &path("/a")).is_none());
}

#[tokio::test]
async fn another_length_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (all, owner) = (contents(&folder), owner());
    for length in [PART - 1, PART + 1] {
        let body = expect(&all, owner, "/a", PART).unwrap().copy_of(serve::whole(vec![7; length]));
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), length);
        let begin = Instant::now();
        while all.bytes() > 0 {
            assert!(begin.elapsed() < Duration::from_mins(1));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(all.find(owner, &path("/a")).is_none());
    }
}

#[tokio::test]
async fn a_change_drops_what_is_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let (all, owner) = (contents(&folder), owner());
    for name in ["/f/a", "/f/b", "/fa"] {
        store(&all, owner, name).await;
    }
    all.forget(owner, Some(&path("/f")));
    assert!(all.find(owner, &path("/f/a")).is_none() && all.find(owner, &path("/fa")).is_some());
    all.forget(owner, None);
    assert!(all.find(owner, &path("/fa")).is_none());
}
