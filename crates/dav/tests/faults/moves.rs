//! Moves lose nothing: whatever fails, and whenever they are killed, each file is whole on one side at least.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use dav::{
    Dav, Error,
    transfer::{AlreadyCopied, Event, LocalSources, Options, RemoteSources, Summary, Watch},
};
use haul_http::Pipelining;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use servers::{Double, Fault};
use tokio::time::timeout;

use crate::{
    common::{Tree, client, down_watched, folder, mirror, noise, path, read, up_watched, write},
    random_faults::fault,
};

/// The number of moves; `PROPTEST_CASES` overrides it.
const MOVES: u32 = 20;

#[derive(Debug)]
struct Case {
    tree: Tree,
    /// By request number.
    faults: BTreeMap<u64, Fault>,
    pipelining: Pipelining,
    /// When the first attempt is killed.
    killed: Duration,
    upwards: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let size = prop_oneof![4 => 0_usize..3000, 1 => 0_usize..200_000];
    let tree = prop::collection::btree_map("[a-c]/[a-z]{1,3}|[a-z]{1,3}x|d/e/[a-f]{1,2}y", size, 1..20);
    let tree = tree.prop_map(|sizes| {
        sizes.into_iter().enumerate().map(|(number, (name, size))| (name, noise(number + 1, size))).collect()
    });
    let pipelining = prop::sample::select(vec![Pipelining::Off, Pipelining::Safe, Pipelining::Aggressive]);
    let killed = prop_oneof![Just(Duration::from_mins(1)), (0_u64..400).prop_map(Duration::from_millis)];
    let faults = prop::collection::btree_map(0_u64..120, fault(), 0..8);
    (tree, faults, pipelining, killed, any::<bool>()).prop_map(|(tree, faults, pipelining, killed, upwards)| Case {
        tree,
        faults,
        pipelining,
        killed,
        upwards,
    })
}

/// Remembers what has been copied.
fn remembering(copied: &AlreadyCopied) -> Watch {
    let copied = copied.clone();
    Arc::new(move |event: Event<'_>| {
        if let Event::Done { path, .. } = event {
            copied.add(path);
        }
    })
}

/// Copies, and then removes the sources, as `haul mv` does. Returns what failed.
async fn move_tree(dav: &Dav, here: &Path, upwards: bool, options: &Options) -> Result<Vec<String>, Error> {
    let copied = AlreadyCopied::new();
    let name = |(path, why): (String, Error)| format!("{path}: {why}");
    let all =
        |summary: Summary, stays: Vec<(String, Error)>| summary.failed.into_iter().chain(stays).map(name).collect();
    if upwards {
        let before = LocalSources::look(&[here.to_owned()])?;
        let summary = up_watched(dav, here, options, &remembering(&copied)).await?;
        let stays = before.remove(&copied, summary.failed.is_empty());
        return Ok(all(summary, stays));
    }
    let before = RemoteSources::look(dav, &[path("/up/")]).await?;
    let summary = down_watched(dav, here, options, &remembering(&copied)).await?;
    RemoteSources::flush(here)?;
    let stays = before.remove(dav, &copied, summary.failed.is_empty()).await;
    Ok(all(summary, stays))
}

fn put(double: &Double, tree: &Tree) {
    for (name, content) in tree {
        double.put(&format!("/up/{name}"), content, Duration::from_hours(1));
    }
}

async fn play(case: &Case) {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let dav = |quick: bool| {
        client(double.address, |settings| {
            settings.pipelining = case.pipelining;
            if quick {
                settings.timeouts.pipelined = Duration::from_millis(600);
                settings.timeouts.first_byte = Duration::from_millis(1200);
            }
        })
    };
    if case.upwards {
        write(&here, &case.tree);
    } else {
        put(&double, &case.tree);
    }
    let faults = case.faults.clone();
    double.script(move |_: &str, _: &str, number: u64| faults.get(&number).cloned());
    let _ = timeout(case.killed, move_tree(&dav(true), &here, case.upwards, &mirror())).await;
    double.clear_faults();
    let (local, remote) = (read(&here), double.files("/up"));
    for (name, content) in &case.tree {
        let (source, target) = if case.upwards { (&local, &remote) } else { (&remote, &local) };
        let is_kept = source.get(name) == Some(content) || target.get(name) == Some(content);
        assert!(is_kept, "{name} is lost: {:?}, {:?}\n{}", source.get(name), target.get(name), double.log());
    }
    // The same command again does the rest.
    let nothing_left = if case.upwards { local.is_empty() } else { remote.is_empty() };
    if !nothing_left {
        let failed = move_tree(&dav(false), &here, case.upwards, &mirror()).await.unwrap();
        assert_eq!(failed, Vec::<String>::new(), "{}", double.log());
    }
    let (local, remote) = (read(&here), double.files("/up"));
    let (source, target) = if case.upwards { (local, remote) } else { (remote, local) };
    // What the killed attempt was writing may be beside the files.
    let whole = case.tree.iter().all(|(name, content)| target.get(name) == Some(content));
    assert!(whole && source.is_empty(), "{:?}\n{}", source.keys(), double.log());
}

#[test]
fn killed_and_failing_moves_keep_each_file_on_one_side() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let config =
        Config { cases: wanted.unwrap_or(MOVES), failure_persistence: None, max_shrink_iters: 40, ..Config::default() };
    let result = TestRunner::new(config).run(&cases(), |case| {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(play(&case))));
        prop_assert!(played.is_ok(), "see the panic above");
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test]
async fn local_file_changed_after_its_upload_stays() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let tree: Tree = [("a", "1"), ("b", "2")].map(|(name, text)| (name.to_owned(), text.into())).into();
    write(&here, &tree);
    let copied = AlreadyCopied::new();
    let before = LocalSources::look(std::slice::from_ref(&here)).unwrap();
    up_watched(&client(double.address, |_| ()), &here, &mirror(), &remembering(&copied)).await.unwrap();
    // Of the same length.
    fs::write(here.join("a"), "3").unwrap();
    let stays = before.remove(&copied, true);
    assert!(stays.len() == 1 && stays[0].1.to_string().contains("has changed since"), "{stays:?}");
    assert_eq!(read(&here).into_iter().collect::<Vec<_>>(), [("a".to_owned(), b"3".to_vec())]);
}

#[tokio::test]
async fn remote_file_changed_or_added_after_the_download_stays() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let dav = client(double.address, |_| ());
    let tree: Tree = [("a", "1"), ("s/b", "2")].map(|(name, text)| (name.to_owned(), text.into())).into();
    put(&double, &tree);
    let copied = AlreadyCopied::new();
    let before = RemoteSources::look(&dav, &[path("/up/")]).await.unwrap();
    down_watched(&dav, &here, &mirror(), &remembering(&copied)).await.unwrap();
    double.put("/up/a", b"3", Duration::ZERO);
    double.put("/up/s/new", b"4", Duration::ZERO);
    let stays = before.remove(&dav, &copied, true).await;
    assert!(stays.len() == 1 && stays[0].1.to_string().contains("has changed since"), "{stays:?}");
    let left: Vec<_> = double.files("/up").into_keys().collect();
    assert_eq!(left, ["a", "s/new"]);
    // Nothing failed this time, but a file is there that was never copied.
    let copied = AlreadyCopied::new();
    let before = RemoteSources::look(&dav, &[path("/up/s/")]).await.unwrap();
    let stays = before.remove(&dav, &copied, true).await;
    assert!(stays.len() == 1 && stays[0].1.to_string().contains("was not moved"), "{stays:?}");
    assert_eq!(double.files("/up").len(), 2);
}
