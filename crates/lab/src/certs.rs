//! The certificates of a run: a certificate authority made for it, and server certificates for the addresses of the
//! emulated network and for the hosts of a page. Every client trusts this authority and no other. So TLS has its real cost:
//! the server sends a chain, and the client verifies it.
//!
//! Each host of a page has a certificate of its own. One for all, at one address, would let a browser send the requests for
//! several hosts over one connection (RFC 9113 §9.1.1, RFC 9114 §3.3), which it could not on the recorded page.

use std::{
    collections::BTreeMap,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, date_time_ymd,
};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, pki_types::CertificateDer};

/// Why the certificates cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// They could not be made.
    #[error("cannot make the run's certificates: {0}")]
    Make(#[from] rcgen::Error),
    /// TLS rejected them.
    #[error("cannot set up TLS with the run's certificates: {0}")]
    Use(#[from] rustls::Error),
    /// They could not be stored.
    #[error("cannot write {}: {source}; check the free space", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A run's certificate authority and server certificates, which have one key.
#[derive(Debug)]
pub struct Certificates {
    /// The authority's certificate as PEM, for clients to trust.
    pub ca_file: PathBuf,
    /// The server's certificate for all addresses and hosts, PEM.
    pub server_pem: String,
    /// The certificate of each host that has a name, PEM.
    pub host_pems: BTreeMap<String, String>,
    /// The server's private key, PKCS #8 PEM; each server stores its own copy, readable
    /// by the user it runs as.
    pub key_pem: String,
    /// The SHA-256 of the server's public key (SubjectPublicKeyInfo) in base64, for Chromium to trust.
    pub server_key_hash: String,
    ca: CertificateDer<'static>,
}

impl Certificates {
    /// Makes an authority and server certificates for `addresses` and `hosts` (names, with or without a port), and writes
    /// the authority's to `folder/ca.pem`.
    pub fn make(folder: &Path, addresses: &[IpAddr], hosts: &[&str]) -> Result<Self, CertError> {
        let mut params = named("Longhaul's authority for one run")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let signed = |names: Vec<SanType>| -> Result<String, rcgen::Error> {
            let mut params = named("Longhaul's server")?;
            params.subject_alt_names = names;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.use_authority_key_identifier_extension = true;
            Ok(params.signed_by(&key, &authority)?.pem())
        };
        let mut names: Vec<SanType> = addresses.iter().copied().map(SanType::IpAddress).collect();
        let mut host_pems = BTreeMap::new();
        for host in hosts {
            let name = host.rsplit_once(':').map_or(*host, |(name, _port)| name);
            match name.parse() {
                Ok(address) => names.push(SanType::IpAddress(address)),
                Err(_) if host_pems.contains_key(name) => {}
                Err(_) => {
                    let san = SanType::DnsName(name.try_into()?);
                    host_pems.insert(name.to_owned(), signed(vec![san.clone()])?);
                    names.push(san);
                }
            }
        }
        let server_pem = signed(names)?;

        let ca_file = folder.join("ca.pem");
        fs::write(&ca_file, authority.pem()).map_err(|source| CertError::Write { path: ca_file.clone(), source })?;
        let hash = ring::digest::digest(&ring::digest::SHA256, &key.subject_public_key_info());
        Ok(Self {
            ca_file,
            server_pem,
            host_pems,
            key_pem: key.serialize_pem(),
            server_key_hash: STANDARD.encode(hash),
            ca: authority.der().clone(),
        })
    }

    /// All server certificates, for a server that chooses one by the name that the client asks for.
    pub fn all_pem(&self) -> String {
        std::iter::once(&self.server_pem).chain(self.host_pems.values()).map(String::as_str).collect()
    }

    /// The TLS configuration of a client that trusts only this authority and offers these versions of TLS and, by ALPN
    /// (RFC 7301), this protocol.
    pub fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[u8],
    ) -> Result<Arc<ClientConfig>, CertError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        Ok(Arc::new(config))
    }
}

fn named(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    // Some TLS libraries cannot represent rcgen's default, the year 4096.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    Ok(params)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rustls::{
        ClientConnection, ServerConfig, ServerConnection,
        pki_types::{PrivateKeyDer, ServerName, pem::PemObject},
    };

    use super::*;

    /// A server with the stored certificate and key, offering HTTP/2 and 1.1.
    fn server(certificates: &Certificates) -> ServerConnection {
        let certificate = CertificateDer::from_pem_slice(certificates.server_pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(certificates.key_pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        ServerConnection::new(Arc::new(config)).unwrap()
    }

    /// Does the TLS handshake in memory.
    fn shake(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<(), rustls::Error> {
        let mut wire = Vec::new();
        while client.is_handshaking() || server.is_handshaking() {
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets()?;
            wire.clear();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets()?;
            wire.clear();
        }
        Ok(())
    }

    #[test]
    fn client_trusts_only_this_run_at_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
        let certificates = Certificates::make(folder.path(), &[address], &[]).unwrap();
        let connect = |address: IpAddr, versions: &[&'static SupportedProtocolVersion]| {
            let config = certificates.client(versions, b"h2").unwrap();
            let mut client = ClientConnection::new(config, ServerName::from(address)).unwrap();
            let mut server = server(&certificates);
            shake(&mut client, &mut server).map(|()| (client.protocol_version(), client.alpn_protocol() == Some(b"h2")))
        };
        let tls13 = connect(address, rustls::ALL_VERSIONS).unwrap();
        assert_eq!(tls13, (Some(rustls::ProtocolVersion::TLSv1_3), true));
        let tls12 = connect(address, &[&rustls::version::TLS12]).unwrap();
        assert_eq!(tls12, (Some(rustls::ProtocolVersion::TLSv1_2), true));
        assert!(connect(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), rustls::ALL_VERSIONS).is_err());

        let other = Certificates::make(folder.path(), &[address], &[]).unwrap();
        let config = other.client(rustls::ALL_VERSIONS, b"h2").unwrap();
        let mut client = ClientConnection::new(config, ServerName::from(address)).unwrap();
        let mut server = server(&certificates);
        assert!(shake(&mut client, &mut server).is_err(), "another run's authority must not do");
    }

    #[test]
    fn certificate_of_a_host_is_of_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let made = Certificates::make(folder.path(), &[], &["a.example", "a.example:8443", "b.example"]).unwrap();
        let is_for = |pem: &str, name: &str| {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let parsed = rustls::server::ParsedCertificate::try_from(&der).unwrap();
            rustls::client::verify_server_name(&parsed, &ServerName::try_from(name.to_owned()).unwrap()).is_ok()
        };
        let of = |pem: &str| ["a.example", "b.example"].map(|name| is_for(pem, name));
        assert_eq!(made.host_pems.len(), 2);
        assert_eq!(of(&made.host_pems["a.example"]), [true, false]);
        assert_eq!(of(&made.host_pems["b.example"]), [false, true]);
        assert_eq!(of(&made.server_pem), [true, true], "for clients that name none");
    }
}
