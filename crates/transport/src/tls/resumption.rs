//! Whether a QUIC handshake was a resumed one.
//!
//! `quinn` does not tell, as `tokio-rustls` does. But a resumed handshake shows no certificate, and so none is
//! checked. All connections must share one verifier (rustls resumes no session that another one began), hence a count
//! in place of a mark on the connection.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Checks as another does, and counts.
#[derive(Debug)]
pub(crate) struct Counted {
    verifier: Arc<dyn ServerCertVerifier>,
    checks: AtomicU64,
}

impl Counted {
    pub(crate) fn new(verifier: Arc<dyn ServerCertVerifier>) -> Self {
        Self { verifier, checks: AtomicU64::new(0) }
    }

    /// How many certificates were checked.
    pub(crate) fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }
}

impl ServerCertVerifier for Counted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
