//! Why a request cannot be authenticated.

use super::KerberosError;
use crate::Origin;

/// Why a `401` is final, or a request is not sent. No message contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GiveUp {
    /// Nothing is known that could be sent.
    #[error(
        "{origin} requires {wants}, but there are no credentials for it: set HAUL_USER and HAUL_PASSWORD, add the host to ~/.netrc, or run `haul password set`"
    )]
    Unknown {
        /// Who asks.
        origin: Origin,
        /// For what.
        wants: String,
    },
    /// It was sent, and is wrong.
    #[error("{origin} rejected the {what}; it requires {wants}")]
    Refused {
        /// Who asks.
        origin: Origin,
        /// What was sent.
        what: String,
        /// For what.
        wants: String,
    },
    /// It would have to be sent for all to read.
    #[error("{origin} requires {wants}, which would send the {what} unencrypted: use https, or allow it explicitly")]
    Clear {
        /// Who asks.
        origin: Origin,
        /// What would be sent.
        what: &'static str,
        /// For what.
        wants: String,
    },
    /// No challenge that is supported, or none that fits the credential.
    #[error("{origin} requires {wants}, which does not work with a {what}")]
    Unsupported {
        /// Who asks.
        origin: Origin,
        /// What is known.
        what: &'static str,
        /// For what.
        wants: String,
    },
    /// A `401` without a challenge, against RFC 9110 §15.5.2.
    #[error("{origin} responded with 401, but named no authentication scheme")]
    Mute {
        /// Who asks.
        origin: Origin,
    },
    /// The header that came with the request was refused.
    #[error("{origin} rejected the request's own Authorization header; it requires {wants}")]
    Own {
        /// Who asks.
        origin: Origin,
        /// For what.
        wants: String,
    },
    /// Nonce after nonce, none lived long enough.
    #[error("{origin} rejects even a new nonce as stale; its clock or its configuration is wrong")]
    Stale {
        /// Who asks.
        origin: Origin,
    },
    /// There is no Kerberos ticket to send.
    #[error("cannot authenticate to {origin}: {why}")]
    Kerberos {
        /// To whom.
        origin: Origin,
        /// What is wrong with it.
        why: KerberosError,
    },
    /// What is known does not fit into a header.
    #[error("the {what} for {origin} cannot be sent: {why}")]
    Unspeakable {
        /// For whom.
        origin: Origin,
        /// What it is.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}
