//! Digest headers of uploads.

use dav::transfer::{Options, Verify};
use haul_http::digest::{Algorithm, Digests, Field};
use servers::{Double, ServerProfile};

use crate::{
    common::{Tree, client, deaf, folder, lay_out, mirror, up, up_to},
    on_each,
};

fn stating(temporary: bool) -> Options {
    Options { verify: Verify::Digest, temporary, ..mirror() }
}

#[tokio::test]
async fn digest_verification_sends_the_digest_of_each_file() {
    let (double, (_kept, here)) = (Double::start().await, folder());
    let wanted = lay_out(&here);
    let dav = client(double.address, |_| ());
    let done = up(&dav, &here, &stating(false)).await.unwrap();
    assert!(done.failed.is_empty() && double.files("/up") == wanted, "{:?}", done.failed);
    let stated = double.take_digests(None);
    for (name, content) in &wanted {
        let digest = Digests::of(content, &[Algorithm::Sha256]).value(Field::ReprDigest).unwrap();
        for field in ["repr-digest", "content-digest"] {
            let said = stated.accepted.get(&(format!("/up/{name}"), field.to_owned()));
            assert_eq!(said.map(String::as_str), Some(digest.to_str().unwrap()), "{field} of {name}");
        }
    }
    up(&dav, &here, &Options { verify: Verify::Size, ..stating(false) }).await.unwrap();
    assert!(double.take_digests(None).accepted.is_empty(), "nobody wanted digests");
}

#[tokio::test]
async fn server_that_refuses_digest_headers_gets_none() {
    on_each([(400, false), (501, false), (501, true)], async |(status, temporary)| {
        let (double, (_kept, here)) = (Double::start().await, folder());
        let wanted: Tree = lay_out(&here);
        double.take_digests(Some(status));
        let done = up(&client(double.address, |_| ()), &here, &stating(temporary)).await.unwrap();
        assert!(done.failed.is_empty() && double.files("/up") == wanted, "{status}: {:?}", done.failed);
        let refused = double.take_digests(None).refused;
        // The requests in flight, and one retry.
        assert!((1..=2 * wanted.len()).contains(&refused), "{status}: asked {refused} times");
    })
    .await;
}

#[tokio::test]
async fn nextcloud_gets_oc_checksum() {
    let (double, (_kept, here)) = (Double::start_as(ServerProfile::Nextcloud).await, folder());
    let large = vec![b'x'; 200_000];
    std::fs::write(here.join("file"), &large).unwrap();
    let to = "/remote.php/dav/files/ann/";
    let done = up_to(&client(double.address, |_| ()), &here, to, &stating(false), &deaf()).await.unwrap();
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    let digest = Digests::of(&large, &[Algorithm::Sha1]).value(Field::OcChecksum).unwrap();
    let stated = double.take_digests(None).accepted;
    assert_eq!(
        stated.into_iter().collect::<Vec<_>>(),
        [((format!("{to}file"), "oc-checksum".to_owned()), digest.to_str().unwrap().to_owned())]
    );
}
