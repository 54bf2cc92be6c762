//! The tested commands, with their files and expected results.

use std::{
    collections::BTreeSet,
    fs,
    pin::Pin,
    time::{Duration, SystemTime},
};

use crate::{
    fixture::{Fixture, encoded},
    verdict::{Files, Outcome, Said, Truth, judge},
};

type Ended<'a> = Pin<Box<dyn Future<Output = (Outcome, String)> + 'a>>;

pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a Fixture) -> Ended<'a>,
}

/// In the order of the table's columns.
pub(crate) const ALL: &[Command] = &[
    Command { name: "cp up", run: |fixture| Box::pin(up(fixture, &[])) },
    Command { name: "cp down", run: |fixture| Box::pin(down(fixture, &[])) },
    Command { name: "digest up", run: |fixture| Box::pin(up(fixture, &["--verify", "digest"])) },
    Command { name: "digest down", run: |fixture| Box::pin(down(fixture, &["--verify", "digest"])) },
    Command { name: "sync up", run: |fixture| Box::pin(sync_up(fixture, false)) },
    Command { name: "sync down", run: |fixture| Box::pin(sync_down(fixture, false)) },
    Command { name: "delete up", run: |fixture| Box::pin(sync_up(fixture, true)) },
    Command { name: "delete down", run: |fixture| Box::pin(sync_down(fixture, true)) },
    Command { name: "delete to", run: |fixture| Box::pin(sync_between(fixture, true)) },
    Command { name: "delete from", run: |fixture| Box::pin(sync_between(fixture, false)) },
    Command { name: "rm", run: |fixture| Box::pin(rm(fixture)) },
    Command { name: "mkdir", run: |fixture| Box::pin(mkdir(fixture)) },
    Command { name: "mv", run: |fixture| Box::pin(carry(fixture, "mv")) },
    Command { name: "cp there", run: |fixture| Box::pin(carry(fixture, "cp")) },
    Command { name: "ls", run: |fixture| Box::pin(ls(fixture)) },
    Command { name: "cat", run: |fixture| Box::pin(cat(fixture)) },
];

async fn up(fixture: &Fixture, options: &[&str]) -> (Outcome, String) {
    let wanted = fixture.uploads();
    fixture.keep("tree", &wanted);
    let said = fixture.haul(&[&["cp", "-r", "tree", &fixture.url("up")], options].concat()).await;
    let (before, count) = (Files::new(), Some(wanted.len() as u64));
    let mut found = fixture.seen(&wanted);
    if fixture.gives_wrongly && !options.is_empty() {
        found.values_mut().for_each(Vec::clear);
    }
    judge(&Truth { before: &before, wanted: &wanted, found: &found, count }, &said)
}

async fn down(fixture: &Fixture, options: &[&str]) -> (Outcome, String) {
    fixture.serve(&fixture.files);
    let said = fixture.haul(&[&["cp", "-r", &fixture.url("up"), "back"], options].concat()).await;
    let (before, count) = (Files::new(), Some(fixture.files.len() as u64));
    judge(&Truth { before: &before, wanted: &fixture.files, found: &fixture.here("back"), count }, &said)
}

/// Changes a tree between two runs of `sync`: edits, also of the same length, deletions, additions.
fn change(fixture: &Fixture, files: &Files) -> (Files, BTreeSet<String>) {
    let (mut later, mut touched) = (files.clone(), BTreeSet::new());
    for (number, name) in ["f0", "d0/f0", "d1/f1"].into_iter().enumerate() {
        let mut content = fixture.content(100 + number);
        content.resize(files[name].len(), b'z');
        later.insert(name.into(), content);
        touched.insert(name.to_owned());
    }
    for number in 0..10 {
        let name = format!("d{}/new{number}", number % 3);
        later.insert(name.clone(), fixture.content(110 + number));
        touched.insert(name);
    }
    later.retain(|name, _| {
        !name.starts_with("d5/") && !["f5", "f6", "f7", "d4/f0", "d4/f1", "d4/f2"].contains(&name.as_str())
    });
    (later, touched)
}

/// The target of a `sync`.
fn mirror(before: &Files, source: &Files, deletes: bool) -> Files {
    let mut wanted = if deletes { Files::new() } else { before.clone() };
    wanted.extend(source.clone());
    wanted
}

async fn sync_up(fixture: &Fixture, deletes: bool) -> (Outcome, String) {
    let (first, url) = (fixture.uploads(), fixture.url("up"));
    let arguments: &[&str] = if deletes { &["sync", "tree", &url, "--delete"] } else { &["sync", "tree", &url] };
    fixture.keep("tree", &first);
    let said = fixture.run(arguments).await;
    let (before, count) = (Files::new(), Some(first.len() as u64));
    let begun = judge(&Truth { before: &before, wanted: &first, found: &fixture.seen(&first), count }, &said);
    if begun.0 != Outcome::Right {
        return begun;
    }
    let (later, touched) = change(fixture, &first);
    for name in &touched {
        fixture.write("tree", name, &later[name], SystemTime::now() + Duration::from_secs(3));
    }
    for name in first.keys().filter(|name| !later.contains_key(*name)) {
        fs::remove_file(fixture.path("tree").join(name)).expect("it is there");
    }
    fs::remove_dir(fixture.path("tree/d5")).expect("it is empty");
    let (before, said) = (fixture.seen(&first), fixture.haul(arguments).await);
    let (wanted, count) = (mirror(&before, &later, deletes), Some(later.len() as u64));
    judge(&Truth { before: &before, wanted: &wanted, found: &fixture.seen(&wanted), count }, &said)
}

async fn sync_down(fixture: &Fixture, deletes: bool) -> (Outcome, String) {
    let url = fixture.url("up");
    let arguments: &[&str] = if deletes { &["sync", &url, "back", "--delete"] } else { &["sync", &url, "back"] };
    fixture.serve(&fixture.files);
    let said = fixture.run(arguments).await;
    let (before, count) = (Files::new(), Some(fixture.files.len() as u64));
    let begun = judge(&Truth { before: &before, wanted: &fixture.files, found: &fixture.here("back"), count }, &said);
    if begun.0 != Outcome::Right {
        return begun;
    }
    let (later, touched) = change(fixture, &fixture.files);
    // Later than the first run by whole seconds of the server's clock, the resolution of HTTP dates.
    for name in &touched {
        fixture.double.put_at(&format!("/up/{name}"), &later[name], 3);
    }
    for name in fixture.files.keys().filter(|name| !later.contains_key(*name)) {
        fixture.double.remove(&format!("/up/{name}"));
    }
    fixture.double.remove("/up/d5");
    let (before, said) = (fixture.here("back"), fixture.haul(arguments).await);
    let (wanted, count) = (mirror(&before, &later, deletes), Some(later.len() as u64));
    judge(&Truth { before: &before, wanted: &wanted, found: &fixture.here("back"), count }, &said)
}

/// From an honest server to this one, or from this one to an honest one, with `--delete`.
async fn sync_between(fixture: &Fixture, to: bool) -> (Outcome, String) {
    let (ours, theirs) = (fixture.url("up"), fixture.honest_url("up"));
    let (source, target) = if to { (&fixture.honest, &fixture.double) } else { (&fixture.double, &fixture.honest) };
    let arguments = if to { ["sync", &theirs, &ours, "--delete"] } else { ["sync", &ours, &theirs, "--delete"] };
    let first = if to { fixture.uploads() } else { fixture.files.clone() };
    let found = |wanted: &Files| if to { fixture.seen(wanted) } else { fixture.honestly("/up") };
    Fixture::put_on(source, &first);
    let said = fixture.run(&arguments).await;
    let (before, count) = (Files::new(), Some(first.len() as u64));
    let begun = judge(&Truth { before: &before, wanted: &first, found: &found(&first), count }, &said);
    if begun.0 != Outcome::Right {
        return begun;
    }
    let (later, touched) = change(fixture, &first);
    for name in &touched {
        source.put_at(&format!("/up/{}", encoded(name)), &later[name], 3);
    }
    for name in first.keys().filter(|name| !later.contains_key(*name)) {
        source.remove(&format!("/up/{}", encoded(name)));
    }
    source.remove("/up/d5");
    target.put("/up/d0/extra", b"", Duration::from_hours(1));
    let (before, said) = (found(&first), fixture.haul(&arguments).await);
    judge(&Truth { before: &before, wanted: &later, found: &found(&later), count: Some(later.len() as u64) }, &said)
}

async fn rm(fixture: &Fixture) -> (Outcome, String) {
    fixture.serve(&fixture.files);
    let names = (1..8).map(|number| format!("up/f{number}")).chain((1..6).map(|number| format!("up/d{number}")));
    let urls: Vec<_> = names.map(|name| fixture.url(&name)).collect();
    let arguments: Vec<&str> = ["rm", "-r"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let said = fixture.haul(&arguments).await;
    let mut wanted = fixture.files.clone();
    wanted.retain(|name, _| name == "f0" || name.starts_with("d0/"));
    judge(&Truth { before: &fixture.files, wanted: &wanted, found: &fixture.there("/up"), count: None }, &said)
}

async fn mkdir(fixture: &Fixture) -> (Outcome, String) {
    fixture.serve(&fixture.files);
    let urls: Vec<_> = (0..12).map(|number| fixture.url(&format!("up/n{number}"))).collect();
    let arguments: Vec<&str> = ["mkdir"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let folders = || -> Files {
        let made = fixture.double.folders("/up/n").into_iter();
        made.map(|path| (path.trim_start_matches("/up/").to_owned(), Vec::new())).collect()
    };
    let said = fixture.haul(&arguments).await;
    let wanted = (0..12).map(|number| (format!("n{number}"), Vec::new())).collect();
    judge(&Truth { before: &Files::new(), wanted: &wanted, found: &folders(), count: None }, &said)
}

/// Copies or moves files into a folder on the server.
async fn carry(fixture: &Fixture, verb: &str) -> (Outcome, String) {
    fixture.serve(&fixture.files);
    fixture.double.put("/up/into/none", b"", Duration::ZERO);
    fixture.double.remove("/up/into/none");
    let urls: Vec<_> = (0..8).map(|number| fixture.url(&format!("up/f{number}"))).collect();
    let into = fixture.url("up/into/");
    let arguments: Vec<&str> =
        [verb].into_iter().chain(urls.iter().map(String::as_str)).chain([into.as_str()]).collect();
    let said = fixture.haul(&arguments).await;
    // A file is right if it is at its target, and if it was moved, no longer at its source.
    let wanted: Files = fixture
        .files
        .iter()
        .filter(|(name, _)| !name.contains('/'))
        .map(|(name, content)| (name.clone(), content.clone()))
        .collect();
    let mut found = fixture.there("/up/into");
    if verb == "mv" {
        let left = fixture.there("/up");
        found.retain(|name, _| !left.contains_key(name));
    }
    judge(&Truth { before: &Files::new(), wanted: &wanted, found: &found, count: None }, &said)
}

async fn ls(fixture: &Fixture) -> (Outcome, String) {
    fixture.serve(&fixture.files);
    let said = fixture.haul(&["ls", "-R", &fixture.url("up/")]).await;
    let entries = said.json["entries"].as_array().into_iter().flatten();
    let files = entries.filter(|entry| entry["kind"] == "file");
    let shown: Vec<(String, u64)> = files
        .map(|entry| {
            (entry["path"].as_str().unwrap_or_default().replace("/up/", ""), entry["bytes"].as_u64().unwrap_or(0))
        })
        .collect();
    let wanted: Vec<_> = fixture.files.iter().map(|(name, content)| (name.clone(), content.len() as u64)).collect();
    let mut sorted = shown.clone();
    sorted.sort();
    outcome_of_output(&said, sorted == wanted, shown.is_empty(), sorted.iter().all(|file| wanted.contains(file)))
}

async fn cat(fixture: &Fixture) -> (Outcome, String) {
    fixture.serve(&fixture.files);
    let urls: Vec<_> = fixture.files.keys().take(5).map(|name| fixture.url(&format!("up/{name}"))).collect();
    let arguments: Vec<&str> = ["cat"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let said = fixture.haul(&arguments).await;
    let wanted: Vec<u8> = fixture.files.values().take(5).flatten().copied().collect();
    let part = wanted.starts_with(&said.stdout) || {
        // A failed file is missing or truncated.
        let kept = fixture.files.values().take(5);
        let mut rest = &said.stdout[..];
        for content in kept {
            let common = content.iter().zip(rest).take_while(|(one, other)| one == other).count();
            rest = &rest[common..];
        }
        rest.is_empty()
    };
    outcome_of_output(&said, said.stdout == wanted && !fixture.gives_wrongly, said.stdout.is_empty(), part)
}

/// The outcome of a command that prints something.
fn outcome_of_output(said: &Said, is_right: bool, is_nothing: bool, is_part: bool) -> (Outcome, String) {
    let outcome = match (said.is_success, is_right) {
        (true, true) => Outcome::Right,
        (false, true) => Outcome::Accused,
        (false, false) if is_nothing => Outcome::Refused,
        (false, false) if is_part && !said.stderr.is_empty() => Outcome::Named,
        _ => Outcome::Unseen,
    };
    (outcome, format!("success {}: {}", said.is_success, said.stderr))
}
