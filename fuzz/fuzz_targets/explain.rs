//! Any packets, in order or not, are explained: the causes add up to the time there was, and every prediction ends.

#![no_main]

#[path = "../../crates/explain/tests/hostile/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (explanation, _error) = explain::explain(&mut script::Script::new(bytes));
    script::check(explanation);
});
