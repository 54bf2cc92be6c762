//! TLS certificates: from files, or self-signed.
//!
//! A self-signed certificate names `localhost`, this machine and the addresses listened on. It is generated at each
//! start and never written to disk. The server shows its fingerprint, and can export it as PEM for clients to trust. A
//! server that is to be trusted for longer needs certificate files.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::{Error, early_data};

/// Valid from a day ago for a year: some clients refuse certificates that are valid for longer.
const VALID_BEFORE_NOW: Duration = Duration::from_hours(24);
const VALID_AFTER_NOW: Duration = Duration::from_hours(365 * 24);

/// The source of the certificate. Parses from `self-signed` and from `CERT,KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// Generated at start.
    SelfSigned,
    /// PEM files: the certificate with its chain, and its key.
    Files {
        /// The server's certificate, followed by its intermediates; then perhaps others of the same key, for other names
        /// (RFC 6066 §3), each with its own.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

impl FromStr for Tls {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "self-signed" {
            return Ok(Tls::SelfSigned);
        }
        match text.split_once(',') {
            Some((certificate, key)) if !certificate.is_empty() && !key.is_empty() => {
                Ok(Tls::Files { certificate: certificate.into(), key: key.into() })
            }
            _ => Err("expected `self-signed` or `CERT,KEY`".into()),
        }
    }
}

/// The server's certificate, for clients to trust.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The server's own certificate as PEM, without its chain.
    pub pem: String,
    /// SHA-256 of the certificate, in hexadecimal with colons.
    pub fingerprint: String,
}

/// TLS configurations and the certificate.
pub(crate) struct Setup {
    pub(crate) tcp: Arc<ServerConfig>,
    pub(crate) quic: ServerConfig,
    pub(crate) certificate: Certificate,
}

/// The TLS configurations of a server on these addresses.
pub(crate) fn configure(tls: &Tls, addresses: &[SocketAddr]) -> Result<Setup, Error> {
    let (chain, key) = match tls {
        Tls::SelfSigned => self_signed(addresses).map_err(|e| Error::Certificate(e.to_string()))?,
        Tls::Files { certificate, key } => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
            (
                chain.map_err(|e| unusable(certificate, &e))?,
                PrivateKeyDer::from_pem_file(key).map_err(|e| unusable(key, &e))?,
            )
        }
    };
    let own = match (chain.first(), tls) {
        (Some(own), _) => describe(own),
        (None, Tls::Files { certificate, .. }) => {
            return Err(Error::Tls { path: certificate.clone(), why: "it contains no certificate".into() });
        }
        (None, Tls::SelfSigned) => return Err(Error::Certificate("no certificate was made".into())),
    };
    let by_name = ByName::new(chain, key).map_err(|error| Error::Certificate(error.to_string()))?;
    let configured = early_data::configure(Arc::new(by_name));
    let (tcp, quic) = configured.map_err(|error| Error::Certificate(error.to_string()))?;
    Ok(Setup { tcp: Arc::new(tcp), quic, certificate: own })
}

/// A server's certificates, of which the client's wanted name chooses one.
#[derive(Debug)]
struct ByName {
    /// For a client that names no host, or one of which there is no certificate.
    first: Arc<CertifiedKey>,
    others: Vec<Arc<CertifiedKey>>,
}

impl ByName {
    /// Each certificate that has this key is a server's, and begins a chain.
    fn new(certificates: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, rustls::Error> {
        let key = ring::default_provider().key_provider.load_private_key(key)?;
        let mut chains: Vec<Vec<CertificateDer<'static>>> = Vec::new();
        for certificate in certificates {
            let is_own = CertifiedKey::new(vec![certificate.clone()], key.clone()).keys_match().is_ok();
            match chains.last_mut() {
                Some(chain) if !is_own => chain.push(certificate),
                _ => chains.push(vec![certificate]),
            }
        }
        let mut chains = chains.into_iter().map(|chain| Arc::new(CertifiedKey::new(chain, key.clone())));
        let first = chains.next().ok_or(rustls::Error::NoCertificatesPresented)?;
        first.keys_match()?;
        Ok(Self { first, others: chains.collect() })
    }

    fn of(&self, name: &ServerName<'_>) -> Arc<CertifiedKey> {
        let is_for = |certified: &CertifiedKey| {
            let own = certified.end_entity_cert().and_then(ParsedCertificate::try_from);
            own.is_ok_and(|own| verify_server_name(&own, name).is_ok())
        };
        self.others.iter().find(|certified| is_for(certified)).unwrap_or(&self.first).clone()
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        Some(name.map_or_else(|| self.first.clone(), |name| self.of(&name)))
    }
}

fn self_signed(
    addresses: &[SocketAddr],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let mut names = vec!["localhost".to_owned()];
    if let Ok(host) = rustix::system::uname().nodename().to_str()
        && !host.is_empty()
    {
        names.push(host.to_owned());
    }
    let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    for ip in addresses.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified()).chain(loopback) {
        let ip = ip.to_string();
        if !names.contains(&ip) {
            names.push(ip);
        }
    }
    let mut params = rcgen::CertificateParams::new(names)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(VALID_BEFORE_NOW);
    params.not_after = epoch + now + VALID_AFTER_NOW;
    params.distinguished_name.push(rcgen::DnType::CommonName, "haul serve");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into())))
}

fn describe(certificate: &CertificateDer<'_>) -> Certificate {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let text = BASE64_STANDARD.encode(certificate);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    let digest = ::ring::digest::digest(&::ring::digest::SHA256, certificate);
    let bytes: Vec<_> = digest.as_ref().iter().map(|b| format!("{b:02X}")).collect();
    Certificate {
        pem: format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n")),
        fingerprint: bytes.join(":"),
    }
}

fn unusable(path: &Path, error: &pem::Error) -> Error {
    let why = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it contains none".to_owned(),
        error => error.to_string(),
    };
    Error::Tls { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_option_parses_both_forms() {
        assert_eq!("self-signed".parse(), Ok(Tls::SelfSigned));
        assert_eq!("a,b".parse(), Ok(Tls::Files { certificate: "a".into(), key: "b".into() }));
        assert!("a".parse::<Tls>().is_err() && ",b".parse::<Tls>().is_err());
    }

    #[test]
    fn exported_pem_is_the_served_certificate() {
        let told = configure(&Tls::SelfSigned, &[([127, 0, 0, 1], 1).into()]).unwrap().certificate;
        let der = CertificateDer::from_pem_slice(told.pem.as_bytes()).unwrap();
        assert_eq!(describe(&der).fingerprint, told.fingerprint);
        assert_eq!(told.fingerprint.len(), 32 * 3 - 1);
    }

    #[test]
    fn name_chooses_the_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer_key = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&issuer_key).unwrap();
        let own = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap().der().clone()
        };
        let private = || PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let (all, a, b) = (own(&["a.example", "b.example", "c.example"]), own(&["a.example"]), own(&["*.b.example"]));
        let chain = vec![all.clone(), issuer.der().clone(), a.clone(), b.clone(), issuer.der().clone()];
        let by_name = ByName::new(chain, private()).unwrap();
        for (name, expected) in [
            ("a.example", vec![a]),
            ("x.b.example", vec![b, issuer.der().clone()]),
            ("c.example", vec![all.clone(), issuer.der().clone()]),
            ("d.example", vec![all, issuer.der().clone()]),
        ] {
            assert_eq!(by_name.of(&ServerName::try_from(name).unwrap()).cert, expected, "{name}");
        }
        assert!(ByName::new(vec![issuer.der().clone()], private()).is_err(), "another key's");
    }

    #[test]
    fn error_names_file_without_certificate() {
        let empty = tempfile::NamedTempFile::new().unwrap();
        let tls = Tls::Files { certificate: empty.path().into(), key: empty.path().into() };
        let error = configure(&tls, &[]).err().unwrap().to_string();
        assert!(error.contains(&*empty.path().to_string_lossy()), "{error}");
        let missing = Tls::Files { certificate: "/nowhere/c.pem".into(), key: "k".into() };
        assert!(configure(&missing, &[]).err().unwrap().to_string().contains("/nowhere/c.pem"));
    }
}
