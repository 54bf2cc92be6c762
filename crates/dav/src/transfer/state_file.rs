//! Our own files, which keep state from run to run.

use std::{
    fs,
    io::{self, BufWriter},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use serde::Serialize;

use super::temporary_name;

/// Characters to encode; bytes outside ASCII are always encoded, because a name need not be UTF-8.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Replaces a file atomically. Only the user can read it, since it tells which servers they use.
pub(crate) fn replace(file: &Path, write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>) -> io::Result<()> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = folder.join(String::from_utf8_lossy(&temporary_name(name.as_encoded_bytes())).as_ref());
    let opened = fs::File::options().create_new(true).write(true).mode(0o600).open(&part)?;
    let mut writer = BufWriter::new(opened);
    let written =
        write(&mut writer).and_then(|()| io::Write::flush(&mut writer)).and_then(|()| fs::rename(&part, file));
    written.inspect_err(|_| drop(fs::remove_file(&part)))
}

pub(crate) fn write_line(mut to: impl io::Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut to, line)?;
    to.write_all(b"\n")
}

pub(crate) fn encoded(name: &[u8]) -> String {
    percent_encode(name, ENCODED).to_string()
}

pub(crate) fn decoded(name: &str) -> Box<[u8]> {
    percent_decode_str(name).collect()
}

/// The note that a state file could not be written.
pub(crate) fn unkept(file: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}; the next run compares more files than necessary", file.display())
}
