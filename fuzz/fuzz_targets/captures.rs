//! Any bytes, of any format and compressed or not, are a capture or an error, and neither a panic nor a
//! flood of memory.

#![no_main]

use capture::{FORMATS, Fragments, Source, Summary};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    for format in FORMATS.into_iter().map(Some).chain([None]) {
        let Ok(mut source) = capture::read(file, "fuzz", format) else { continue };
        let (mut summary, mut fragments) = (Summary::default(), Fragments::default());
        let error = loop {
            match source.next() {
                Ok(Some(packet)) => {
                    assert!(packet.original_len as usize >= packet.bytes.len());
                    assert!(packet.network().is_none_or(|ip| ip.len() <= packet.bytes.len()));
                    if let Some(packet) = fragments.reassemble(packet) {
                        summary.add(&packet);
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        assert!(matches!(source.next(), Ok(None)), "nothing follows {error:?}");
    }
});
