//! Any packets, in order or not, are explained: the causes add up to the time there was, and every prediction ends.

#![no_main]

#[path = "../../crates/explain/tests/hostile/packets.rs"]
mod packets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (explanation, _error) = explain::explain(&mut packets::Script::new(bytes));
    packets::check(explanation);
});
