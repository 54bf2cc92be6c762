//! Any PROPPATCH that the gateway acknowledges gets a well-formed answer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gateway::fuzzing::properties(input));
