//! The files and folders that the user has named, directly or with wildcards.

use dav::{Entry, PropertySet, RemotePath};

use crate::files::{results::Results, session::Session, session::location::Remote};

/// A file or folder.
pub(crate) struct Selected {
    pub(crate) path: RemotePath,
    /// What a listing says of it, if it matches a pattern.
    pub(crate) entry: Option<Entry>,
}

/// Lists what matches the patterns. A pattern without matches fails.
pub(crate) async fn select<'a>(
    session: &Session,
    urls: impl IntoIterator<Item = &'a Remote>,
    report: &mut Results,
) -> Vec<Selected> {
    let mut selected = Vec::new();
    for url in urls {
        let Some(pattern) = &url.pattern else {
            selected.push(Selected { path: url.path.clone(), entry: None });
            continue;
        };
        let text = dav::terminal_safe(pattern.text().as_bytes()).to_string();
        match pattern.matches(&session.dav, PropertySet::LISTING).await {
            Ok(found) => {
                let is_empty = found.entries.is_empty();
                if is_empty && found.unusable.is_empty() {
                    let why = "nothing matches; write %2A for a `*` and %5B for a `[` in a name";
                    report.fail(&text, format_args!("{text}: {why}"));
                }
                for why in found.unusable {
                    report.fail(&text, why);
                }
                let select = |entry: Entry| Selected { path: entry.path.clone(), entry: Some(entry) };
                selected.extend(found.entries.into_iter().map(select));
            }
            Err(error) => report.fail(&text, error),
        }
    }
    selected
}
