//! Which server certificates Chromium accepts.
//!
//! On Linux, Chromium takes additional authorities from an NSS database in the home directory, which here is the
//! profile's. NSS's `certutil` writes it. Rejected: accepting every certificate and checking it afterwards, since by
//! then the browser has run the scripts of whoever sent them.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::BrowserError;

/// The program that writes the database.
const CERTUTIL: &str = "certutil";

/// The package that brings it.
const PACKAGE: &str = "libnss3-tools";

/// The largest file of certificates, in bytes.
const LARGEST: u64 = 16 << 20;

/// Which server certificates to accept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that Chromium accepts by itself.
    #[default]
    System,
    /// Also those of the authorities in this PEM file.
    Authorities(PathBuf),
    /// Any.
    Anyone,
}

impl Trust {
    /// Prepares a profile, and returns the flags for Chromium.
    pub(super) fn prepare(&self, profile: &Path) -> Result<Vec<String>, BrowserError> {
        match self {
            Self::System => Ok(Vec::new()),
            Self::Anyone => Ok(vec!["--ignore-certificate-errors".to_owned()]),
            Self::Authorities(file) => {
                let failed = |why| BrowserError::Trust { file: file.display().to_string(), why };
                let certificates = certificates(file).map_err(failed)?;
                write(&profile.join(".pki/nssdb"), &certificates).map_err(failed)?;
                Ok(Vec::new())
            }
        }
    }
}

/// The certificates of a PEM file, each as PEM.
fn certificates(file: &Path) -> Result<Vec<String>, String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let read = fs::metadata(file).and_then(|is| match is.len() {
        _ if !is.is_file() => Err(io::Error::other("not a regular file")),
        LARGEST.. => Err(io::Error::other("larger than 16 MiB")),
        _ => fs::read(file),
    });
    let text = read.map_err(|error| format!("{error}; name a PEM file with the authority's certificate"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let parts = text.split(BEGIN).skip(1).filter_map(|part| part.split_once(END));
    let certificates: Vec<String> = parts.map(|(inside, _)| format!("{BEGIN}{inside}{END}\n")).collect();
    if certificates.is_empty() {
        return Err("there is no certificate in it; name a PEM file with the authority's certificate".to_owned());
    }
    Ok(certificates)
}

/// Makes an NSS database that trusts these authorities.
fn write(database: &Path, certificates: &[String]) -> Result<(), String> {
    fs::create_dir_all(database).map_err(|error| format!("cannot create {}: {error}", database.display()))?;
    let database = format!("sql:{}", database.display());
    run(&["-N", "-d", &database, "--empty-password"], "")?;
    for (number, certificate) in certificates.iter().enumerate() {
        let name = format!("authority {number}");
        run(&["-A", "-a", "-d", &database, "-n", &name, "-t", "C,,"], certificate)?;
    }
    Ok(())
}

fn run(args: &[&str], input: &str) -> Result<(), String> {
    let mut command = Command::new(CERTUTIL);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("Chromium needs {CERTUTIL} for that; install the package `{PACKAGE}`"),
        _ => format!("{CERTUTIL}: {error}"),
    };
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it does not read its input, it says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace(char::is_control, " ");
    Err(format!("{said} ({})", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let said = |text: &str| {
            fs::write(&file, text).unwrap();
            Trust::Authorities(file.clone()).prepare(folder.path()).unwrap_err().to_string()
        };
        let empty = said("no certificate");
        assert!(empty.starts_with("cannot trust ") && empty.contains("there is no certificate in it"), "{empty}");
        let broken = said("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        assert!(broken.contains(CERTUTIL), "{broken}");
        let none = Trust::Authorities(folder.path().join("none")).prepare(folder.path()).unwrap_err().to_string();
        assert!(none.contains("none: No such file"), "{none}");
    }
}
