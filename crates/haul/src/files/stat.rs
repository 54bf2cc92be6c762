//! `haul stat`: show the properties of files and folders.

use std::fmt::Write;

use dav::{Entry, PropertySet};
use futures_util::future::join_all;
use serde::Serialize;

use crate::files::{
    Outcome,
    ls::{Line, Row, look},
    options::urls::UrlArgs,
    results::format,
    session::Session,
};

/// Show the properties of files and folders
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Found {
    entries: Vec<Details>,
}

#[derive(Serialize)]
struct Details {
    #[serde(flatten)]
    line: Line,
    created: Option<String>,
    content_type: Option<String>,
    checksums: Vec<String>,
    executable: Option<bool>,
    quota_used: Option<u64>,
    quota_available: Option<u64>,
    locks: Vec<Lock>,
}

#[derive(Serialize)]
struct Lock {
    owner: Option<String>,
    shared: bool,
    seconds_left: Option<u64>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, selected, mut report) = args.named.select("stat").await?;
    let paths: Vec<_> = selected.into_iter().map(|found| found.path).collect();
    let entries = join_all(paths.iter().map(|path| look(&session, path, PropertySet::DETAILS))).await;
    let mut found = Vec::new();
    for (path, entry) in paths.iter().zip(entries) {
        match entry {
            Ok(entry) => {
                report.print(&text(&session, &entry))?;
                found.push(details(&session, &entry));
            }
            Err(error) => report.fail(path, error),
        }
    }
    report.finish(Found { entries: found })
}

fn details(session: &Session, entry: &Entry) -> Details {
    let about = &entry.properties;
    let lock = |lock: &dav::ActiveLock| Lock {
        owner: lock.owner.clone(),
        shared: lock.shared,
        seconds_left: lock.timeout.map(|left| left.as_secs()),
    };
    Details {
        line: Line::of(session, &Row::of(entry)),
        created: about.created.map(format::rfc3339),
        content_type: about.content_type.clone(),
        checksums: about.checksums.clone(),
        executable: about.executable,
        quota_used: about.quota_used,
        quota_available: about.quota_available,
        locks: about.locks.iter().map(lock).collect(),
    }
}

fn text(session: &Session, entry: &Entry) -> String {
    let about = &entry.properties;
    let mut text = format!("{}\n", session.url(&entry.path));
    let mut say = |what: &str, is: String| {
        let _ = writeln!(text, "  {what:12}{}", format::name(is.as_bytes()));
    };
    let folder = entry.path.is_folder();
    say("kind", if folder { "folder" } else { "file" }.to_owned());
    if let Some(length) = about.length.filter(|_| !folder) {
        say(
            "length",
            if length < 1024 { format!("{length} B") } else { format!("{length} B ({})", format::size(length)) },
        );
    }
    for (what, time) in [("modified", about.modified), ("created", about.created)] {
        if let Some(time) = time {
            say(what, format::second(time));
        }
    }
    if let Some(etag) = &about.etag {
        say("etag", format!("{etag}, {}", if etag.is_weak() { "weak" } else { "strong" }));
    }
    if let Some(kind) = &about.content_type {
        say("type", kind.clone());
    }
    for checksum in &about.checksums {
        say("checksum", checksum.clone());
    }
    if about.executable == Some(true) {
        say("executable", "yes".to_owned());
    }
    for (what, bytes) in [("used", about.quota_used), ("available", about.quota_available)] {
        if let Some(bytes) = bytes.filter(|_| folder) {
            say(what, format::size(bytes));
        }
    }
    for lock in &about.locks {
        let owner = lock.owner.as_deref().unwrap_or("unknown owner");
        let left = lock.timeout.map_or(String::new(), |left| format!(", expires in {} s", left.as_secs()));
        let shared = if lock.shared { ", shared lock" } else { "" };
        say("locked by", format!("{owner}{shared}{left}"));
    }
    text
}
