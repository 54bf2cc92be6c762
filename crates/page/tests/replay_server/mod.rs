//! The replay server with a page, on loopback.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
    thread,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use page::{
    Spec,
    replay::{PageHandler, over_tls},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PublicKeyData as _, date_time_ymd,
};

/// Starts it over TLS. Its certificate is for 127.0.0.1, by an authority whose certificate is `folder/ca.pem`. Returns its
/// address and the hash of its key.
pub(crate) fn start(page: &Spec, folder: &Path) -> (SocketAddr, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "Longhaul's test authority");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    // Some programs cannot represent rcgen's default, the year 4096.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    let certificate = params.signed_by(&key, &authority).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    let files = [folder.join("certificate.pem"), folder.join("key.pem")];
    std::fs::write(&files[0], certificate.pem()).unwrap();
    std::fs::write(&files[1], key.serialize_pem()).unwrap();
    let [certificate, private] = files;
    let tls = Some(serve::Tls::Files { certificate, key: private });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = serve::Config { tls, ..serve::Config::default() };
    let site = Arc::new(PageHandler::new(&over_tls(page)).unwrap());
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = serve::Server::with_responder(site, &config, vec![listener]).unwrap();
            server.run(std::future::pending()).await
        })
    });
    let hash = ring::digest::digest(&ring::digest::SHA256, &key.subject_public_key_info());
    (address, STANDARD.encode(hash))
}
