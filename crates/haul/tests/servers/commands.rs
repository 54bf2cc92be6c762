//! The commands, what each is tried on, and what must come of it.

use std::{
    collections::BTreeSet,
    fs,
    pin::Pin,
    time::{Duration, SystemTime},
};

use crate::{
    judge::{Files, Outcome, Said, Truth, judge},
    scene::{Scene, encoded},
};

type Ended<'a> = Pin<Box<dyn Future<Output = (Outcome, String)> + 'a>>;

pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a Scene) -> Ended<'a>,
}

/// In the order of the table's columns.
pub(crate) const ALL: &[Command] = &[
    Command { name: "cp up", run: |scene| Box::pin(up(scene, &[])) },
    Command { name: "cp down", run: |scene| Box::pin(down(scene, &[])) },
    Command { name: "digest up", run: |scene| Box::pin(up(scene, &["--verify", "digest"])) },
    Command { name: "digest down", run: |scene| Box::pin(down(scene, &["--verify", "digest"])) },
    Command { name: "sync up", run: |scene| Box::pin(sync_up(scene, false)) },
    Command { name: "sync down", run: |scene| Box::pin(sync_down(scene, false)) },
    Command { name: "delete up", run: |scene| Box::pin(sync_up(scene, true)) },
    Command { name: "delete down", run: |scene| Box::pin(sync_down(scene, true)) },
    Command { name: "delete to", run: |scene| Box::pin(sync_between(scene, true)) },
    Command { name: "delete from", run: |scene| Box::pin(sync_between(scene, false)) },
    Command { name: "rm", run: |scene| Box::pin(rm(scene)) },
    Command { name: "mkdir", run: |scene| Box::pin(mkdir(scene)) },
    Command { name: "mv", run: |scene| Box::pin(carry(scene, "mv")) },
    Command { name: "cp there", run: |scene| Box::pin(carry(scene, "cp")) },
    Command { name: "ls", run: |scene| Box::pin(ls(scene)) },
    Command { name: "cat", run: |scene| Box::pin(cat(scene)) },
];

async fn up(scene: &Scene, options: &[&str]) -> (Outcome, String) {
    let wanted = scene.uploads();
    scene.keep("tree", &wanted);
    let said = scene.haul(&[&["cp", "-r", "tree", &scene.url("up")], options].concat()).await;
    let (before, count) = (Files::new(), Some(wanted.len() as u64));
    let mut found = scene.seen(&wanted);
    if scene.gives_wrongly && !options.is_empty() {
        found.values_mut().for_each(Vec::clear);
    }
    judge(&Truth { before: &before, wanted: &wanted, found: &found, count }, &said)
}

async fn down(scene: &Scene, options: &[&str]) -> (Outcome, String) {
    scene.serve(&scene.files);
    let said = scene.haul(&[&["cp", "-r", &scene.url("up"), "back"], options].concat()).await;
    let (before, count) = (Files::new(), Some(scene.files.len() as u64));
    judge(&Truth { before: &before, wanted: &scene.files, found: &scene.here("back"), count }, &said)
}

/// What somebody does to a tree between two runs of `sync`: edits, one of them of the same length, deletions, additions.
fn change(scene: &Scene, files: &Files) -> (Files, BTreeSet<String>) {
    let (mut later, mut touched) = (files.clone(), BTreeSet::new());
    for (number, name) in ["f0", "d0/f0", "d1/f1"].into_iter().enumerate() {
        let mut content = scene.content(100 + number);
        content.resize(files[name].len(), b'z');
        later.insert(name.into(), content);
        touched.insert(name.to_owned());
    }
    for number in 0..10 {
        let name = format!("d{}/new{number}", number % 3);
        later.insert(name.clone(), scene.content(110 + number));
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

async fn sync_up(scene: &Scene, deletes: bool) -> (Outcome, String) {
    let (first, url) = (scene.uploads(), scene.url("up"));
    let arguments: &[&str] = if deletes { &["sync", "tree", &url, "--delete"] } else { &["sync", "tree", &url] };
    scene.keep("tree", &first);
    let said = scene.run(arguments).await;
    let (before, count) = (Files::new(), Some(first.len() as u64));
    let begun = judge(&Truth { before: &before, wanted: &first, found: &scene.seen(&first), count }, &said);
    if begun.0 != Outcome::Right {
        return begun;
    }
    let (later, touched) = change(scene, &first);
    for name in &touched {
        scene.write("tree", name, &later[name], SystemTime::now() + Duration::from_secs(3));
    }
    for name in first.keys().filter(|name| !later.contains_key(*name)) {
        fs::remove_file(scene.path("tree").join(name)).expect("it is there");
    }
    fs::remove_dir(scene.path("tree/d5")).expect("it is empty");
    let (before, said) = (scene.seen(&first), scene.haul(arguments).await);
    let (wanted, count) = (mirror(&before, &later, deletes), Some(later.len() as u64));
    judge(&Truth { before: &before, wanted: &wanted, found: &scene.seen(&wanted), count }, &said)
}

async fn sync_down(scene: &Scene, deletes: bool) -> (Outcome, String) {
    let url = scene.url("up");
    let arguments: &[&str] = if deletes { &["sync", &url, "back", "--delete"] } else { &["sync", &url, "back"] };
    scene.serve(&scene.files);
    let said = scene.run(arguments).await;
    let (before, count) = (Files::new(), Some(scene.files.len() as u64));
    let begun = judge(&Truth { before: &before, wanted: &scene.files, found: &scene.here("back"), count }, &said);
    if begun.0 != Outcome::Right {
        return begun;
    }
    let (later, touched) = change(scene, &scene.files);
    // Later than the first run by the server's clock, and by whole seconds, which is what HTTP has.
    for name in &touched {
        scene.double.put_at(&format!("/up/{name}"), &later[name], 3);
    }
    for name in scene.files.keys().filter(|name| !later.contains_key(*name)) {
        scene.double.remove(&format!("/up/{name}"));
    }
    scene.double.remove("/up/d5");
    let (before, said) = (scene.here("back"), scene.haul(arguments).await);
    let (wanted, count) = (mirror(&before, &later, deletes), Some(later.len() as u64));
    judge(&Truth { before: &before, wanted: &wanted, found: &scene.here("back"), count }, &said)
}

/// From an honest server to this one, or from this one to an honest one, with `--delete`.
async fn sync_between(scene: &Scene, to: bool) -> (Outcome, String) {
    let (ours, theirs) = (scene.url("up"), scene.honest_url("up"));
    let (source, target) = if to { (&scene.honest, &scene.double) } else { (&scene.double, &scene.honest) };
    let arguments = if to { ["sync", &theirs, &ours, "--delete"] } else { ["sync", &ours, &theirs, "--delete"] };
    let first = if to { scene.uploads() } else { scene.files.clone() };
    let found = |wanted: &Files| if to { scene.seen(wanted) } else { scene.honestly("/up") };
    Scene::put_on(source, &first);
    let said = scene.run(&arguments).await;
    let (before, count) = (Files::new(), Some(first.len() as u64));
    let begun = judge(&Truth { before: &before, wanted: &first, found: &found(&first), count }, &said);
    if begun.0 != Outcome::Right {
        return begun;
    }
    let (later, touched) = change(scene, &first);
    for name in &touched {
        source.put_at(&format!("/up/{}", encoded(name)), &later[name], 3);
    }
    for name in first.keys().filter(|name| !later.contains_key(*name)) {
        source.remove(&format!("/up/{}", encoded(name)));
    }
    source.remove("/up/d5");
    target.put("/up/d0/extra", b"", Duration::from_hours(1));
    let (before, said) = (found(&first), scene.haul(&arguments).await);
    judge(&Truth { before: &before, wanted: &later, found: &found(&later), count: Some(later.len() as u64) }, &said)
}

async fn rm(scene: &Scene) -> (Outcome, String) {
    scene.serve(&scene.files);
    let names = (1..8).map(|number| format!("up/f{number}")).chain((1..6).map(|number| format!("up/d{number}")));
    let urls: Vec<_> = names.map(|name| scene.url(&name)).collect();
    let arguments: Vec<&str> = ["rm", "-r"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let said = scene.haul(&arguments).await;
    let mut wanted = scene.files.clone();
    wanted.retain(|name, _| name == "f0" || name.starts_with("d0/"));
    judge(&Truth { before: &scene.files, wanted: &wanted, found: &scene.there("/up"), count: None }, &said)
}

async fn mkdir(scene: &Scene) -> (Outcome, String) {
    scene.serve(&scene.files);
    let urls: Vec<_> = (0..12).map(|number| scene.url(&format!("up/n{number}"))).collect();
    let arguments: Vec<&str> = ["mkdir"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let folders = || -> Files {
        let made = scene.double.folders("/up/n").into_iter();
        made.map(|path| (path.trim_start_matches("/up/").to_owned(), Vec::new())).collect()
    };
    let said = scene.haul(&arguments).await;
    let wanted = (0..12).map(|number| (format!("n{number}"), Vec::new())).collect();
    judge(&Truth { before: &Files::new(), wanted: &wanted, found: &folders(), count: None }, &said)
}

/// Into a folder on the server.
async fn carry(scene: &Scene, verb: &str) -> (Outcome, String) {
    scene.serve(&scene.files);
    scene.double.put("/up/into/none", b"", Duration::ZERO);
    scene.double.remove("/up/into/none");
    let urls: Vec<_> = (0..8).map(|number| scene.url(&format!("up/f{number}"))).collect();
    let into = scene.url("up/into/");
    let arguments: Vec<&str> =
        [verb].into_iter().chain(urls.iter().map(String::as_str)).chain([into.as_str()]).collect();
    let said = scene.haul(&arguments).await;
    // A file is right if it is where it should be, and nowhere else if it was moved.
    let wanted: Files = scene
        .files
        .iter()
        .filter(|(name, _)| !name.contains('/'))
        .map(|(name, content)| (name.clone(), content.clone()))
        .collect();
    let mut found = scene.there("/up/into");
    if verb == "mv" {
        let left = scene.there("/up");
        found.retain(|name, _| !left.contains_key(name));
    }
    judge(&Truth { before: &Files::new(), wanted: &wanted, found: &found, count: None }, &said)
}

async fn ls(scene: &Scene) -> (Outcome, String) {
    scene.serve(&scene.files);
    let said = scene.haul(&["ls", "-R", &scene.url("up/")]).await;
    let entries = said.json["entries"].as_array().into_iter().flatten();
    let files = entries.filter(|entry| entry["kind"] == "file");
    let shown: Vec<(String, u64)> = files
        .map(|entry| {
            (entry["path"].as_str().unwrap_or_default().replace("/up/", ""), entry["bytes"].as_u64().unwrap_or(0))
        })
        .collect();
    let wanted: Vec<_> = scene.files.iter().map(|(name, content)| (name.clone(), content.len() as u64)).collect();
    let mut sorted = shown.clone();
    sorted.sort();
    told(&said, sorted == wanted, shown.is_empty(), sorted.iter().all(|file| wanted.contains(file)))
}

async fn cat(scene: &Scene) -> (Outcome, String) {
    scene.serve(&scene.files);
    let urls: Vec<_> = scene.files.keys().take(5).map(|name| scene.url(&format!("up/{name}"))).collect();
    let arguments: Vec<&str> = ["cat"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let said = scene.haul(&arguments).await;
    let wanted: Vec<u8> = scene.files.values().take(5).flatten().copied().collect();
    let part = wanted.starts_with(&said.stdout) || {
        // What failed is left out, or cut off.
        let kept = scene.files.values().take(5);
        let mut rest = &said.stdout[..];
        for content in kept {
            let common = content.iter().zip(rest).take_while(|(one, other)| one == other).count();
            rest = &rest[common..];
        }
        rest.is_empty()
    };
    told(&said, said.stdout == wanted && !scene.gives_wrongly, said.stdout.is_empty(), part)
}

/// What a command comes to that shows something.
fn told(said: &Said, is_right: bool, is_nothing: bool, is_part: bool) -> (Outcome, String) {
    let outcome = match (said.is_success, is_right) {
        (true, true) => Outcome::Right,
        (false, true) => Outcome::Accused,
        (false, false) if is_nothing => Outcome::Refused,
        (false, false) if is_part && !said.stderr.is_empty() => Outcome::Named,
        _ => Outcome::Unseen,
    };
    (outcome, format!("success {}: {}", said.is_success, said.stderr))
}
