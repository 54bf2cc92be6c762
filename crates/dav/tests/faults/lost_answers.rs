//! Requests that took effect but whose responses were lost: a lookup checks them before an error is reported.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use dav::{Confirmed, Dav, ETag, Error, If, Precondition, PropertySet, Setting};
use haul_http::{
    Body, Client, Options, Origin, Pipelining, Settings,
    auth::{Authenticator, Clear, Credential, Credentials, Netrc},
};
use http::HeaderMap;
use servers::{DigestAuth, Double, Fault};

use crate::{
    common::{client, folder, lay_out, mirror, noise, path, rest, up},
    on_each,
};

/// What is asked for, and the fault that its method meets.
#[derive(Debug, Clone, Copy)]
enum Verb {
    DeleteFile,
    DeleteFolder,
    MakeFolder,
    CopyFile,
    CopyFolder,
    MoveFile,
    MoveFolder,
    SetProperties,
    Unlock,
}

use Verb::*;

const VERBS: [Verb; 9] =
    [DeleteFile, DeleteFolder, MakeFolder, CopyFile, CopyFolder, MoveFile, MoveFolder, SetProperties, Unlock];

impl Verb {
    fn method(self) -> &'static str {
        match self {
            DeleteFile | DeleteFolder => "DELETE",
            MakeFolder => "MKCOL",
            CopyFile | CopyFolder => "COPY",
            MoveFile | MoveFolder => "MOVE",
            SetProperties => "PROPPATCH",
            Unlock => "UNLOCK",
        }
    }

    async fn send(self, dav: &Dav, token: &dav::LockToken) -> Result<Confirmed, Error> {
        let none = If::default();
        let (file, folder) = (path("/up/file"), path("/up/folder/"));
        match self {
            DeleteFile => dav.delete(&file, &Precondition::None, &none).await,
            DeleteFolder => dav.delete(&folder, &Precondition::None, &none).await,
            MakeFolder => dav.mkcol(&path("/up/new/")).await.map(|made| made.expect("it is new")),
            CopyFile => dav.copy(&file, &path("/up/copy"), false, &none).await,
            CopyFolder => dav.copy(&folder, &path("/up/copy/"), false, &none).await,
            MoveFile => dav.rename(&file, &path("/up/moved"), false, &none).await,
            MoveFolder => dav.rename(&folder, &path("/up/moved/"), false, &none).await,
            SetProperties => {
                let settings = [Setting::Executable(true), Setting::Attributes(0x20)];
                dav.proppatch(&file, &settings, &none).await
            }
            Unlock => dav.unlock(&path("/up/locked"), token).await,
        }
    }
}

async fn furnished() -> (Double, Dav, dav::LockToken) {
    let double = Double::start().await;
    for name in ["file", "folder/a", "folder/b/c", "locked"] {
        double.put(&format!("/up/{name}"), &noise(name.len(), 1000), Duration::from_hours(1));
    }
    let dav = client(double.address, |_| ());
    let lock = dav.lock(&path("/up/locked"), "ours", Duration::from_mins(1)).await.unwrap();
    (double, dav, lock.token)
}

/// The responses to all attempts are lost, or only the first.
#[tokio::test]
async fn request_with_lost_response_is_done_if_a_lookup_shows_it() {
    on_each(VERBS.into_iter().flat_map(|verb| [(verb, 1), (verb, u32::MAX)]), async |(verb, lost)| {
        let (double, dav, token) = furnished().await;
        let method = verb.method();
        let count = AtomicU32::new(0);
        double.script(move |asked, _, _| {
            (asked == method && count.fetch_add(1, Ordering::Relaxed) < lost).then_some(Fault::ResetAfterProcessing)
        });
        let done = verb.send(&dav, &token).await;
        let done = done.unwrap_or_else(|error| panic!("{verb:?}, {lost} answers lost: {error}"));
        assert!(done == Confirmed::ByLookup || lost == 1, "{verb:?}");
    })
    .await;
}

#[tokio::test]
async fn request_without_effect_fails_with_what_the_lookup_found() {
    on_each(VERBS, async |verb| {
        let (double, dav, token) = furnished().await;
        let method = verb.method();
        double.script(move |asked, _, _| (asked == method).then_some(Fault::Reset));
        let told = verb.send(&dav, &token).await.unwrap_err().to_string();
        assert!(told.starts_with(method) && told.contains("; a check shows: "), "{verb:?}: {told}");
        assert!(!told.contains("spelling") && !told.contains("somebody else"), "{verb:?}: {told}");
    })
    .await;
}

#[tokio::test]
async fn copy_is_not_confirmed_by_a_different_target() {
    let (double, dav, _) = furnished().await;
    double.put("/up/copy", &noise(7, 1000), Duration::from_hours(1));
    let mut first = true;
    double.script(move |asked, _, _| {
        (asked == "COPY" && std::mem::take(&mut first)).then_some(Fault::ResetAfterProcessing)
    });
    let error = dav.copy(&path("/up/file"), &path("/up/copy"), false, &If::default()).await.unwrap_err();
    assert!(error.is(412), "{error}");
    assert!(double.files("/up")["copy"] == noise(7, 1000));
}

#[tokio::test]
async fn gateway_timeout_is_checked_by_a_lookup() {
    on_each([DeleteFile, MakeFolder, CopyFile, MoveFile], async |verb| {
        let (double, dav, token) = furnished().await;
        // The server behind the gateway has done it.
        assert!(verb.send(&dav, &token).await.is_ok());
        let method = verb.method();
        double.script(move |asked, _, _| (asked == method).then_some(Fault::Respond(504, "retry-after: 0\r\n")));
        let done = verb.send(&dav, &token).await.unwrap_or_else(|error| panic!("{verb:?}: {error}"));
        assert_eq!(done, Confirmed::ByLookup);
    })
    .await;
}

/// Uploads with each precondition.
#[tokio::test]
async fn upload_with_lost_responses_is_done_if_its_content_is_there() {
    on_each(
        [Precondition::None, Precondition::Absent, Precondition::Unchanged(ETag::parse("\"v1\"").unwrap())],
        async |guard| {
            let double = Double::start().await;
            let name = if guard == Precondition::Absent { "/new" } else { "/file" };
            double.put("/file", b"older", Duration::from_hours(1));
            let dav = client(double.address, |_| ());
            double.script(|asked, _, _| (asked == "PUT").then_some(Fault::ResetAfterProcessing));
            let content = noise(3, 5000);
            let put = async || {
                let body = Body::from(content.clone());
                dav.put(&path(name), body, HeaderMap::new(), &guard, &If::default(), Options::default()).await
            };
            put().await.unwrap_or_else(|error| panic!("{guard:?}: {error}"));
            assert!(double.files("")[&name[1..]] == content);
            double.script(|asked, _, _| (asked == "PUT").then_some(Fault::Reset));
            double.put(name, b"somebody else's", Duration::ZERO);
            assert!(put().await.is_err());
        },
    )
    .await;
}

fn proving(double: &Double, change: impl FnOnce(&mut Settings)) -> Dav {
    let origin = Origin::of(&format!("http://{}", double.address).parse().unwrap()).unwrap();
    let mut credentials = Credentials::new(Netrc::default());
    let password = "secret".into();
    credentials.set(origin.clone(), Credential::Password { user: "ann".into(), password });
    let mut settings = Settings { pipelining: Pipelining::Aggressive, ..Settings::default() };
    change(&mut settings);
    Dav::new(Client::new(settings, Authenticator::new(credentials, Clear::Refused)).unwrap(), origin)
}

/// The PUT takes effect and its response is lost. The second attempt has an expired nonce, and the third is refused
/// because of the first one's success.
#[tokio::test]
async fn expired_nonce_during_a_conditional_put_is_no_edit_conflict() {
    on_each([Precondition::Absent, Precondition::Unchanged(ETag::parse("\"v1\"").unwrap())], async |guard| {
        let double = Double::start().await;
        let name = if guard == Precondition::Absent { "/new" } else { "/file" };
        double.put("/file", b"older", Duration::from_hours(1));
        let dav = proving(&double, |_| ());
        // One PROPFIND and one PUT with this nonce are accepted.
        double.require_digest_auth(DigestAuth::new(2));
        dav.stat(&path("/"), PropertySet::LISTING).await.unwrap();
        let mut first = true;
        double.script(move |asked, _, _| {
            (asked == "PUT" && std::mem::take(&mut first)).then_some(Fault::ResetAfterProcessing)
        });
        let body = Body::from(noise(5, 3000));
        let put = dav.put(&path(name), body, HeaderMap::new(), &guard, &If::default(), Options::default()).await;
        put.unwrap_or_else(|error| panic!("{guard:?}: {error}\n{}", double.log()));
        assert!(double.files("")[&name[1..]] == noise(5, 3000));
    })
    .await;
}

/// Many requests over several connections, with some responses lost.
#[tokio::test]
async fn nonce_count_is_never_reused() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    let dav = proving(&double, |_| ());
    double.require_digest_auth(DigestAuth::new(1000));
    double.script(|_, _, number| (number % 7 == 6).then_some(Fault::ResetAfterProcessing));
    let done = up(&dav, &here, &mirror()).await.unwrap();
    assert_eq!(double.reused_nonce_counts(), Vec::<String>::new());
    double.clear_faults();
    let done = if done.failed.is_empty() { done } else { up(&dav, &here, &rest(&mirror())).await.unwrap() };
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    assert!(double.files("/up") == wanted);
}
