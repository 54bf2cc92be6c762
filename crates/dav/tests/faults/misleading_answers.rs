//! Responses with a success status whose content reports a failure or another resource.

use std::{fs, time::Duration};

use dav::{If, Precondition, PropertySet, transfer::Options};
use servers::{Double, Fault};

use crate::common::{client, down, folder, mirror, noise, path, read, rest, unverified, up};

const ITSELF: &str = "<response><href>/up/</href><propstat><prop><resourcetype><collection/></resourcetype></prop>\
                      <status>HTTP/1.1 200 OK</status></propstat></response>";

fn multistatus(responses: &str) -> Fault {
    Fault::RespondWithBody(207, format!("<multistatus xmlns=\"DAV:\">{responses}</multistatus>").leak())
}

fn file(href: &str) -> String {
    format!(
        "<response><href>{href}</href><propstat><prop><getcontentlength>1000</getcontentlength><resourcetype/>\
         <getlastmodified>Mon, 23 Nov 2099 01:00:00 GMT</getlastmodified></prop><status>HTTP/1.1 200 OK</status>\
         </propstat></response>"
    )
}

fn refused(href: &str, status: u16) -> String {
    format!("<response><href>{href}</href><status>HTTP/1.1 {status} No</status></response>")
}

#[tokio::test]
async fn truncated_listing_deletes_nothing() {
    let not_whole = [
        refused("/up/", 507),
        refused("/up/", 403),
        String::new(),
        format!("{ITSELF}{}", refused("/up/precious", 403)),
        format!("{ITSELF}{}", file("/up/folder/precious")),
        // The folder's own entry, with the truncation, comes last.
        format!("{}{}", file("/up/kept"), refused("/up/", 507)),
    ];
    for said in not_whole {
        let (double, (_kept, here)) = (Double::start().await, folder());
        double.put("/up/kept", &noise(1, 1000), Duration::from_hours(1));
        double.put("/up/precious", b"precious", Duration::from_hours(1));
        for name in ["kept", "precious"] {
            fs::write(here.join(name), name).unwrap();
        }
        let (answer, options) = (multistatus(&said), Options { delete: true, ..rest(&mirror()) });
        double.script(move |method, path, _| (method == "PROPFIND" && path == "/up").then(|| answer.clone()));
        let outcome = down(&client(double.address, |_| ()), &here, &options).await.unwrap();
        assert!(!outcome.failed.is_empty() && outcome.deleted == 0, "{said}: {outcome:?}");
        assert_eq!(read(&here).len(), 2, "{said}");
    }
}

#[tokio::test]
async fn lookup_response_about_a_nested_file_is_ignored() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.put("/up/below/file", &noise(1, 1000), Duration::ZERO);
    fs::write(here.join("file"), noise(2, 1000)).unwrap();
    let answer = multistatus(&format!("{ITSELF}{}", file("/up/below/file")));
    // The first lookup, not the verification.
    double.script(move |method, path, count| {
        (method == "PROPFIND" && path == "/up" && count < 3).then(|| answer.clone())
    });
    let outcome = up(&client(double.address, |_| ()), &here, &rest(&mirror())).await.unwrap();
    assert!(outcome.failed.is_empty() && outcome.files == 1, "{outcome:?}");
    assert!(double.files("/up")["file"] == noise(2, 1000));
}

#[tokio::test]
async fn put_answered_with_304_is_not_done() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    double.put("/up/kept", b"kept", Duration::from_hours(1));
    fs::write(here.join("file"), b"content").unwrap();
    double.script(|method, _, _| (method == "PUT").then_some(Fault::RespondWithBody(304, "")));
    let outcome = up(&client(double.address, |_| ()), &here, &unverified()).await.unwrap();
    assert!(outcome.files == 0 && outcome.failed.len() == 1, "{outcome:?}");
}

#[tokio::test]
async fn multistatus_failure_of_another_path_is_a_failure() {
    let double = Double::start().await;
    double.put("/up/folder/file", b"kept", Duration::from_hours(1));
    let dav = client(double.address, |_| ());
    let answer = multistatus(&refused("/internal/folder/file", 423));
    double.script(move |_, _, _| Some(answer.clone()));
    let folder = path("/up/folder/");
    let told = dav.delete(&folder, &Precondition::None, &If::default()).await.unwrap_err().to_string();
    assert!(told.contains("/internal/folder/file"), "{told}");
    assert!(dav.rename(&folder, &path("/up/other/"), false, &If::default()).await.is_err());
    assert!(dav.copy(&folder, &path("/up/other/"), false, &If::default()).await.is_err());
}

#[tokio::test]
async fn lookup_response_about_another_path_is_ignored() {
    let double = Double::start().await;
    let dav = client(double.address, |_| ());
    let looks = async |said: &str| {
        let answer = multistatus(said);
        double.script(move |_, _, _| Some(answer.clone()));
        dav.stat(&path("/up"), PropertySet::LISTING).await
    };
    assert_eq!(looks(&refused("/up", 404)).await.unwrap(), None);
    assert!(looks(&refused("/up", 403)).await.is_err());
    let found = looks(&format!("{}{ITSELF}", file("/up/first"))).await.unwrap().unwrap();
    assert!(found.path.is_folder() && found.path.same_place(&path("/up")));
}
