//! Any bytes are a capture or an error, and neither a panic nor a flood of memory.

#![no_main]

use capture::{Source, Summary, pcapng};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let mut reader = pcapng::Reader::new(file, "fuzz.pcapng");
    let mut summary = Summary::default();
    let error = loop {
        match reader.next() {
            Ok(Some(packet)) => {
                assert!(packet.bytes.len() <= file.len());
                summary.add(&packet);
            }
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    assert!(matches!(reader.next(), Ok(None)), "nothing follows {error:?}");
    pcapng::whole_blocks(file);
});
