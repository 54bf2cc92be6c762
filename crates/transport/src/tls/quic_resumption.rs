//! Whether a QUIC handshake resumed a session.
//!
//! `tokio-rustls` reports this, `quinn` does not. But in a resumed handshake the server sends no certificate, so none
//! is verified. All connections must share one verifier, because rustls resumes a session only with the verifier that
//! began it; hence a counter instead of a flag per connection.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Delegates to another verifier, and counts.
#[derive(Debug)]
pub(crate) struct CountingVerifier {
    verifier: Arc<dyn ServerCertVerifier>,
    checks: AtomicU64,
}

impl CountingVerifier {
    pub(crate) fn new(verifier: Arc<dyn ServerCertVerifier>) -> Self {
        Self { verifier, checks: AtomicU64::new(0) }
    }

    /// The number of certificates verified so far.
    pub(crate) fn verified_certificates(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }
}

impl ServerCertVerifier for CountingVerifier {
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
