//! Any bytes in any pieces are entries or an error: no panic, no flood of memory, the same entries however they are
//! cut, and none that lies outside of what was asked for.

#![no_main]

use std::path::{Component, Path};

use dav::{Item, Multistatus, RemotePath};

/// The items before the end or the error, which is told in words.
fn read(document: &[u8], piece: usize) -> (Vec<Item>, String) {
    let asked = RemotePath::from_url_path("/a/").unwrap();
    let (mut answer, mut items) = (Multistatus::new(asked), Vec::new());
    for piece in document.chunks(piece) {
        for item in answer.feed(piece) {
            match item {
                Ok(item) => items.push(item),
                Err(error) => {
                    assert!(error.at <= document.len() as u64);
                    return (items, error.to_string());
                }
            }
        }
    }
    let end = format!("{:?}", answer.finish());
    (items, end)
}

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (piece, document) = (usize::from(input.0).max(1), input.1);
    let whole = read(document, document.len().max(1));
    assert_eq!(read(document, piece), whole);
    let asked = RemotePath::from_url_path("/a/").unwrap();
    for item in whole.0 {
        let Item::Entry(entry) = item else { continue };
        let local = entry.path.to_local(&asked, Path::new("/target")).expect("below what was asked for");
        assert!(local.starts_with("/target"));
        assert!(local.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))));
    }
});
