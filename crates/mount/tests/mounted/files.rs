//! Reading and writing files.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    process::Command,
};

use libtest_mimic::Failed;

use crate::{
    Test,
    world::{World, noise},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_file_is_on_the_server_when_close_returns", a_file_is_on_the_server_when_close_returns),
    ("fsync_uploads_without_a_close", fsync_uploads_without_a_close),
    ("a_large_file_is_read_from_front_to_back_and_anywhere", a_large_file_is_read_from_front_to_back_and_anywhere),
    ("a_part_of_a_file_is_changed_in_place", a_part_of_a_file_is_changed_in_place),
    ("a_file_is_cut_and_extended", a_file_is_cut_and_extended),
    ("two_readers_share_a_file", two_readers_share_a_file),
    ("a_deleted_file_stays_readable_while_it_is_open", a_deleted_file_stays_readable_while_it_is_open),
    ("what_webdav_has_no_place_for_is_refused", what_webdav_has_no_place_for_is_refused),
    ("a_mapped_file_is_uploaded", a_mapped_file_is_uploaded),
];

fn a_file_is_on_the_server_when_close_returns(world: &World) -> Result<(), Failed> {
    for length in [0, 1, 10_240, 300_000, 3_000_000] {
        let content = noise(length);
        fs::write(world.here.join("file"), &*content)?;
        assert_eq!(fs::read(world.there.join("file"))?, *content, "{length}");
        assert_eq!(fs::read(world.here.join("file"))?, *content, "{length}");
        assert_eq!(fs::metadata(world.here.join("file"))?.len(), length as u64);
    }
    Ok(())
}

fn fsync_uploads_without_a_close(world: &World) -> Result<(), Failed> {
    let mut file = File::create(world.here.join("log"))?;
    for line in ["one\n", "two\n"] {
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        assert!(fs::read_to_string(world.there.join("log"))?.ends_with(line));
    }
    Ok(())
}

fn a_large_file_is_read_from_front_to_back_and_anywhere(world: &World) -> Result<(), Failed> {
    let content = noise(20_000_000);
    world.store("large", &content)?;
    let file = File::open(world.here.join("large"))?;
    for at in [17_000_001, 5, 9_999_999, 19_999_990] {
        let mut bytes = vec![0; 4096.min(content.len() - at)];
        file.read_exact_at(&mut bytes, at as u64)?;
        assert!(bytes == content[at..at + bytes.len()], "at {at}");
    }
    assert!(fs::read(world.here.join("large"))? == *content);
    Ok(())
}

fn a_part_of_a_file_is_changed_in_place(world: &World) -> Result<(), Failed> {
    let mut expected = (*noise(500_000)).clone();
    world.store("file", &expected)?;
    let file = File::options().write(true).open(world.here.join("file"))?;
    for (at, byte) in [(0, 1_u8), (123_456, 2), (499_999, 3), (510_000, 4)] {
        file.write_all_at(&[byte], at)?;
        expected.resize(expected.len().max(at as usize + 1), 0);
        expected[at as usize] = byte;
    }
    drop(file);
    assert!(fs::read(world.there.join("file"))? == expected);
    // Appending knows the length.
    File::options().append(true).open(world.here.join("file"))?.write_all(b"end")?;
    expected.extend(b"end");
    assert!(fs::read(world.there.join("file"))? == expected);
    Ok(())
}

fn a_file_is_cut_and_extended(world: &World) -> Result<(), Failed> {
    let mut expected = (*noise(100_000)).clone();
    world.store("file", &expected)?;
    let file = File::options().read(true).write(true).open(world.here.join("file"))?;
    for length in [60_000, 80_000, 10, 0, 7] {
        file.set_len(length)?;
        expected.resize(length as usize, 0);
    }
    drop(file);
    assert_eq!(fs::read(world.there.join("file"))?, expected);
    // Without an open file.
    nix::unistd::truncate(&world.here.join("file"), 3)?;
    assert_eq!(fs::read(world.there.join("file"))?, expected[..3]);
    Ok(())
}

fn two_readers_share_a_file(world: &World) -> Result<(), Failed> {
    let content = noise(6_000_000);
    world.store("file", &content)?;
    let readers: Vec<_> = (0..4)
        .map(|number| {
            let (path, content) = (world.here.join("file"), content.clone());
            std::thread::spawn(move || -> std::io::Result<bool> {
                let (mut file, mut bytes) = (File::open(path)?, Vec::new());
                let start = number * 1_000_000;
                file.seek(SeekFrom::Start(start as u64))?;
                file.read_to_end(&mut bytes)?;
                Ok(bytes == content[start..])
            })
        })
        .collect();
    for reader in readers {
        assert!(reader.join().expect("it does not panic")?);
    }
    Ok(())
}

fn a_deleted_file_stays_readable_while_it_is_open(world: &World) -> Result<(), Failed> {
    let content = noise(1_000_000);
    world.store("file", &content)?;
    let mut file = File::open(world.here.join("file"))?;
    fs::remove_file(world.here.join("file"))?;
    assert!(!world.there.join("file").exists());
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    assert!(bytes == *content);
    Ok(())
}

fn what_webdav_has_no_place_for_is_refused(world: &World) -> Result<(), Failed> {
    let file = world.here.join("file");
    fs::write(&file, "x")?;
    for (program, arguments) in [("ln", ["file", "other"]), ("ln", ["-s", "other"]), ("chmod", ["600", "file"])] {
        let output = Command::new(program).args(arguments).current_dir(&world.here).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("not permitted"), "{program}: {said}");
    }
    Ok(())
}

fn a_mapped_file_is_uploaded(world: &World) -> Result<(), Failed> {
    world.store("file", &[b'a'; 10_000])?;
    let script = "import mmap, sys\n\
        f = open(sys.argv[1], 'r+b')\n\
        m = mmap.mmap(f.fileno(), 0)\n\
        m[5000:5003] = b'xyz'\n\
        m.flush()\n\
        m.close()\n\
        f.close()\n";
    let output = match Command::new("python3").args(["-c", script]).arg(world.here.join("file")).output() {
        Err(error) => {
            println!("skipped: no python3 to map a file with: {error}");
            return Ok(());
        }
        Ok(output) => output,
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let content = fs::read(world.there.join("file"))?;
    assert_eq!((content.len(), &content[4999..5004]), (10_000, &b"axyza"[..]));
    Ok(())
}
