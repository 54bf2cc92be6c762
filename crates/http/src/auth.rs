//! Authentication: credentials and where they come from, and the schemes `Basic`, `Digest`, `Bearer` and `Negotiate`.
//!
//! A password belongs to one origin and is sent to no other. It is kept in a [`Secret`], which cannot be printed, and
//! leaves it only for a header that is marked as sensitive. This module reads credentials from `netrc`, the
//! environment, a file, the URL and the kernel's keyring; prompting is up to the program.
//!
//! [`Authenticator`] decides what a request carries. On a long link a `401` costs a round trip, and an upload perhaps
//! its whole body twice; so a password is sent preemptively wherever `Basic` (RFC 7617) is acceptable: over TLS and on
//! loopback. Without TLS it waits for a challenge, answers `Digest` (RFC 7616), and refuses `Basic` and `Bearer` (RFC
//! 6750) unless the user allows them. A server's `Digest` nonce is reused until the server wants another, which it may
//! announce (`nextnonce`). [`Kerberos`] tickets are sent preemptively and never without TLS (RFC 4559).
//!
//! Not supported: `qop=auth-int`, which would hash every body before it is sent; `rspauth`, since TLS authenticates the
//! server; normalisation of passwords (RFC 8265), which are sent as typed, in UTF-8.

mod authenticator;
mod challenge;
mod credentials;
mod digest_response;
mod give_up;
mod kerberos;
mod keyring;
mod netrc;
mod secret;
mod sources;

pub use authenticator::{Attempt, Authenticator, Clear};
pub use challenge::{Challenge, challenges};
pub use credentials::{Credential, Credentials};
pub use give_up::GiveUp;
pub use kerberos::{Kerberos, KerberosError};
pub use keyring::{Keyring, KeyringError, MAX_KEY_SIZE};
pub use netrc::Netrc;
pub use secret::Secret;
pub use sources::{Environment, Exposed, SourceError, Userinfo, default_netrc, take_userinfo};
