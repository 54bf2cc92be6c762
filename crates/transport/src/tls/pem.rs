//! Certificates and keys from PEM files, and the trusted authorities.

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error, PemObject},
    },
};
use rustls_native_certs::{CertificateResult, load_certs_from_paths, load_native_certs};

use crate::error::SettingsError;

/// The trusted authorities, and where they come from.
#[derive(Clone)]
pub(crate) struct Roots {
    pub(crate) trusted: RootCertStore,
    /// The certificates in the named files.
    pub(crate) named: Vec<CertificateDer<'static>>,
    files: Vec<PathBuf>,
    system: usize,
    /// The first error of the system's store; it matters only once a server is not trusted.
    complaint: Option<String>,
}

impl Roots {
    /// No authorities.
    pub(crate) fn none() -> Self {
        Self { trusted: RootCertStore::empty(), named: Vec::new(), files: Vec::new(), system: 0, complaint: None }
    }

    /// The authorities in these files. An unusable certificate is an error.
    pub(crate) fn from_files(files: &[PathBuf]) -> Result<Self, SettingsError> {
        let mut roots = Self::none();
        for path in files {
            for (index, certificate) in certificates(path)?.into_iter().enumerate() {
                roots.named.push(certificate.clone());
                roots.trusted.add(certificate).map_err(|error| SettingsError::Pem {
                    path: path.clone(),
                    why: format!("its certificate number {} cannot be trusted: {error}", index + 1),
                })?;
            }
        }
        Ok(Self { files: files.to_owned(), ..roots })
    }

    /// Adds the system's, as far as they can be read.
    pub(crate) fn with_system_roots(mut self) -> Self {
        let native = native();
        (self.system, _) = self.trusted.add_parsable_certificates(native.certs);
        self.complaint = native.errors.first().map(ToString::to_string);
        self
    }
}

/// The system's authorities. Most systems keep them twice: in one file, and each in a file of its own in a folder.
/// Reading the folder too took 3.3 ms instead of 0.7 ms, and some 100 ms more from a cold disk; and Debian's folder has
/// self-signed certificates without an authority (`ssl-cert-snakeoil`). So the folder counts only if the file is
/// missing, or if the environment names it.
fn native() -> CertificateResult {
    let told =
        [openssl_probe::ENV_CERT_FILE, openssl_probe::ENV_CERT_DIR].iter().any(|name| env::var_os(name).is_some());
    let bundle = if told { None } else { openssl_probe::probe().cert_file };
    let found = bundle.map(|file| load_certs_from_paths(Some(&file), None));
    found.filter(|found| !found.certs.is_empty()).unwrap_or_else(load_native_certs)
}

/// The trusted authorities, as a clause for an error.
impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.system, &self.complaint) {
            (0, Some(complaint)) => write!(f, "this system has no trusted authorities: {complaint}")?,
            (0, None) => {
                f.write_str("this system has no trusted authorities; install the package ca-certificates")?;
            }
            (count, _) => write!(f, "the system's {count} authorities are trusted")?,
        }
        for path in &self.files {
            write!(f, ", and those in {}", path.display())?;
        }
        Ok(())
    }
}

/// All certificates of a PEM file; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(path, &error, "CERTIFICATE"))?;
    if all.is_empty() { Err(unusable(path, &Error::NoItemsFound, "CERTIFICATE")) } else { Ok(all) }
}

/// The first private key of a PEM file.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, SettingsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, &error, "PRIVATE KEY"))
}

/// The error for a file. It quotes nothing of the content, which may be a key.
fn unusable(path: &Path, error: &Error, what: &str) -> SettingsError {
    let why = match error {
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound if what == "PRIVATE KEY" => {
            "there is no -----BEGIN PRIVATE KEY----- in it (an encrypted key must be decrypted first)".into()
        }
        Error::NoItemsFound => format!("there is no -----BEGIN {what}----- in it"),
        Error::MissingSectionEnd { .. } => "a section has no end line".into(),
        Error::IllegalSectionStart { .. } => "a -----BEGIN line does not end with -----".into(),
        Error::Base64Decode(_) => "the text between BEGIN and END is not base64".into(),
        _ => "it is not PEM".into(),
    };
    SettingsError::Pem { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_file_but_not_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.pem");
        assert!(certificates(&path).unwrap_err().to_string().contains("No such file"));
        for (content, wrong) in [
            ("", "no -----BEGIN CERTIFICATE-----"),
            ("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "no -----BEGIN CERTIFICATE-----"),
            ("-----BEGIN CERTIFICATE-----\nc2VjcmV0\n", "no end line"),
            ("-----BEGIN CERTIFICATE\nc2VjcmV0\n", "does not end with"),
            ("-----BEGIN CERTIFICATE-----\nsecret!\n-----END CERTIFICATE-----\n", "not base64"),
        ] {
            std::fs::write(&path, content).unwrap();
            let told = certificates(&path).unwrap_err().to_string();
            assert!(told.contains("some.pem") && told.contains(wrong) && !told.contains("ecret"), "{told}");
        }
        std::fs::write(&path, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
            .unwrap();
        let told = key(&path).unwrap_err().to_string();
        assert!(told.contains("some.pem") && told.contains("decrypted"), "{told}");
    }

    #[test]
    fn pem_blocks_other_than_certificates_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        let told = Roots::from_files(&[path]).err().unwrap().to_string();
        assert!(told.contains("ca.pem") && told.contains("certificate number 1"), "{told}");
    }
}
