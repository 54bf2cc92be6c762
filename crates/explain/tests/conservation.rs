//! For arbitrary packets, every instant of a transfer belongs to one cause, and nothing panics.

use std::time::Duration;

use capture::{Error, LinkType, Packet, Source};
use etherparse::{PacketBuilder, TcpOptionElement};
use explain::{Explanation, explain};
use proptest::{collection::vec, prelude::*, sample::select};

/// A packet between two ends, with numbers near enough to mean something now and then.
#[derive(Debug, Clone)]
struct Said {
    up: bool,
    after: u64,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    sack: Option<(u32, u32)>,
    text: Vec<u8>,
}

/// Numbers that wrap, repeat and jump.
fn number() -> impl Strategy<Value = u32> {
    let near = (0..40_u32).prop_map(|step| (u32::MAX - 7000).wrapping_add(step * 724));
    prop_oneof![20 => near, 1 => any::<u32>()]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let told = select(vec![
        "GET / HTTP/1.1\r\n\r\n",
        "PUT /file HTTP/1.1\r\nContent-Length: 5000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x04\x08\0\0\0\0\0\0\0\x01\0",
        "\x16\x03\x01\0\x05hello\x17\x03\x03\0\x20",
        "",
    ]);
    prop_oneof![3 => told.prop_map(|text| text.as_bytes().to_vec()), 3 => vec(any::<u8>(), 0..80),
        6 => (0..1460_usize).prop_map(|len| vec![7; len])]
}

fn said() -> impl Strategy<Value = Said> {
    let after = prop_oneof![0..3_u64, 0..3_000_000_u64, 0..400_000_000_u64, 0..9_000_000_000_u64];
    let flags =
        prop_oneof![12 => Just(16_u8), 3 => Just(24), 1 => Just(2), 1 => Just(18), 1 => Just(17), 1 => any::<u8>()];
    let window = prop_oneof![Just(0_u16), Just(1000), Just(8760), any::<u16>()];
    let sack = proptest::option::weighted(0.2, (number(), number()));
    (any::<bool>(), after, number(), number(), flags, window, sack, text()).prop_map(
        |(up, after, sequence, acknowledgement, flags, window, sack, text)| Said {
            up,
            after,
            sequence,
            acknowledgement,
            flags,
            window,
            sack,
            text,
        },
    )
}

/// Packets in memory, each with its time in nanoseconds, cut to so many bytes.
struct Talk {
    packets: Vec<(u64, Vec<u8>)>,
    next: usize,
    cut: usize,
}

impl Source for Talk {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        self.next += 1;
        Ok(self.packets.get(self.next - 1).map(|(time, bytes)| Packet {
            number: self.next as u64,
            time: Duration::from_nanos(*time),
            interface: 0,
            link: LinkType::RAW,
            direction: None,
            original_len: bytes.len() as u32,
            bytes: &bytes[..bytes.len().min(self.cut)],
        }))
    }
}

fn explained(talk: &[Said], cut: usize) -> Explanation {
    let mut packets = Vec::new();
    let mut time = 1_000_000_000_000_000_000;
    for said in talk {
        time += said.after;
        let (from, to) = if said.up { ([10, 0, 0, 1], [10, 0, 0, 2]) } else { ([10, 0, 0, 2], [10, 0, 0, 1]) };
        let (source, destination) = if said.up { (40_000, 80) } else { (80, 40_000) };
        let mut options = vec![TcpOptionElement::Timestamp(time as u32 / 1_000_000, said.acknowledgement)];
        options.extend(said.sack.map(|block| TcpOptionElement::SelectiveAcknowledgement(block, [None; 3])));
        let mut builder = PacketBuilder::ipv4(from, to, 64)
            .tcp(source, destination, said.sequence, said.window)
            .options(&options)
            .expect("they fit");
        let flags = said.flags;
        for (bit, set) in [1, 2, 4, 8].map(|bit| (bit, flags & bit != 0)) {
            builder = match (bit, set) {
                (1, true) => builder.fin(),
                (2, true) => builder.syn(),
                (4, true) => builder.rst(),
                (8, true) => builder.psh(),
                _ => builder,
            };
        }
        if flags & 16 != 0 {
            builder = builder.ack(said.acknowledgement);
        }
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &said.text).expect("memory takes all");
        packets.push((time, bytes));
    }
    explain(&mut Talk { packets, next: 0, cut }).0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn times_add_up(talk in vec(said(), 0..60), cut in prop_oneof![Just(usize::MAX), 40..200_usize]) {
        let explanation = explained(&talk, cut);
        for transfer in explanation.connections.iter().flat_map(|connection| &connection.transfers) {
            prop_assert_eq!(u128::from(transfer.times.sum()), transfer.duration.as_nanos());
        }
    }
}
