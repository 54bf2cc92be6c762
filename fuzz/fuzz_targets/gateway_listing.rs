//! Any listing at the gateway: no name in it counts as missing, and each member is an answer of its own.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gateway::fuzzing::listing(input));
