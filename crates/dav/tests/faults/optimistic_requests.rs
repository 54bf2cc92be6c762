//! Files named one by one, whose transfer starts before the first lookup has returned.

use std::{collections::BTreeSet, fs, path::PathBuf, time::Duration};

use dav::{
    Error,
    transfer::{Options, Summary, Verify, download, upload},
};
use tokio::{sync::Notify, time::timeout};

use super::{on_each, pairs};
use servers::{Double, Fault};

use crate::common::{PATIENCE, Tree, client, deaf, folder, noise, path, read};

const MIB: usize = 1024 * 1024;

async fn fetch(double: &Double, to: &std::path::Path) -> Result<Summary, Error> {
    let (dav, sources, options) = (client(double.address, |_| ()), [path("/up/file")], Options::default());
    let stop = Notify::new();
    timeout(PATIENCE, download(&dav, &sources, to, &options, &stop, &deaf())).await.expect("the download never ends")
}

async fn send(double: &Double, sources: &[PathBuf]) -> Result<Summary, Error> {
    send_with(&Options::default(), double, sources).await
}

async fn send_with(options: &Options, double: &Double, sources: &[PathBuf]) -> Result<Summary, Error> {
    let (dav, to, stop) = (client(double.address, |_| ()), path("/up/"), Notify::new());
    timeout(PATIENCE, upload(&dav, sources, &to, options, &stop, &deaf())).await.expect("the upload never ends")
}

async fn with_file(content: &[u8]) -> Double {
    let double = Double::start().await;
    double.put("/up/file", content, Duration::from_hours(1));
    double
}

#[tokio::test]
async fn file_of_any_length_is_downloaded_whole() {
    on_each([0, 1, 1000, MIB - 1, MIB, MIB + 1, 5 * MIB, 5 * MIB + 1, 9 * MIB], async |length| {
        let (content, (_kept, here)) = (noise(length, length), folder());
        let double = with_file(&content).await;
        let outcome = fetch(&double, &here.join("copy")).await.unwrap();
        assert!(outcome.failed.is_empty(), "{length}: {:?}", outcome.failed);
        assert_eq!((outcome.files, outcome.bytes), (1, length as u64));
        assert!(read(&here) == Tree::from([("copy".into(), content)]), "{length}");
    })
    .await;
}

#[tokio::test]
async fn temporary_faults_lose_no_prefetched_range() {
    let faults = [
        Fault::Reset,
        Fault::ResetAfterProcessing,
        Fault::TruncateResponse,
        Fault::TruncateWithoutLength,
        Fault::OmitResponse,
        Fault::SwapResponses,
        Fault::EndlessHeader,
        Fault::Silence,
        Fault::Respond(503, "retry-after: 1\r\n"),
        // The server sends ranges only after a listing.
        Fault::Respond(416, ""),
        Fault::Respond(403, ""),
    ];
    on_each(pairs(faults, &[1000, 9 * MIB]), async |(fault, length)| {
        let (content, (_kept, here)) = (noise(7, length), folder());
        let double = with_file(&content).await;
        let (spoilt, mut gets) = (fault.clone(), 0);
        let hits: &[u32] = if matches!(fault, Fault::Respond(400..500, _)) { &[1] } else { &[1, 3] };
        double.script(move |method, _, _| {
            gets += u32::from(method == "GET");
            (method == "GET" && hits.contains(&gets)).then(|| spoilt.clone())
        });
        let outcome = fetch(&double, &here.join("copy")).await.unwrap();
        assert!(outcome.failed.is_empty(), "{fault:?}, {length}: {:?}", outcome.failed);
        assert!(read(&here) == Tree::from([("copy".into(), content)]), "{fault:?}, {length}");
    })
    .await;
}

#[tokio::test]
async fn two_versions_of_a_file_are_never_mixed() {
    on_each(pairs(0..12, &[1000, 3 * MIB, 9 * MIB]), async |(which, length)| {
        let (older, (_kept, here)) = (noise(1, length), folder());
        let double = with_file(&older).await;
        double.script(move |_, _, count| (count == which).then_some(Fault::OverwrittenByOther("/up/file")));
        let outcome = fetch(&double, &here.join("copy")).await.unwrap();
        let (newer, found) = (double.files("/up").remove("file"), read(&here).remove("copy"));
        if outcome.failed.is_empty() {
            assert!(found.as_ref() == Some(&older) || found == newer, "request {which}, {length}: neither version");
        } else {
            assert_eq!(found, None, "request {which}, {length}");
        }
    })
    .await;
}

#[tokio::test]
async fn download_of_a_folder_or_missing_file_leaves_nothing_behind() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.put("/up/file/within", b"content", Duration::from_hours(1));
    let told = fetch(&double, &here.join("copy")).await.unwrap_err().to_string();
    assert!(told.contains("it is a folder"), "{told}");
    double.remove("/up/file");
    let told = fetch(&double, &here.join("copy")).await.unwrap_err().to_string();
    assert!(told.contains("not found on the server"), "{told}");
    assert!(read(&here).is_empty());
}

/// Uploads files, some of which exist on the server with other content; checks the server's files.
async fn through(
    sizes: &[usize],
    there: &[usize],
    fault: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static,
) {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.put("/up/kept", b"kept", Duration::from_hours(2));
    let name = |number: usize| format!("file{number}");
    let wanted: Tree = sizes.iter().enumerate().map(|(number, size)| (name(number), noise(number, *size))).collect();
    for number in there {
        double.put(&format!("/up/{}", name(*number)), b"older", Duration::from_hours(2));
    }
    let sources: Vec<PathBuf> = wanted.keys().map(|name| here.join(name)).collect();
    for (name, content) in &wanted {
        fs::write(here.join(name), content).unwrap();
    }
    double.script(fault);
    let outcome = send(&double, &sources).await.unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    assert_eq!(outcome.files, sizes.len() as u64);
    let mut found = double.files("/up");
    assert_eq!(found.remove("kept").as_deref(), Some(&b"kept"[..]));
    assert!(found == wanted);
}

#[tokio::test]
async fn existing_files_are_replaced_and_new_ones_created() {
    on_each([vec![], vec![0], vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]], async |there| {
        through(&[10; 1], &there[..there.len().min(1)], |_, _, _| None).await;
        through(&[1000; 20], &there, |_, _, _| None).await;
        through(&[9 * MIB, 9 * MIB, 100], &there[..there.len().min(2)], |_, _, _| None).await;
    })
    .await;
}

#[tokio::test]
async fn temporary_faults_lose_no_optimistic_upload() {
    let faults = [
        Fault::Reset,
        Fault::ResetAfterProcessing,
        Fault::OmitResponse,
        Fault::SwapResponses,
        Fault::Respond(503, "retry-after: 1\r\n"),
    ];
    on_each(pairs(faults, &["PUT", "PROPFIND"]), async |(fault, method)| {
        println!("{fault:?} {method}");
        let mut seen = BTreeSet::new();
        let hit = move |asked: &str, path: &str, count: u64| {
            (asked == method && count < 12 && seen.insert(path.to_owned())).then(|| fault.clone())
        };
        through(&[1000; 20], &[1, 12], hit).await;
    })
    .await;
}

#[tokio::test]
async fn arrived_optimistic_uploads_do_not_wait_for_lookups() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.put("/up/kept", b"kept", Duration::from_hours(2));
    let sources = [1, 2, 3].map(|number| here.join(format!("file{number}")));
    for local in &sources {
        fs::write(local, b"a new file").unwrap();
    }
    double.script(|method, path, _| (method == "PROPFIND" && path.contains("/file")).then_some(Fault::Silence));
    let options = Options { verify: Verify::None, ..Options::default() };
    let outcome = send_with(&options, &double, &sources).await.unwrap();
    assert!(outcome.failed.is_empty() && outcome.files == 3, "{outcome:?}");
    assert_eq!(double.files("/up").len(), 4);
}

#[tokio::test]
async fn folder_with_the_name_of_an_optimistic_file_is_reported() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.put("/up/file/within", b"content", Duration::from_hours(1));
    fs::write(here.join("file"), b"a file").unwrap();
    let outcome = send(&double, &[here.join("file")]).await.unwrap();
    assert!(outcome.failed[0].1.to_string().contains("a folder on the server"), "{:?}", outcome.failed);
    assert_eq!(double.files("/up").len(), 1);
}
