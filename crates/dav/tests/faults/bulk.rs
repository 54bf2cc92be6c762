//! Bulk uploads to a simulated Nextcloud.

use std::sync::{Arc, Mutex};

use dav::{
    LockPolicy,
    transfer::{Options, Verify},
};
use servers::{Double, Fault, ServerProfile, nextcloud::FILES};
use tokio::sync::Notify;

use crate::common::{Failed, Tree, check, client, deaf, folder, mirror, noise, path, rest, up_to, write};

/// Three folders of small files, and some with other sizes and odd names.
fn lay_out(root: &std::path::Path) -> Tree {
    let mut tree = Tree::new();
    for folder in ["", "a/", "a/b c/"] {
        for number in 0..40 {
            tree.insert(format!("{folder}small {number} ü"), noise(number + folder.len() * 100, number * 37));
        }
        tree.insert(format!("{folder}larger"), noise(7, 300_000));
        tree.insert(format!("{folder}ends in a space "), noise(8, 100));
    }
    write(root, &tree);
    tree
}

fn place() -> String {
    format!("{FILES}/up")
}

/// Names as in requests.
fn encoded(tree: &Tree) -> Tree {
    let target = |name: &str| {
        let parts = name.split('/').map(str::as_bytes);
        let path = parts.fold(dav::RemotePath::root(), |to, part| to.as_folder(true).join(part, false).unwrap());
        path.target().trim_start_matches('/').to_owned()
    };
    tree.iter().map(|(name, content)| (target(name), content.clone())).collect()
}

async fn up(double: &Double, here: &std::path::Path, options: &Options) -> Result<dav::transfer::Summary, dav::Error> {
    up_to(&client(double.address, |_| ()), here, &format!("{}/", place()), options, &deaf()).await
}

/// Uploads with faults, which lose no file; a second run has nothing to do.
async fn through(options: &Options, script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static) {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
    let wanted = encoded(&lay_out(&here));
    double.script(script);
    let first = up(&double, &here, options).await.unwrap();
    assert!(first.failed.is_empty(), "{:?}", first.failed);
    assert_eq!(first.files, wanted.len() as u64);
    assert!(double.files(FILES) == wanted.iter().map(|(name, all)| (format!("up/{name}"), all.clone())).collect());
    double.clear_faults();
    let second = up(&double, &here, &rest(options)).await.unwrap();
    assert_eq!((second.files, second.skipped), (0, wanted.len() as u64));
}

#[tokio::test]
async fn small_files_of_new_folders_are_bulk_uploaded() {
    for options in
        [mirror(), Options { verify: Verify::Digest, ..mirror() }, Options { verify: Verify::None, ..mirror() }]
    {
        let asked = Arc::new(Mutex::new((0, 0)));
        let counted = asked.clone();
        through(&options, move |method, _, _| {
            let mut counted = counted.lock().unwrap();
            (counted.0, counted.1) = (counted.0 + u32::from(method == "POST"), counted.1 + u32::from(method == "PUT"));
            None
        })
        .await;
        // Larger files, and names that the server may change, are uploaded one by one.
        assert_eq!(*asked.lock().unwrap(), (3, 6), "{:?}", options.verify);
    }
    // With locks, bulk upload would save nothing.
    let locks = Options { lock: LockPolicy::Always, ..mirror() };
    through(&locks, |method, _, _| (method == "POST").then(|| panic!("not with locks"))).await;
}

#[tokio::test]
async fn failed_bulk_upload_falls_back_to_single_puts() {
    for fault in [
        Fault::Reset,
        Fault::ResetAfterProcessing,
        Fault::TruncateResponse,
        Fault::Silence,
        Fault::EndlessBody,
        Fault::Respond(500, ""),
        Fault::RespondEarly(413),
        // A success without any file in it.
        Fault::Respond(200, ""),
    ] {
        println!("{fault:?}");
        let spoilt = fault.clone();
        through(&mirror(), move |method, _, _| (method == "POST").then(|| spoilt.clone())).await;
    }
    for (method, fault) in [
        ("MOVE", Fault::Respond(403, "")),
        ("MOVE", Fault::ResetAfterProcessing),
        ("MOVE", Fault::Reset),
        ("MKCOL", Fault::ResetAfterProcessing),
    ] {
        println!("{method} {fault:?}");
        let (spoilt, mut count) = (fault.clone(), 0);
        through(&mirror(), move |asked, path, _| {
            let hit = asked == method && path.ends_with(".upload");
            count += u32::from(hit);
            (hit && count == 1).then(|| spoilt.clone())
        })
        .await;
    }
}

#[tokio::test]
async fn folder_created_by_another_writer_keeps_its_files() {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
    let wanted = encoded(&lay_out(&here));
    let theirs: &str = format!("{}/a/theirs", place()).leak();
    let mut overtaken = false;
    double.script(move |method, path, _| {
        let hit = !overtaken && method == "MOVE" && path.contains("/.a.");
        overtaken |= hit;
        hit.then_some(Fault::OverwrittenByOther(theirs))
    });
    let first = up(&double, &here, &mirror()).await;
    let mut there = double.files(&place());
    assert!(there.remove("a/theirs") == Some(vec![b'T'; 1000]));
    assert_eq!(check(&wanted, &Tree::new(), &there, &first), Failed::new());
}

#[tokio::test]
async fn refusal_of_one_file_is_reported_with_its_reason() {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
    let wanted = encoded(&lay_out(&here));
    double.script(|method, path, _| match method {
        "POST" => Some(Fault::Respond(507, "")),
        "PUT" if path.ends_with("/a/small%207%20%C3%BC") => Some(Fault::Respond(507, "")),
        _ => None,
    });
    let first = up(&double, &here, &mirror()).await.unwrap();
    assert_eq!((first.files, first.failed.len()), (wanted.len() as u64 - 1, 1));
    assert!(first.failed[0].0.ends_with("a/small 7 ü") && first.failed[0].1.to_string().contains("no space left"));
}

#[tokio::test]
async fn interrupt_leaves_no_temporary_folder() {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
    let wanted = encoded(&lay_out(&here));
    let stop = Arc::new(Notify::new());
    let stopping = stop.clone();
    double.script(move |method, _, _| {
        if method == "POST" {
            stopping.notify_one();
        }
        None
    });
    let to = path(&format!("{}/", place()));
    let dav = client(double.address, |_| ());
    dav::transfer::upload(&dav, std::slice::from_ref(&here), &to, &mirror(), &stop, &deaf()).await.unwrap();
    let there = double.files(FILES);
    assert!(there.iter().all(|(name, all)| name.strip_prefix("up/").is_some_and(|name| wanted.get(name) == Some(all))));
    assert!(double.folders(FILES).iter().all(|name| !name.contains(".upload")), "{:?}", double.folders(FILES));
    double.clear_faults();
    assert!(up(&double, &here, &rest(&mirror())).await.unwrap().failed.is_empty());
    assert!(double.files(&place()) == wanted);
}
