//! Trust in exactly the certificate that a server presents, because the user has named it (`--ca`).
//!
//! Small servers use a certificate from `openssl req -x509`, which marks it as an authority (CA:TRUE), or one from an
//! unknown authority. RFC 5280's path validation accepts neither: the first is not an end entity, the second has no
//! path to an authority. curl and OpenSSL accept both if they are in the file of trusted certificates, and users expect
//! that. So it works here too, for a certificate that equals a named one byte for byte. Its name and validity are
//! checked as usual.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::error::is_an_authority;

/// Delegates to another verifier, but accepts a named certificate if only its path to an authority is missing.
#[derive(Debug)]
pub(crate) struct PinnedVerifier {
    verifier: Arc<dyn ServerCertVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl PinnedVerifier {
    pub(crate) fn new(verifier: Arc<dyn ServerCertVerifier>, named: Vec<CertificateDer<'static>>) -> Self {
        Self { verifier, named }
    }
}

/// Whether only the path to an authority is wrong. The validity is right then: `webpki` checks it first (in
/// `check_issuer_independent_properties`).
fn lacks_a_path(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(problem) => is_an_authority(problem),
        _ => false,
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(error) if lacks_a_path(&error) && self.named.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
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
