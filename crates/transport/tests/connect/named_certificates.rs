//! Servers whose own certificate the user has named (`--ca`), without a trusted authority.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use transport::{ConnectSettings, Connector, Offer, Origin, TlsSettings};

use crate::test_servers::{AMPLE, Authority, hold, origin, pem, serve};

type Shown = (CertificateDer<'static>, KeyPair);

/// A self-signed certificate, as from `openssl req -x509`.
fn self_signed(name: &str, year: i32, is_ca: IsCa) -> Shown {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(year, 12, 31));
    params.is_ca = is_ca;
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().der().clone(), key)
}

async fn start((shown, key): (&CertificateDer<'static>, &KeyPair)) -> Origin {
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![shown.clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let address = serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(tls) = acceptor.accept(stream).await {
                hold(tls).await;
            }
        }
    });
    origin("https", address.await)
}

/// Connects to a server with certificate `shown`, while `named` is trusted.
async fn meets((shown, key): (&CertificateDer<'static>, &KeyPair), named: &str) -> Result<(), String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("named.pem");
    std::fs::write(&file, named).unwrap();
    let tls = TlsSettings { authorities: vec![file], ..TlsSettings::default() };
    let connector = Connector::new(ConnectSettings { tls, ..ConnectSettings::default() }).unwrap();
    let met = connector.connect(&start((shown, key)).await, Offer::Both, AMPLE).await;
    met.map(drop).map_err(|error| error.to_string())
}

const AUTHORITY: IsCa = IsCa::Ca(BasicConstraints::Unconstrained);

#[tokio::test]
async fn named_certificate_is_accepted_although_it_is_marked_as_an_authority() {
    for is_ca in [AUTHORITY, IsCa::NoCa, IsCa::ExplicitNoCa] {
        let (shown, key) = self_signed("localhost", 2049, is_ca);
        meets((&shown, &key), &pem(&shown)).await.unwrap_or_else(|why| panic!("{is_ca:?}: {why}"));
    }
}

#[tokio::test]
async fn named_certificate_is_accepted_although_its_authority_is_unknown() {
    let (certificate, key) = Authority::new().certificate("localhost", 2049);
    let told = meets((&certificate, &key), &pem(&self_signed("localhost", 2049, AUTHORITY).0)).await.unwrap_err();
    assert!(told.contains("not from a trusted authority"), "{told}");
    meets((&certificate, &key), &pem(&certificate)).await.unwrap();
}

#[tokio::test]
async fn name_and_validity_of_a_named_certificate_are_checked() {
    let (shown, key) = self_signed("other.example", 2049, AUTHORITY);
    let told = meets((&shown, &key), &pem(&shown)).await.unwrap_err();
    assert!(told.contains("is for other.example, not for localhost"), "{told}");
    let (shown, key) = self_signed("localhost", 2020, AUTHORITY);
    let told = meets((&shown, &key), &pem(&shown)).await.unwrap_err();
    assert!(told.contains("expired"), "{told}");
}

#[tokio::test]
async fn authority_that_serves_itself_is_refused_in_words_where_another_is_named() {
    let [(shown, key), (other, _)] = [(); 2].map(|()| self_signed("localhost", 2049, AUTHORITY));
    let told = meets((&shown, &key), &pem(&other)).await.unwrap_err();
    assert!(told.contains("an authority's certificate (CA:TRUE)") && !told.contains("Other"), "{told}");
}
