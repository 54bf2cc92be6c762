//! Messages for TLS errors.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, pki_types::UnixTime};

/// The maximum number of a certificate's names in a message.
const NAMED: usize = 4;

/// A message for a TLS error: a certificate, a protocol, an alert. In TLS 1.3 the alert that rejects a client
/// certificate comes after the handshake (RFC 8446 §4.4.2.4).
pub(crate) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(problem) => certificate(problem),
        Error::AlertReceived(alert) => received(*alert),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS on this port; is it plain http?".into()
        }
        Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => {
            "the server supports neither TLS 1.3 nor TLS 1.2".into()
        }
        Error::NoApplicationProtocol => "the server supports none of the offered protocols (ALPN)".into(),
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// The rustls error inside an I/O error of tokio-rustls.
pub(crate) fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Whether a server presented an authority's certificate as its own.
pub(crate) fn is_an_authority(problem: &CertificateError) -> bool {
    let CertificateError::Other(other) = problem else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

fn certificate(problem: &CertificateError) -> String {
    use CertificateError::{
        BadEncoding, BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, NotValidForName,
        NotValidForNameContext, NotValidYet, NotValidYetContext, Other, Revoked, UnhandledCriticalExtension,
        UnknownIssuer,
    };
    match problem {
        UnknownIssuer => {
            "the server's certificate is not from a trusted authority; if you trust it, name its authority's file with --ca \
             FILE, or for commands on files as `ca` in config.toml"
                .into()
        }
        BadSignature => {
            "the authority that the server's certificate names did not sign it; was that authority replaced?".into()
        }
        NotValidForNameContext { expected, presented } => {
            format!("the server's certificate is for {}, not for {}", names(presented), expected.to_str())
        }
        NotValidForName => "the server's certificate is for another name".into(),
        ExpiredContext { time, not_after } => {
            format!("the server's certificate expired {} ago", days(*not_after, *time))
        }
        Expired => "the server's certificate has expired".into(),
        NotValidYetContext { time, not_before } => {
            let left = days(*time, *not_before);
            format!("the server's certificate becomes valid in {left}; is the clock of this machine right?")
        }
        NotValidYet => "the server's certificate is not valid yet; is the clock of this machine right?".into(),
        Revoked => "the server's certificate was revoked".into(),
        InvalidPurpose | InvalidPurposeContext { .. } => {
            "the server's certificate was not issued for servers (its extended key usage lacks serverAuth)".into()
        }
        UnhandledCriticalExtension => {
            "the server's certificate has an unsupported critical extension; ask its authority for another certificate"
                .into()
        }
        BadEncoding => "the server's certificate cannot be decoded".into(),
        problem if is_an_authority(problem) => {
            "the server shows an authority's certificate (CA:TRUE) as its own; if you trust it, name that certificate's \
             file"
                .into()
        }
        Other(other) => format!("the server's certificate is not valid: {}", words(&other.0.to_string())),
        other => format!("the server's certificate cannot be trusted: {other}"),
    }
}

/// The words of a camel-case name such as webpki's `EndEntityUsedAsCa`.
fn words(name: &str) -> String {
    let mut text = String::new();
    for char in name.chars() {
        if char.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(char.to_ascii_lowercase());
    }
    text
}

/// The first few names of a certificate. rustls gives their debug form, `DnsName("example.org")`, with arbitrary bytes
/// from the certificate.
fn names(presented: &[String]) -> String {
    let mut names: Vec<_> = presented
        .iter()
        .take(NAMED)
        .map(|name| {
            let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
            inner.trim_matches('"').escape_debug().to_string()
        })
        .collect();
    if presented.is_empty() {
        names.push("no name".into());
    } else if presented.len() > NAMED {
        names.push(format!("{} more", presented.len() - NAMED));
    }
    names.join(", ")
}

fn days(from: UnixTime, to: UnixTime) -> String {
    match to.as_secs().saturating_sub(from.as_secs()) / (24 * 60 * 60) {
        0 => "less than a day".into(),
        1 => "a day".into(),
        days => format!("{days} days"),
    }
}

fn received(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => "the server requires a client certificate".into(),
        AlertDescription::NoApplicationProtocol => "the server supports none of the offered protocols (ALPN)".into(),
        AlertDescription::ProtocolVersion => "the server supports neither TLS 1.3 nor TLS 1.2".into(),
        AlertDescription::UnrecognisedName => "the server does not know this host name".into(),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => format!("the server rejected the client certificate ({alert:?})"),
        // TLS 1.2 has no alert for a missing client certificate (RFC 5246 §7.4.6).
        AlertDescription::HandshakeFailure => {
            "the server aborted the TLS handshake: there is no common cipher, or it requires a client certificate"
                .into()
        }
        other => format!("the server closed TLS with the alert {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_error_without_a_message_of_ours_is_spelled_out() {
        use std::sync::Arc;
        let told = |problem| {
            explain(&Error::InvalidCertificate(CertificateError::Other(rustls::OtherError(Arc::new(problem)))))
        };
        let ends = told(webpki::Error::EndEntityUsedAsCa);
        assert_eq!(ends, "the server's certificate is not valid: end entity used as ca");
        assert!(told(webpki::Error::CaUsedAsEndEntity).contains("(CA:TRUE)"));
    }

    #[test]
    fn certificate_names_in_errors_are_limited_and_escaped() {
        let told = |presented: &[&str]| names(&presented.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(told(&[]), "no name");
        assert_eq!(told(&["DnsName(\"*.a\")", "IpAddress(::1)", "Unsupported(0x81)"]), "*.a, ::1, 0x81");
        assert_eq!(told(&["DnsName(\"\u{1b}[2J\")"]), "\\u{1b}[2J");
        assert_eq!(told(&["a"; 9]), "a, a, a, a, 5 more");
    }
}
