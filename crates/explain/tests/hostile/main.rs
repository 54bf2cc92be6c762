//! Arbitrary packets: the explanation terminates, and the causes add up.

use std::time::{Duration, Instant};

use capture::{Source, pcapng};
use packets::{STEP, Script, check};
use proptest::{collection::vec, prelude::*, sample::Index};

mod packets;

/// Maximum time to explain a few hundred packets, also on a busy machine.
const TIME_LIMIT: Duration = Duration::from_mins(1);

fn explain_and_check(source: &mut dyn Source) {
    let began = Instant::now();
    let (explanation, _error) = explain::explain(source);
    check(explanation);
    assert!(began.elapsed() < TIME_LIMIT, "took {:?}", began.elapsed());
}

/// A capture of scripted packets, truncated to `snaplen` bytes.
fn captured(script: &[u8], snaplen: Option<u32>) -> Vec<u8> {
    let mut script = Script::new(script);
    let mut writer = pcapng::Writer::new(Vec::new()).unwrap();
    let interface = writer.interface("any", capture::LinkType::RAW, snaplen).unwrap();
    while let Some(packet) = script.next().unwrap() {
        writer.packet(interface, packet.time, packet.direction, packet.bytes).unwrap();
    }
    writer.into_output()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn arbitrary_packets_are_explained(script in vec(any::<u8>(), 0..100 * STEP)) {
        explain_and_check(&mut Script::new(&script));
    }

    #[test]
    fn arbitrary_packets_of_one_connection_are_explained(mut script in vec(any::<u8>(), 0..100 * STEP)) {
        for step in script.chunks_mut(STEP) {
            step[0] &= 4;
        }
        explain_and_check(&mut Script::new(&script));
    }

    #[test]
    fn truncated_packets_are_explained(script in vec(any::<u8>(), STEP..100 * STEP), snaplen in 40..200_u32) {
        let file = captured(&script, Some(snaplen));
        explain_and_check(&mut pcapng::Reader::new(&file[..], "truncated"));
    }

    #[test]
    fn arbitrary_captures_of_both_ends_are_paired(
        script in vec(any::<u8>(), STEP..100 * STEP),
        flips in vec((any::<Index>(), any::<u8>()), 0..20),
    ) {
        let mut other = script.clone();
        for (index, bits) in flips {
            let index = index.index(other.len());
            other[index] ^= bits;
        }
        let store = explain::PacketStore::default();
        let keep = explain::KeepPackets { for_pairing: true, for_page: Some(&store) };
        let ends = [&script, &other].map(|script| explain::explain_keeping(&mut Script::new(script), keep).0);
        let paired = explain::pair_captures(ends);
        for page in explain::page_loads(&paired) {
            prop_assert_eq!(u128::from(page.times.sum()), page.duration.as_nanos());
        }
        let names = ["one".to_owned(), "other".to_owned()];
        let captures = names.clone().map(|name| explain::render::ReadCapture { name, ..Default::default() });
        let request = explain::render::PredictionRequest::default();
        serde_json::to_writer(std::io::sink(), &explain::render::json::document(&captures, &paired, &request)).unwrap();
        serde_json::to_writer(std::io::sink(), &explain::render::page::document(&names, &paired, 1, &request)).unwrap();
        explain::render::text::render(&paired, 1, &request, &explain::render::text::Layout { width: 100, colour: false, top: 5 });
    }

    #[test]
    fn damaged_capture_is_explained_up_to_the_damage(
        script in vec(any::<u8>(), STEP..100 * STEP),
        flips in vec((any::<Index>(), any::<u8>()), 0..20),
        cut in any::<Index>(),
    ) {
        let mut file = captured(&script, None);
        for (index, bits) in flips {
            let index = index.index(file.len());
            file[index] ^= bits;
        }
        file.truncate(cut.index(2 * file.len()));
        if let Ok(mut source) = capture::read(&file[..], "damaged", None) {
            explain_and_check(&mut *source);
        }
    }
}
