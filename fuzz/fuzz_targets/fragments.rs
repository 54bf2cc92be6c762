//! Any fragments make whole packets or none, in bounded memory.

#![no_main]

use std::time::Duration;

use capture::{Fragments, LinkType, Packet};

libfuzzer_sys::fuzz_target!(|packets: Vec<(u16, u16, Vec<u8>)>| {
    let mut fragments = Fragments::default();
    for (number, (seconds, cut, bytes)) in packets.iter().enumerate() {
        let packet = Packet {
            number: number as u64,
            time: Duration::from_secs(u64::from(*seconds)),
            interface: 0,
            link: LinkType::RAW,
            direction: None,
            original_len: bytes.len() as u32 + u32::from(*cut),
            bytes,
        };
        if let Some(whole) = fragments.reassemble(packet) {
            assert!(whole.original_len as usize >= whole.bytes.len());
            assert!(whole.bytes.len() <= bytes.len().max(0x20000));
        }
    }
    assert!(fragments.lost() <= packets.len() as u64);
});
