//! Each chore is done in a plain folder; a right result is accepted, and a wrong one rejected.

use std::{fs, time::Duration};

use super::*;
use crate::work::{Payload, Work};

const READING: [Job; 6] = [Job::LsLr, Job::GrepR, Job::TarC, Job::GitStatus, Job::Pread, Job::Cat];

/// A chore in a temporary folder, with the server's root prepared.
fn chore(job: Job) -> (tempfile::TempDir, Chore, Task, PathBuf) {
    let chore = Chore { job, folders: 2, files: 5, size: Size::bytes(20_000), warm: false, command: None };
    let folder = tempfile::tempdir().unwrap();
    let task = Payload::new(Work::Chore(chore.clone()), 7).task(folder.path(), "work").unwrap();
    let root = folder.path().join("root");
    task.prepare_server(&root, None).unwrap();
    let served = root.join("work");
    (folder, chore, task, served)
}

fn run(chore: &Chore, task: &Task, folder: &Path) -> Result<Done, Failure> {
    let deadline = Deadline::for_cleanup(Duration::from_secs(30));
    Place { task, folder, deadline: &deadline }.run(chore)
}

/// Whether the chore's program is here; says so if not.
fn is_installed(job: Job) -> bool {
    let missing = job.program().and_then(|program| program.find().err());
    missing.inspect(|missing| eprintln!("SKIPPED: {job:?}: {missing}")).is_none()
}

#[test]
fn reading_chore_accepts_the_files_and_rejects_others() {
    for job in READING.into_iter().filter(|job| is_installed(*job)) {
        let (_folder, chore, task, served) = chore(job);
        for _ in 0..2 {
            let done = run(&chore, &task, &served).unwrap_or_else(|failure| panic!("{job:?}: {failure}"));
            assert!(done.took.is_some(), "{job:?}");
            task.wait_done(served.parent().unwrap(), &done, &Deadline::for_cleanup(Duration::ZERO)).unwrap();
        }
        // Other bytes, another length, and no word at the end.
        let file = served.join("folder001/file0003.bin");
        let mut content = fs::read(&file).unwrap();
        content.rotate_left(1);
        content.truncate(10_000);
        fs::write(&file, content).unwrap();
        let error = run(&chore, &task, &served).map(drop).unwrap_err();
        assert!(error.to_string().contains("file0003.bin"), "{job:?}: {error}");
    }
}

#[test]
fn writing_chore_is_done_when_the_server_has_every_file() {
    for job in [Job::Cp, Job::TarX, Job::GitClone].into_iter().filter(|job| is_installed(*job)) {
        let (_folder, chore, task, served) = chore(job);
        let check = || chore.verify(&task, &served);
        assert!(check().is_err(), "{job:?} is done before it began");
        let done = run(&chore, &task, &served).unwrap_or_else(|failure| panic!("{job:?}: {failure}"));
        assert_eq!(done.took.is_some(), job == Job::Cp, "only cp is timed until it returns");
        check().unwrap_or_else(|error| panic!("{job:?}: {error}"));

        let clone = if job == Job::GitClone { served.join("clone") } else { served.clone() };
        let file = clone.join("folder001/file0004.bin");
        let mut content = fs::read(&file).unwrap();
        content[19_999] ^= 1;
        fs::write(&file, content).unwrap();
        assert!(check().unwrap_err().to_string().ends_with("file0004.bin differs from byte 19999 on"), "{job:?}");
        fs::remove_file(&file).unwrap();
        assert!(check().unwrap_err().to_string().contains("file0004.bin is missing"), "{job:?}");
    }
}

#[test]
fn git_status_needs_no_content() {
    if !is_installed(Job::GitStatus) {
        return;
    }
    let (_folder, chore, task, served) = chore(Job::GitStatus);
    // Another content of the same size and time would be found by reading only.
    let file = served.join("folder001/file0003.bin");
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, vec![0; 20_000]).unwrap();
    fs::File::open(&file).unwrap().set_modified(modified).unwrap();
    run(&chore, &task, &served).unwrap();
}

#[test]
fn warm_chore_needs_no_bytes() {
    let cold = Chore { job: Job::TarC, folders: 1, files: 3, size: Size::bytes(10), warm: false, command: None };
    assert_eq!((cold.payload(), Chore { warm: true, ..cold.clone() }.payload()), (30, 0));
    assert_eq!(Chore { job: Job::Pread, files: 1, size: Size::bytes(1 << 20), ..cold.clone() }.payload(), 4096);
    assert_eq!(cold.to_string(), "tar c of 3 files of 10B in 1 folder");
}
