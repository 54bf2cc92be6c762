//! Who asks, and how that is proved.
//!
//! A password is given for one origin and is sent to no other. It is held in a [`Secret`], which cannot be
//! printed, and leaves it for a header that is marked sensitive. Where it comes from (`netrc`, the environment,
//! a file, the URL, the kernel's keyring) is read here; asking a person is the program's matter.
//!
//! [`Authenticator`] decides what a request carries. On a long link a `401` costs a round trip, and for an upload
//! perhaps the whole body twice; so a password goes out unasked wherever `Basic` (RFC 7617) may be spoken at all:
//! through TLS and on loopback. In the clear it waits to be asked, answers `Digest` (RFC 7616) and refuses
//! `Basic` and `Bearer` (RFC 6750), unless the user allows it. A server's `Digest` nonce is used again until the
//! server wants another, which it may announce ahead (`nextnonce`).
//!
//! Not done: `qop=auth-int`, which would hash every body before it is sent; the server's proof of itself
//! (`rspauth`), which TLS gives; normalising of passwords (RFC 8265), which are sent as they were typed, in UTF-8.

mod authenticator;
mod challenge;
mod credentials;
mod keyring;
mod netrc;
mod response;
mod secret;
mod sources;

pub use authenticator::{Attempt, Authenticator, Clear, GiveUp};
pub use challenge::{Challenge, challenges};
pub use credentials::{Credential, Credentials};
pub use keyring::{Keyring, KeyringError, LARGEST_KEY};
pub use netrc::Netrc;
pub use secret::Secret;
pub use sources::{Environment, Exposed, SourceError, Userinfo, default_netrc, take_userinfo};
