//! Changes that somebody else makes on the server.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::Path,
};

use libtest_mimic::Failed;

use crate::{
    Test,
    world::{World, let_listings_expire, noise},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("changes_elsewhere_are_seen_in_time", changes_elsewhere_are_seen_in_time),
    ("a_new_version_has_its_own_length", a_new_version_has_its_own_length),
    ("what_others_append_meanwhile_stays", what_others_append_meanwhile_stays),
    ("a_conflict_keeps_both_versions", a_conflict_keeps_both_versions),
    ("a_save_after_a_conflict_has_its_own_name", a_save_after_a_conflict_has_its_own_name),
    ("each_program_learns_of_a_conflict", each_program_learns_of_a_conflict),
    ("a_name_taken_elsewhere_is_not_overwritten", a_name_taken_elsewhere_is_not_overwritten),
    ("a_rename_does_not_adopt_the_version_of_somebody_else", a_rename_does_not_adopt_the_version_of_somebody_else),
    ("versions_are_never_mixed", versions_are_never_mixed),
    ("what_cannot_be_uploaded_is_kept", what_cannot_be_uploaded_is_kept),
    ("an_open_file_and_its_new_version_are_two_files", an_open_file_and_its_new_version_are_two_files),
    ("what_is_written_to_a_file_deleted_elsewhere_is_kept", what_is_written_to_a_file_deleted_elsewhere_is_kept),
];

fn changes_elsewhere_are_seen_in_time(world: &World) -> Result<(), Failed> {
    fs::write(world.here.join("file"), "first")?;
    assert!(!world.here.join("other").exists());
    fs::write(world.there.join("file"), "second")?;
    fs::write(world.there.join("other"), "other")?;
    let_listings_expire();
    assert_eq!(fs::read(world.here.join("file"))?, b"second");
    assert_eq!(fs::read(world.here.join("other"))?, b"other");
    fs::remove_file(world.there.join("file"))?;
    let_listings_expire();
    assert!(!world.here.join("file").exists());
    Ok(())
}

/// The kernel still believes the length of before when the mount has listed the folder again, for another reason.
fn a_new_version_has_its_own_length(world: &World) -> Result<(), Failed> {
    let whole = b"the whole of the second version";
    fs::create_dir(world.there.join("folder"))?;
    for way in ["read", "append", "truncate"] {
        world.store("folder/file", b"the first.")?;
        let here = world.here.join("folder/file");
        assert_eq!(fs::metadata(&here)?.len(), 10);
        fs::write(world.there.join("folder/file"), whole)?;
        assert!(fs::remove_dir(world.here.join("folder")).is_err(), "it is not empty");
        match way {
            "read" => assert_eq!(fs::read(&here)?, whole),
            "append" => {
                File::options().append(true).open(&here)?.write_all(b", and more")?;
                assert_eq!(fs::read(world.there.join("folder/file"))?, [&whole[..], b", and more"].concat());
            }
            _ => {
                nix::unistd::truncate(&here, 20)?;
                assert_eq!(fs::read(world.there.join("folder/file"))?, &whole[..20]);
            }
        }
    }
    Ok(())
}

fn what_others_append_meanwhile_stays(world: &World) -> Result<(), Failed> {
    fs::create_dir(world.there.join("folder"))?;
    world.store("folder/log", b"")?;
    for round in 0..40 {
        let append = |folder: &Path, who: &str| -> Result<(), Failed> {
            Ok(writeln!(File::options().append(true).open(folder.join("folder/log"))?, "{who} {round}")?)
        };
        append(&world.there, "theirs")?;
        // What makes the mount list the folder again, and not tell the kernel.
        assert!(fs::remove_dir(world.here.join("folder")).is_err(), "it is not empty");
        append(&world.here, "ours")?;
    }
    let there = world.there.join("folder");
    let mut found = fs::read_to_string(there.join("log"))?;
    conflicts_in(&there)?.into_iter().for_each(|beside| found += &String::from_utf8_lossy(&beside));
    for (round, who) in (0..40).flat_map(|round| [(round, "theirs"), (round, "ours")]) {
        assert!(found.contains(&format!("{who} {round}\n")), "{who} {round} is lost: {found}");
    }
    assert!(!found.contains('\0'), "{found}");
    Ok(())
}

fn conflicts(world: &World) -> Result<Vec<Vec<u8>>, Failed> {
    conflicts_in(&world.there)
}

fn conflicts_in(folder: &Path) -> Result<Vec<Vec<u8>>, Failed> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains("(conflict ") {
            found.push(fs::read(entry.path())?);
        }
    }
    Ok(found)
}

/// Makes a conflict about `file`, which a program has open all the time.
fn conflict(world: &World) -> Result<File, Failed> {
    world.store("file", b"original")?;
    let mut file = File::options().write(true).open(world.here.join("file"))?;
    file.write_all(b"mine, which is longer")?;
    fs::write(world.there.join("file"), "theirs")?;
    // close(2) itself cannot be asked from here; fsync(2) says the same.
    let error = file.sync_all().expect_err("a conflict");
    assert_eq!(error.raw_os_error(), Some(nix::libc::ESTALE));
    Ok(file)
}

fn a_conflict_keeps_both_versions(world: &World) -> Result<(), Failed> {
    drop(conflict(world)?);
    assert_eq!(fs::read(world.there.join("file"))?, b"theirs");
    assert_eq!(conflicts(world)?, [b"mine, which is longer"]);
    let_listings_expire();
    assert_eq!(fs::read(world.here.join("file"))?, b"theirs");
    Ok(())
}

fn a_save_after_a_conflict_has_its_own_name(world: &World) -> Result<(), Failed> {
    // At once, while the kernel believes that the name is still the first file's.
    for is_open in [false, true] {
        let _file = Some(conflict(world)?).filter(|_| is_open);
        fs::write(world.here.join("file"), "saved again")?;
        assert_eq!(fs::read(world.there.join("file"))?, b"saved again");
        assert_eq!(fs::read(world.here.join("file"))?, b"saved again");
        let _other = Some(conflict(world)?).filter(|_| is_open);
        File::options().write(true).open(world.here.join("file"))?.set_len(3)?;
        assert_eq!(fs::read(world.there.join("file"))?, b"the");
        let found = conflicts(world)?;
        assert!(found.iter().all(|content| content == b"mine, which is longer"), "{found:?}");
    }
    Ok(())
}

fn each_program_learns_of_a_conflict(world: &World) -> Result<(), Failed> {
    world.store("file", b"original")?;
    let open = || File::options().write(true).open(world.here.join("file"));
    let (mut file, mut other) = (open()?, open()?);
    file.write_all(b"mine, which is longer")?;
    fs::write(world.there.join("file"), "theirs")?;
    assert!(file.sync_all().is_err());
    other.write_all(b"ours")?;
    assert_eq!(other.sync_all().map_err(|error| error.raw_os_error()), Err(Some(nix::libc::ESTALE)));
    // It knows now.
    other.write_all(b", and more")?;
    other.sync_all()?;
    assert_eq!(fs::read(world.there.join("file"))?, b"theirs");
    assert_eq!(conflicts(world)?, [b"ours, and more longer"]);
    Ok(())
}

fn a_name_taken_elsewhere_is_not_overwritten(world: &World) -> Result<(), Failed> {
    let mut file = File::create(world.here.join("file"))?;
    file.write_all(b"mine")?;
    fs::write(world.there.join("file"), "theirs")?;
    assert!(file.sync_all().is_err());
    drop(file);
    assert_eq!(fs::read(world.there.join("file"))?, b"theirs");
    assert_eq!(conflicts(world)?, [b"mine"]);
    Ok(())
}

fn a_rename_does_not_adopt_the_version_of_somebody_else(world: &World) -> Result<(), Failed> {
    world.store("file", b"original")?;
    let mut file = File::options().write(true).open(world.here.join("file"))?;
    file.write_all(b"mine, which is longer")?;
    fs::write(world.there.join("file"), "theirs")?;
    fs::rename(world.here.join("file"), world.here.join("renamed"))?;
    assert!(file.sync_all().is_err());
    drop(file);
    assert_eq!(fs::read(world.there.join("renamed"))?, b"theirs");
    assert_eq!(conflicts(world)?, [b"mine, which is longer"]);
    Ok(())
}

fn versions_are_never_mixed(world: &World) -> Result<(), Failed> {
    let (first, second) = (noise(8_000_000), vec![7_u8; 8_000_000]);
    world.store("file", &first)?;
    let mut file = File::open(world.here.join("file"))?;
    let mut bytes = vec![0; 1000];
    file.read_exact(&mut bytes)?;
    fs::write(world.there.join("file"), &second)?;
    let mut rest = Vec::new();
    // It may all have been on its way; else the reader is told.
    match file.read_to_end(&mut rest) {
        Ok(_) => assert!(rest == first[1000..], "a mixture"),
        Err(error) => assert_eq!(error.raw_os_error(), Some(nix::libc::ESTALE)),
    }
    let_listings_expire();
    assert!(fs::read(world.here.join("file"))? == second);
    Ok(())
}

/// What the mount has kept; waits for it, because the last close is answered before the mount has let go of the file.
fn unsaved(world: &World) -> Result<Vec<Vec<u8>>, Failed> {
    let folder = world.cache.join("unsaved");
    for _ in 0..200 {
        if folder.exists() && fs::read_dir(&folder)?.next().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fs::read_dir(&folder)?.map(|entry| Ok(fs::read(entry?.path())?)).collect()
}

fn what_cannot_be_uploaded_is_kept(world: &World) -> Result<(), Failed> {
    fs::create_dir(world.here.join("folder"))?;
    let mut file = File::create(world.here.join("folder/file"))?;
    file.write_all(b"precious")?;
    fs::remove_dir_all(world.there.join("folder"))?;
    assert!(file.sync_all().is_err());
    drop(file);
    assert_eq!(unsaved(world)?, [b"precious"]);
    Ok(())
}

fn an_open_file_and_its_new_version_are_two_files(world: &World) -> Result<(), Failed> {
    world.store("file", b"the first version")?;
    let mut first = File::options().read(true).write(true).open(world.here.join("file"))?;
    let mut bytes = Vec::new();
    first.read_to_end(&mut bytes)?;
    world.store("file", b"the second version, which is longer")?;
    assert_eq!(fs::read(world.here.join("file"))?, b"the second version, which is longer");
    assert_eq!((first.metadata()?.len(), bytes), (17, b"the first version".to_vec()));
    // What is written to the first is a conflict, and goes on in the file that keeps it.
    first.write_all(b"!")?;
    assert_eq!(first.sync_all().map_err(|error| error.raw_os_error()), Err(Some(nix::libc::ESTALE)));
    first.write_all(b"?")?;
    first.sync_all()?;
    drop(first);
    assert_eq!(conflicts(world)?, [b"the first version!?"]);
    assert_eq!(fs::read(world.here.join("file"))?, b"the second version, which is longer");
    Ok(())
}

fn what_is_written_to_a_file_deleted_elsewhere_is_kept(world: &World) -> Result<(), Failed> {
    world.store("file", b"there")?;
    let mut file = File::options().append(true).open(world.here.join("file"))?;
    fs::remove_file(world.there.join("file"))?;
    let_listings_expire();
    assert!(!world.here.join("file").exists());
    file.write_all(b", and more")?;
    assert!(file.sync_all().is_err());
    drop(file);
    let kept = unsaved(world)?;
    assert!(kept.len() == 1 && kept[0].ends_with(b", and more"), "{kept:?}");
    Ok(())
}
