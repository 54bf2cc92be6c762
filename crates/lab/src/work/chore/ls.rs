//! `ls -lR`: every folder listed, and every entry's attributes asked for.

use super::{Done, Failure, LS, Place, timed};
use crate::work::verify::same_names;

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    let (output, done) = timed(|| {
        place.program(LS, |ls| {
            ls.arg("-lR").arg(place.folder);
        })
    })?;
    let expected: Vec<String> = place.task.files().map(|(name, content)| entry(&name, content.len())).collect();
    let listed = entries(&output.stdout, &place.folder.to_string_lossy());
    same_names("the listing", listed.into_iter(), &expected)?;
    Ok(done)
}

fn entry(name: &str, size: usize) -> String {
    format!("{name} ({size} bytes)")
}

/// The files of `ls -lR`, with their sizes: a heading for each folder, then a line for each entry.
fn entries(printed: &str, top: &str) -> Vec<String> {
    let mut folder = "";
    let mut entries = Vec::new();
    for line in printed.lines() {
        if let Some(path) = line.strip_suffix(':').and_then(|path| path.strip_prefix(top)) {
            folder = path.trim_start_matches('/');
        } else if line.starts_with('-') {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (size, name) = (fields.get(4).and_then(|size| size.parse().ok()), fields.last());
            entries.extend(size.zip(name).map(|(size, name)| entry(&format!("{folder}/{name}"), size)));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_named_with_their_folders() {
        let printed = "/m/work:\ntotal 0\ndrwxr-xr-x 2 a b 0 Nov 23 21:00 folder000\n\n/m/work/folder000:\ntotal 1\n\
                       -rw-r--r-- 1 a b 100 Nov 23 21:00 file0000.bin\n";
        assert_eq!(entries(printed, "/m/work"), ["folder000/file0000.bin (100 bytes)"]);
    }
}
