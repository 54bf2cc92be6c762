//! The outcome of a run: compares the files on both sides with the report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

/// Files by name, with their content.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// From best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Right, but the server's behaviour never occurred.
    Untouched,
    /// Done and reported as done.
    Right,
    /// Nothing was changed, and it failed.
    Refused,
    /// It failed, and named all wrong files and no others.
    Named,
    /// It named all wrong files, and reported that it could not tell for some right ones.
    Unsure,
    /// It reported something right as refused, missing or another user's.
    Accused,
    /// It did not end in time.
    Endless,
    /// Something is wrong and was not reported.
    Unseen,
}

impl Outcome {
    pub(crate) fn is_bad(self) -> bool {
        self >= Self::Accused
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Untouched => "·",
            Self::Right => "right",
            Self::Refused => "refused",
            Self::Named => "named",
            Self::Unsure => "unsure",
            Self::Accused => "ACCUSED",
            Self::Endless => "ENDLESS",
            Self::Unseen => "WRONG, UNSEEN",
        })
    }
}

/// The program's report.
pub(crate) struct Said {
    pub(crate) is_success: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) json: Value,
}

impl Said {
    /// The reported failures, by path below the tree.
    fn named(&self) -> BTreeMap<String, String> {
        let failed = self.json["failed"].as_array().into_iter().flatten();
        let text = |failed: &Value, key: &str| failed[key].as_str().unwrap_or_default().to_owned();
        failed.map(|failed| (name(&text(failed, "path")), text(failed, "why"))).collect()
    }

    fn number(&self, key: &str) -> u64 {
        self.json[key].as_u64().unwrap_or(0)
    }
}

fn name(path: &str) -> String {
    let below = ["up/into/", "tree/", "back/", "up/"].iter().find_map(|root| match path.split_once(root) {
        Some((before, below)) if before.is_empty() || before.ends_with('/') => Some(below),
        _ => None,
    });
    below.unwrap_or("").trim_end_matches('/').to_owned()
}

/// The files after a run.
pub(crate) struct Truth<'a> {
    /// The files before, if they were to be changed.
    pub(crate) before: &'a Files,
    pub(crate) wanted: &'a Files,
    pub(crate) found: &'a Files,
    /// The expected number of files in the report, if it has one.
    pub(crate) count: Option<u64>,
}

/// Whether a reason states a fact about a file, and not only that it is unknown, as after a failed listing.
fn claims(why: &str) -> bool {
    if why.starts_with("PROPFIND") {
        return false;
    }
    let refused = |status: &str| status.len() >= 4 && status.starts_with(['4', '5']) && status.as_bytes()[3] == b')';
    why.match_indices('(').any(|(at, _)| refused(&why[at + 1..]))
        || ["somebody else", "different content", "already", "no such"].iter().any(|claim| why.contains(claim))
}

pub(crate) fn judge(truth: &Truth<'_>, said: &Said) -> (Outcome, String) {
    let Truth { before, wanted, found, count } = truth;
    let all: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    let wrong: BTreeSet<&String> = all.into_iter().filter(|name| wanted.get(*name) != found.get(*name)).collect();
    let named = said.named();
    let told = |name: &str| {
        named.keys().any(|failed| {
            failed.is_empty() || name == failed || name.strip_prefix(failed).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    // A failed run that reports no deletions has reported all undeleted files.
    let is_left = |name: &String| !said.is_success && said.number("deleted") == 0 && !wanted.contains_key(name);
    let unseen: Vec<_> = wrong.iter().filter(|name| !told(name) && !is_left(name)).collect();
    let covers = |failed: &str| wrong.iter().any(|name| failed.is_empty() || name.starts_with(failed));
    let right: Vec<_> = named.iter().filter(|(failed, _)| !covers(failed)).collect();
    let accused: Vec<_> = right.iter().filter(|(name, why)| !name.is_empty() && claims(why)).collect();
    let counted = said.number("files") + said.number("skipped");
    let outcome = match said.is_success {
        true if wrong.is_empty() && count.is_none_or(|count| count == counted) => Outcome::Right,
        true => Outcome::Unseen,
        false if !unseen.is_empty() => Outcome::Unseen,
        false if !wrong.is_empty() && before == found => Outcome::Refused,
        false if named.is_empty() || !accused.is_empty() => Outcome::Accused,
        false if !right.is_empty() => Outcome::Unsure,
        false => Outcome::Named,
    };
    let why = format!(
        "wrong {wrong:?}, unseen {unseen:?}, accused {accused:?}, said {counted} of {count:?}, success {}\n{}",
        said.is_success, said.stderr
    );
    (outcome, why)
}
