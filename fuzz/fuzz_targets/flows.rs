//! Any capture is explained or refused; the times of each transfer add up to its duration.

#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let Ok(mut source) = capture::read(file, "fuzz", None) else { return };
    let (explanation, _) = explain::explain(&mut *source);
    for transfer in explanation.connections.iter().flat_map(|connection| &connection.transfers) {
        assert_eq!(u128::from(transfer.times.sum()), transfer.duration.as_nanos());
    }
});
