//! Any lines are a printed capture, and each packet made of them has the headers it claims.

#![no_main]

use capture::{Format, Source};

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    for format in [Format::Snoop, Format::Tcpdump] {
        let Ok(mut source) = capture::read(text, "fuzz", Some(format)) else { continue };
        while let Ok(Some(packet)) = source.next() {
            let Some(ip) = packet.network() else { continue };
            assert_eq!(ip.len(), packet.bytes.len());
            assert!(packet.bytes.len() <= 40 + 60);
            let from = <[u8; 4]>::try_from(&ip[12..16]).expect("four bytes");
            if ip[0] >> 4 == 4 {
                let _ = source.name(from.into());
            }
        }
    }
});
