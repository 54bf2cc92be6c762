//! Uploads to servers that fold case or keep names in one Unicode form.

use std::{fs, path::Path, time::Duration};

use dav::transfer::{Options, Summary};
use servers::{Double, Fault, behaviours};

use crate::common::{Tree, client, folder, mirror, rest, up, up_to, write};

async fn server(name: &str) -> Double {
    let entry = behaviours::ALL.iter().find(|entry| entry.name == name).unwrap();
    let double = Double::with_behaviours(vec![(entry.make)(0)]).await;
    double.arm();
    double
}

async fn sync(double: &Double, here: &Path) -> Summary {
    let options = Options { delete: true, ..rest(&mirror()) };
    up(&client(double.address, |_| ()), here, &options).await.unwrap()
}

fn lay(root: &Path, files: &[(&str, &str)]) {
    write(root, &files.iter().map(|(name, content)| ((*name).to_owned(), content.as_bytes().to_vec())).collect());
}

/// The server's files, by decoded names.
fn there(double: &Double) -> Tree {
    double.files("/up").into_iter().map(|(name, content)| (servers::decode(&name), content)).collect()
}

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(name, content)| ((*name).to_owned(), content.as_bytes().to_vec())).collect()
}

fn counts(summary: &Summary) -> (u64, u64, u64, usize) {
    (summary.files, summary.skipped, summary.deleted, summary.failed.len())
}

const TWINS: [(&str, &str, &str); 3] = [
    ("folds case", "README", "readme"),
    ("folds case", "\u{c9}t\u{e9}", "\u{e9}t\u{e9}"),
    ("composes names (NFC)", "e\u{301}", "\u{e9}"),
];

#[tokio::test]
async fn upload_refuses_the_second_of_two_colliding_names() {
    for (behaviour, first, second) in TWINS {
        let ((_kept, here), double) = (folder(), server(behaviour).await);
        let [one, other] = [first, second].map(|name| format!("d/{name}"));
        lay(&here, &[(&one, "first"), (&other, "second one"), ("d/else", "else")]);
        let summary = sync(&double, &here).await;
        assert_eq!(counts(&summary), (2, 0, 0, 1), "{behaviour}: {:?}", summary.failed);
        let (path, why) = &summary.failed[0];
        assert!(path.ends_with(second) && why.to_string().contains(first), "{path}: {why}");
        let left = there(&double);
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left.values().any(|content| content == b"first"), "{left:?}");
        let again = sync(&double, &here).await;
        assert_eq!((counts(&again), there(&double)), ((0, 2, 0, 1), left), "{:?}", again.failed);
    }
}

#[tokio::test]
async fn upload_refuses_colliding_folders_and_names_in_a_new_target() {
    let ((_kept, here), double) = (folder(), server("folds case").await);
    double.put("/up/old", b"", Duration::ZERO);
    lay(&here, &[("Folder/a", "a"), ("folder/b", "b"), ("folder/c/d", "d"), ("z/Z", "Z")]);
    let (dav, watch) = (client(double.address, |_| ()), crate::common::deaf());
    let summary = up_to(&dav, &here, "/up/new/", &mirror(), &watch).await.unwrap();
    assert_eq!(counts(&summary), (2, 0, 0, 1), "{:?}", summary.failed);
    assert_eq!(there(&double), tree(&[("old", ""), ("new/Folder/a", "a"), ("new/z/Z", "Z")]));
}

#[tokio::test]
async fn upload_keeps_both_names_if_the_server_does() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    let files =
        [("READ", "1"), ("read", "2"), ("read.", "3"), ("e\u{301}", "4"), ("\u{e9}", "5"), ("D/x", "6"), ("d/y", "7")];
    lay(&here, &files);
    assert_eq!(counts(&sync(&double, &here).await), (7, 0, 0, 0));
    assert_eq!(there(&double), tree(&files), "nothing is left of the trial");
    assert_eq!(counts(&sync(&double, &here).await), (0, 7, 0, 0));
}

#[tokio::test]
async fn names_normalised_by_the_server_are_recognised() {
    let ((_kept, here), double) = (folder(), server("composes names (NFC)").await);
    let [folder, file] = ["u\u{308}", "o\u{308}"];
    let deep = format!("{folder}/{file}");
    lay(&here, &[(file, "one"), (&deep, "two")]);
    let summary = sync(&double, &here).await;
    assert_eq!(counts(&summary), (2, 0, 0, 0), "{:?}", summary.failed);
    assert_eq!(there(&double), tree(&[("\u{f6}", "one"), ("\u{fc}/\u{f6}", "two")]));
    let summary = sync(&double, &here).await;
    assert_eq!(counts(&summary), (0, 2, 0, 0), "{:?}", summary.failed);
    lay(&here, &[(file, "changed"), (&deep, "changed as well")]);
    let summary = sync(&double, &here).await;
    assert_eq!(counts(&summary), (2, 0, 0, 0), "{:?}", summary.failed);
    assert_eq!(there(&double), tree(&[("\u{f6}", "changed"), ("\u{fc}/\u{f6}", "changed as well")]));
}

#[tokio::test]
async fn unicode_forms_are_distinct_if_the_server_keeps_both() {
    let ((_kept, here), double) = (folder(), Double::start().await);
    double.put("/up/%C3%B6", b"old", Duration::from_hours(2));
    lay(&here, &[("o\u{308}", "new one")]);
    assert_eq!(counts(&sync(&double, &here).await), (1, 0, 0, 0));
    assert_eq!(there(&double), tree(&[("\u{f6}", "new one")]));
}

#[tokio::test]
async fn change_of_case_is_one_move_without_content() {
    let ((_kept, here), double) = (folder(), server("folds case").await);
    lay(&here, &[("README", "content"), ("Folder/A", "a")]);
    assert_eq!(counts(&sync(&double, &here).await), (2, 0, 0, 0));
    for (from, to) in [("README", "readme"), ("Folder/A", "Folder/a"), ("Folder", "folder")] {
        fs::rename(here.join(from), here.join(to)).unwrap();
    }
    double.take_stored_bytes();
    let summary = sync(&double, &here).await;
    assert_eq!(counts(&summary), (0, 2, 0, 0), "{:?}", summary.failed);
    assert_eq!(there(&double), tree(&[("readme", "content"), ("folder/a", "a")]));
    assert_eq!(double.take_stored_bytes(), 0, "no byte of content was sent");
    assert!(!double.has_received("DELETE"));

    fs::remove_file(here.join("readme")).unwrap();
    lay(&here, &[("ReadMe", "other content")]);
    let summary = sync(&double, &here).await;
    assert_eq!(counts(&summary), (1, 1, 0, 0), "{:?}", summary.failed);
    assert_eq!(there(&double), tree(&[("ReadMe", "other content"), ("folder/a", "a")]));
}

#[tokio::test]
async fn change_of_case_uses_a_temporary_name_if_the_new_one_is_taken() {
    let ((_kept, here), double) = (folder(), server("folds case").await);
    lay(&here, &[("README", "content")]);
    sync(&double, &here).await;
    fs::rename(here.join("README"), here.join("readme")).unwrap();
    let mut is_first = true;
    double.script(move |method, _, _| {
        (method == "MOVE" && std::mem::take(&mut is_first)).then_some(Fault::Respond(412, ""))
    });
    let summary = sync(&double, &here).await;
    assert_eq!(counts(&summary), (0, 1, 0, 0), "{:?}", summary.failed);
    assert_eq!(there(&double), tree(&[("readme", "content")]));
}

#[tokio::test]
async fn dry_run_renames_nothing_and_compares_with_the_old_name() {
    for double in [Double::start().await, server("folds case").await] {
        let (_kept, here) = folder();
        double.put("/up/README", b"content", Duration::ZERO);
        double.put("/up/Folder/a", b"a", Duration::ZERO);
        lay(&here, &[("readme", "content"), ("folder/a", "a")]);
        let options = Options { delete: true, dry_run: true, ..rest(&mirror()) };
        let summary = up(&client(double.address, |_| ()), &here, &options).await.unwrap();
        assert_eq!(counts(&summary), (0, 2, 0, 0), "{:?}", summary.failed);
        assert_eq!(there(&double), tree(&[("README", "content"), ("Folder/a", "a")]));
    }
}
