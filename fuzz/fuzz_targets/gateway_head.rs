//! Any request head at the gateway stays in its folder on the way to the server, with its `Destination` and `If`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gateway::fuzzing::head(input));
