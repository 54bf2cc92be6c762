//! Any header's value is a digest or none, and a body is right or wrong by it, without a panic.
//!
//! The first byte chooses the field, the line feed ends the value, the rest is the body.

#![no_main]

use haul_http::digest::{Field, Verifier, claims};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let field = Field::ALL[usize::from(*choice) % Field::ALL.len()];
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (value, body) = rest.split_at(end);
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let headers = HeaderMap::from_iter([(field.name(), value)]);

    let said = claims(&headers);
    let mut verifier = Verifier::of_response(&Method::GET, StatusCode::OK, &headers);
    assert_eq!(verifier.is_idle(), said.is_empty());
    verifier.update(body);
    match verifier.finish() {
        Ok(verified) => assert_eq!(verified.is_empty(), said.is_empty()),
        Err(mismatch) => assert_ne!(mismatch.said, mismatch.found),
    }
});
