//! `--json FILE` and `--html FILE` with special files.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/traces/browser-upload.snoop.txt");

/// `haul explain` with an option that names a result file.
fn explain(option: &str, file: &Path, stdout: impl Into<Stdio>) {
    let mut haul = Command::new(env!("CARGO_BIN_EXE_haul"));
    let ended = haul.args(["explain", TRACE, option]).arg(file).stdout(stdout).status().expect("haul runs");
    assert!(ended.success(), "{option} {}", file.display());
}

#[test]
fn fifo_gets_the_results_and_stays_a_fifo() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--json", "--html"] {
        let fifo = folder.path().join(option);
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        // Opened for reading and writing, so that neither end blocks.
        let held = File::options().read(true).write(true).open(&fifo).unwrap();
        let mut reader = File::open(&fifo).unwrap();
        let reader = thread::spawn(move || {
            let mut content = String::new();
            reader.read_to_string(&mut content).unwrap();
            content
        });
        explain(option, &fifo, Stdio::null());
        drop(held);
        assert!(reader.join().unwrap().contains("\"longhaul."), "{option}");
        assert!(fifo.symlink_metadata().unwrap().file_type().is_fifo(), "{option}");
    }
}

#[test]
fn link_to_a_file_is_followed_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--json", "--html"] {
        let (link, file) = (folder.path().join(option), folder.path().join(format!("{option}.file")));
        symlink(&file, &link).unwrap();
        for _ in 0..2 {
            explain(option, &link, Stdio::null());
            assert!(link.is_symlink() && file.symlink_metadata().unwrap().is_file(), "{option}");
        }
    }
}

#[test]
fn link_to_standard_output_appends_to_what_was_printed() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("stdout");
    symlink("/proc/self/fd/1", &link).unwrap();
    for (option, part) in [("--json", "longhaul.explain/1"), ("--html", "longhaul.view/1")] {
        let out = folder.path().join("out");
        explain(option, &link, File::create(&out).unwrap());
        let printed = fs::read_to_string(&out).unwrap();
        assert!(printed.contains(part) && printed.contains("were lost: delayed ACKs"), "{option}: {printed}");
        assert_eq!(link.read_link().unwrap(), Path::new("/proc/self/fd/1"));
    }
}
