//! Whether what came is what was sent.
//!
//! TCP's checksum has sixteen bits, TLS ends at the next proxy, and neither notices a server that sends the wrong
//! bytes. Messages may therefore say a digest of their body, and five header fields
//! exist for it, each with its own alphabet and, what matters more, its own idea of *which* bytes it is a digest
//! of:
//!
//! | field | covers | said as |
//! |---|---|---|
//! | `Content-MD5` (RFC 1864, RFC 2616 §14.15) | the content of this message, but nobody knows which for a part | MD5 in base64 |
//! | `Digest` (RFC 3230 §4.3.2) | the whole representation | `alg=value, …`, base64 or hexadecimal |
//! | `Content-Digest` (RFC 9530 §2) | the content of this message | a structured dictionary of byte sequences |
//! | `Repr-Digest` (RFC 9530 §3) | the whole representation | the same |
//! | `OC-Checksum` (ownCloud, Nextcloud) | the stored file | `ALG:hex` |
//!
//! So a part (`206`) can be held against `Content-Digest` alone, unless the part is the whole. Content codings
//! belong to the representation (RFC 9110 §8.1): the first four count the bytes as they travel, before any is
//! decoded; a stored file has none. What does not apply is not checked, what cannot be parsed or names an
//! algorithm unknown here is ignored (RFC 9530 §2 leaves that to the recipient), and [`Verifier::finish`] tells
//! what was.
//!
//! A consumer commits at the end of a body. [`Checked`] therefore keeps the last chunk back until the digest is
//! known to be right: a body that is wrong never ends, it fails.
//!
//! The hashes are `ring`'s, which is here for TLS and uses the processor's SHA instructions; MD5, CRC-32C and
//! Adler-32 it has not.

mod algorithm;
mod body;
mod compute;
mod field;
mod verify;

pub use algorithm::Algorithm;
pub use body::Checked;
pub use compute::Digests;
pub use field::{Claim, Field, claims, want};
pub use verify::{Mismatch, Verified, Verifier};
