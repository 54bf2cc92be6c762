//! The right result of a work is accepted, and every wrong one rejected.

use super::*;

fn upload(files: u32, size: u64) -> Work {
    Work::Upload { files, size: Size::bytes(size) }
}

fn deadline() -> Deadline {
    Deadline::for_cleanup(Duration::from_secs(20))
}

/// A task in a temporary folder, with the server's root prepared.
fn task(work: Work) -> (tempfile::TempDir, PathBuf, Task) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let task = Payload::new(work, 7).task(folder.path(), "s1").unwrap();
    task.prepare_server(&root, None).unwrap();
    (folder, root, task)
}

fn wrong(task: &Task, root: &Path, done: &Done) -> String {
    task.wait_done(root, done, &deadline()).unwrap_err().to_string()
}

#[test]
fn files_differ_and_a_seed_repeats_them() {
    let [a, b] = [1, 1].map(|seed| Payload::new(upload(3, 100), seed));
    assert_eq!(a.contents, b.contents);
    assert_ne!(a.contents[0], a.contents[1]);
    assert_ne!(a.contents, Payload::new(upload(3, 100), 2).contents);
}

#[test]
fn upload_with_a_wrong_byte_is_rejected() {
    let (_folder, root, task) = task(upload(3, 100));
    let done = Done::default();
    assert!(wrong(&task, &root, &done).contains("has 0 of 3 names, file0000.bin is missing"));
    for (local, content, name) in task.writes() {
        assert_eq!(fs::read(&local).unwrap(), content);
        fs::copy(local, root.join("s1").join(name)).unwrap();
    }
    task.wait_done(&root, &done, &deadline()).unwrap();
    fs::create_dir(root.join("s1/.DAV")).unwrap();
    task.wait_done(&root, &done, &deadline()).unwrap();

    let last = root.join("s1/file0002.bin");
    let right = fs::read(&last).unwrap();
    let mut bytes = right.clone();
    bytes[99] ^= 1;
    fs::write(&last, &bytes).unwrap();
    assert!(wrong(&task, &root, &done).ends_with("file0002.bin differs from byte 99 on"));
    fs::write(&last, &right[..99]).unwrap();
    assert!(wrong(&task, &root, &done).ends_with("file0002.bin has 99 bytes instead of 100"));
    fs::write(&last, &right).unwrap();
    fs::write(root.join("s1/.davfs.tmp1"), "").unwrap();
    assert!(wrong(&task, &root, &done).ends_with("has .davfs.tmp1, which should not be there"));
}

#[test]
fn tree_with_a_misplaced_file_is_rejected() {
    let (_folder, root, task) = task(Work::Tree { folders: 3, files: 10_007, size: Size::bytes(3) });
    let server = root.join("s1");
    assert_eq!(task.folders(), ["folder000", "folder001", "folder002"]);
    let names = task.names();
    assert_eq!((names[0].as_str(), names[10_006].as_str()), ("folder000/file0000.bin", "folder002/file10006.bin"));
    for folder in task.folders() {
        assert!(names.iter().filter(|name| name.starts_with(&folder)).count() >= 3335);
        fs::create_dir(server.join(folder)).unwrap();
    }
    assert!(wrong(&task, &root, &Done::default()).contains("folder000/file0000.bin is missing"));
    for (local, content, name) in task.writes() {
        assert_eq!(fs::read(&local).unwrap(), content);
        fs::rename(local, server.join(name)).unwrap();
    }
    fs::create_dir(server.join("folder001/.DAV")).unwrap();
    task.wait_done(&root, &Done::default(), &deadline()).unwrap();
    fs::create_dir(server.join("folder001/more")).unwrap();
    assert!(wrong(&task, &root, &Done::default()).ends_with("has folder001/more/, which should not be there"));
    fs::remove_dir(server.join("folder001/more")).unwrap();
    fs::rename(server.join("folder001/file5000.bin"), server.join("folder002/file5000.bin")).unwrap();
    assert!(wrong(&task, &root, &Done::default()).contains("folder001/file5000.bin is missing"));
}

#[test]
fn download_is_verified_on_the_client() {
    let (_folder, root, task) = task(Work::Download { files: 2, size: vec![Size::bytes(10)] });
    assert_eq!(task.writes().count(), 0);
    assert!(wrong(&task, &root, &Done::default()).contains("target has 0 of 2 names"));
    for name in task.names() {
        fs::copy(root.join("s1").join(&name), task.target.join(&name)).unwrap();
    }
    task.wait_done(&root, &Done::default(), &deadline()).unwrap();
}

#[test]
fn listing_must_name_each_entry_once() {
    let (_folder, root, task) = task(Work::List { entries: 1000 });
    let mut done = Done { listing: Some(task.names()), ..Done::default() };
    done.listing.as_mut().unwrap().reverse();
    task.wait_done(&root, &done, &deadline()).unwrap();
    done.listing.as_mut().unwrap().push("entry0000.txt".to_owned());
    assert!(wrong(&task, &root, &done).ends_with("the listing names 1000 files 1001 times"));
    done.listing.as_mut().unwrap().truncate(999);
    assert!(wrong(&task, &root, &done).ends_with("has 999 of 1000 names, entry0000.txt is missing"));
    assert!(wrong(&task, &root, &Done::default()).contains("has 0 of 1000 names"));
}

#[test]
fn edit_is_done_when_the_last_version_has_arrived() {
    let (_folder, root, task) = task(Work::Edit { times: 3, size: Size::bytes(50) });
    let done = Done::default();
    let file = root.join("s1/note.txt");
    assert!(wrong(&task, &root, &done).contains("note.txt differs"));
    let versions: Vec<_> = task.writes().map(|(_, content, name)| (content.to_owned(), name)).collect();
    assert_eq!(versions.len(), 3);
    assert!(versions.iter().all(|(content, name)| name == "note.txt" && fs::read(&file).unwrap() != *content));
    fs::write(&file, &versions[1].0).unwrap();
    assert!(wrong(&task, &root, &done).contains("note.txt differs"));
    fs::write(&file, &versions[2].0).unwrap();
    task.wait_done(&root, &done, &deadline()).unwrap();
}

#[test]
fn merged_saves_are_rejected() {
    let (_folder, _, task) = task(Work::Edit { times: 3, size: Size::bytes(50) });
    let methods = |n| [("PUT".to_owned(), n), ("LOCK".to_owned(), 9)].into();
    let puts = |n| Requests { methods: methods(n), ..Requests::default() };
    task.verify_requests(&puts(3), &Done::default()).unwrap();
    let merged = task.verify_requests(&puts(2), &Done::default()).unwrap_err().to_string();
    assert_eq!(merged, "the result is wrong: the server received 2 PUT requests for 3 saves");
    let (_folder, _, listing) = self::task(Work::List { entries: 3 });
    listing.verify_requests(&puts(0), &Done::default()).unwrap();
}

#[test]
fn write_back_is_awaited_until_the_deadline() {
    let (_folder, root, task) = task(upload(1, 10));
    let done = Done { writes_behind: true, ..Done::default() };
    let (local, _, name) = task.writes().next().map(|(l, c, n)| (l, c.to_owned(), n)).unwrap();
    let error = task.wait_done(&root, &done, &Deadline::for_cleanup(Duration::from_millis(30))).unwrap_err();
    assert!(matches!(error, WorkError::Unfinished { stop: Stop::TimedOut(_), .. }), "{error}");
    let target = root.join("s1").join(name);
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        fs::copy(local, target).unwrap();
    });
    task.wait_done(&root, &done, &deadline()).unwrap();
    writer.join().unwrap();
}

#[test]
fn save_is_awaited_by_its_bytes() {
    let (_folder, root, task) = task(Work::Edit { times: 2, size: Size::bytes(40_000) });
    let saves: Vec<(Vec<u8>, String)> = task.writes().map(|(_, content, name)| (content.to_owned(), name)).collect();
    let [(first, name), (second, _)] = saves.as_slice() else { panic!("two saves") };
    let brief = Deadline::for_cleanup(Duration::from_millis(30));
    let error = task.wait_arrived(&root, name, first, &brief).unwrap_err().to_string();
    assert!(error.contains("did not finish within") && error.ends_with("note.txt differs from byte 0 on"), "{error}");
    let file = root.join("s1").join(name);
    let mut half = first.clone();
    half[39_999] ^= 1;
    fs::write(&file, half).unwrap();
    let error = task.wait_arrived(&root, name, first, &brief).unwrap_err().to_string();
    assert!(error.ends_with("differs from byte 39999 on"), "{error}");
    let later = (first.clone(), file.clone());
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        fs::write(later.1, later.0).unwrap();
    });
    task.wait_arrived(&root, name, first, &deadline()).unwrap();
    writer.join().unwrap();
    assert!(task.wait_arrived(&root, name, second, &brief).is_err());
}

#[test]
fn sizes_repeat_and_page_has_one_more_object() {
    let sizes = |work: Work| Payload::new(work, 1).contents.iter().map(Vec::len).collect::<Vec<_>>();
    let turn = vec![Size::bytes(1), Size::bytes(2)];
    assert_eq!(sizes(Work::Download { files: 5, size: turn.clone() }), [1, 2, 1, 2, 1]);
    let payload = |files| Work::Download { files, size: turn.clone() }.payload();
    assert_eq!([payload(5), payload(4_000_000_001)], [7, 6_000_000_001]);
    let page = Work::Page { objects: turn.clone(), idle: "1s".parse().unwrap(), size: Size::bytes(9) };
    assert_eq!((page.payload(), page.steps()), (9, 1));
    assert_eq!(page.to_string(), "an object of 9B, 1s after a page with objects of 1B, 2B");
    assert_eq!(sizes(page), [1, 2, 9]);
    assert_eq!(sizes(Work::Edit { times: 2, size: Size::bytes(3) }), [3, 3, 3]);
    let many = Work::Download { files: 60, size: [[Size::bytes(2); 9].as_slice(), &turn[..1]].concat() };
    assert_eq!(many.to_string(), "download 60 files of 9 × 2B, 1B");
}

#[test]
fn page_with_a_missing_object_is_rejected() {
    let (_folder, root, task) = task(Work::Page {
        objects: vec![Size::bytes(5), Size::bytes(6)],
        idle: "0s".parse().unwrap(),
        size: Size::bytes(7),
    });
    let reads: Vec<_> = task.reads().collect();
    assert_eq!(reads.last().map(|file| (file.name.as_str(), file.length)), Some(("file0002.bin", 7)));
    for RemoteFile { name, modified, .. } in &reads[..2] {
        let there = fs::metadata(root.join("s1").join(name)).unwrap().modified().unwrap();
        assert_eq!(there, *modified);
        fs::copy(root.join("s1").join(name), task.target.join(name)).unwrap();
    }
    assert!(wrong(&task, &root, &Done::default()).contains("file0002.bin is missing"));
    fs::copy(root.join("s1/file0002.bin"), task.target.join("file0002.bin")).unwrap();
    task.wait_done(&root, &Done::default(), &deadline()).unwrap();
}
