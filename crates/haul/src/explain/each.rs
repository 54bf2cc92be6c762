//! `haul explain --each`: many captures in one process, a JSON document for each.

use std::{
    error::Error,
    ffi::OsString,
    io::{self, BufRead, ErrorKind, Write},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use capture::Format;
use explain::{
    KeepPackets,
    render::{PredictionRequest, json},
};

use super::{explain, is_unreadable};

/// Explains these captures, or those that standard input names. A document is written before the next path is read, so
/// that a program can name them one by one.
pub(super) fn run(
    files: &[PathBuf],
    format: Option<Format>,
    request: &PredictionRequest,
) -> Result<ExitCode, Box<dyn Error>> {
    let paths: Box<dyn Iterator<Item = io::Result<PathBuf>>> =
        if files.is_empty() { Box::new(named()) } else { Box::new(files.iter().cloned().map(Ok)) };
    let mut all_readable = true;
    for path in paths {
        let path = path.map_err(|error| format!("cannot read paths from standard input: {error}"))?;
        match io::stdout().write_all(&document(&path, format, request, &mut all_readable)?) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            result => result.map_err(|error| format!("cannot write to standard output: {error}"))?,
        }
    }
    Ok(if all_readable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The paths on standard input, as they come.
fn named() -> impl Iterator<Item = io::Result<PathBuf>> {
    io::stdin().lock().split(0).map(|path| {
        // Standard input is being read already, so `-` is a file with an odd name.
        let path = path?;
        Ok(PathBuf::from(if path == b"-" { "./-".into() } else { OsString::from_vec(path) }))
    })
}

/// The document's line.
fn document(
    file: &Path,
    format: Option<Format>,
    request: &PredictionRequest,
    all_readable: &mut bool,
) -> Result<Vec<u8>, String> {
    let keep = KeepPackets { for_pairing: false, for_page: None };
    let (capture, explanation) = explain(file, format, keep);
    *all_readable &= !is_unreadable(&capture);
    let (captures, connections) = ([capture], explain::pair_captures([explanation]));
    let document = json::document(&captures, &connections, request);
    let mut line = serde_json::to_vec(&document)
        .map_err(|error| format!("cannot write the explanation of {}: {error}", file.display()))?;
    line.push(b'\n');
    Ok(line)
}
