//! Trust in exactly the certificate that a server shows, because the user has named it (`--ca`).
//!
//! Small servers make themselves a certificate with `openssl req -x509`, which marks it as an authority (CA:TRUE), or
//! have one from an authority that nobody knows. RFC 5280's path validation accepts neither as a server's: the first
//! is an authority and no end entity, for the second no path leads to an authority. curl and OpenSSL take both if they
//! are in the file of trusted certificates, and users expect it. So it is here, for a certificate that is identical to
//! a named one, byte for byte. Its name and its validity are checked as those of any other.

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

/// Checks as another does, and accepts what that refuses for want of a path to an authority, if it was named.
#[derive(Debug)]
pub(crate) struct Pinned {
    verifier: Arc<dyn ServerCertVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl Pinned {
    pub(crate) fn new(verifier: Arc<dyn ServerCertVerifier>, named: Vec<CertificateDer<'static>>) -> Self {
        Self { verifier, named }
    }
}

/// Whether only the path to an authority is wrong. `webpki` checks a certificate's validity before it looks at either
/// (its `check_issuer_independent_properties`), so that is right.
fn lacks_a_path(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(problem) => is_an_authority(problem),
        _ => false,
    }
}

impl ServerCertVerifier for Pinned {
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
