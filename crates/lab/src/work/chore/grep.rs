//! `grep -r`: every file read in whole, since the word is at the end of every third file, and the lines that have it are
//! counted.

use super::{Done, Failure, GREP, Place, timed};
use crate::work::verify::same_names;

const WORD: &str = "needle";

/// Puts the word at the end of every third file that is long enough.
pub(super) fn edit(contents: &mut [Vec<u8>]) {
    let end = format!("\n{WORD}\n");
    for content in contents.iter_mut().step_by(3).filter(|content| content.len() >= end.len()) {
        let at = content.len() - end.len();
        content[at..].copy_from_slice(end.as_bytes());
    }
}

fn has_word(content: &[u8]) -> bool {
    content.windows(WORD.len()).any(|part| part == WORD.as_bytes())
}

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    let (output, done) = timed(|| {
        place.program(GREP, |grep| {
            grep.args(["-r", "--count", "--text", WORD]).arg(place.folder);
        })
    })?;
    let count = |content: &[u8]| u8::from(has_word(content));
    let expected: Vec<String> =
        place.task.files().map(|(name, content)| format!("{name}:{}", count(content))).collect();
    let top = format!("{}/", place.folder.display());
    let counted = output.stdout.lines().filter_map(|line| line.strip_prefix(&top)).map(str::to_owned);
    same_names("the count", counted, &expected)?;
    Ok(done)
}
