//! Digests of bodies.
//!
//! TCP's checksum has sixteen bits, TLS ends at the next proxy, and neither notices a server that sends the wrong
//! bytes. Messages may therefore carry a digest of their body. There are five header fields, which differ in their
//! encoding and, more importantly, in *which* bytes they cover:
//!
//! | field | covers | encoding |
//! |---|---|---|
//! | `Content-MD5` (RFC 1864, RFC 2616 §14.15) | the content of this message; ambiguous for a part | MD5 in base64 |
//! | `Digest` (RFC 3230 §4.3.2) | the whole representation | `alg=value, …`, base64 or hexadecimal |
//! | `Content-Digest` (RFC 9530 §2) | the content of this message | a structured dictionary of byte sequences |
//! | `Repr-Digest` (RFC 9530 §3) | the whole representation | the same |
//! | `OC-Checksum` (ownCloud, Nextcloud) | the stored file | `ALG:hex` |
//!
//! So only `Content-Digest` can verify a part (`206`), unless the part is the whole. Content codings belong to the
//! representation (RFC 9110 §8.1): the first four cover the encoded bytes; a stored file is not encoded. A digest that
//! does not apply is not checked, one that is malformed or has an unknown algorithm is ignored (RFC 9530 §2 leaves that
//! to the recipient), and [`Verifier::finish`] returns what was checked.
//!
//! A consumer commits at the end of a body. [`Checked`] therefore holds the last chunk back until the digest is
//! verified: a wrong body never ends, it fails.
//!
//! The hashes come from `ring`, which TLS needs anyway and which uses the processor's SHA instructions; it lacks MD5,
//! CRC-32C and Adler-32.

mod algorithm;
mod compute;
mod field;
mod verified_body;
mod verify;

pub use algorithm::Algorithm;
pub use compute::Digests;
pub use field::{Claim, Field, claims, want};
pub use verified_body::Checked;
pub use verify::{Mismatch, Verified, Verifier};
