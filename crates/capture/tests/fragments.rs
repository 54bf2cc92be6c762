//! IP fragments are reassembled, or counted as lost.

use std::time::Duration;

use capture::{Fragments, LinkType, Packet, fragments::MAX_HELD};
use etherparse::{IpFragOffset, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, PacketBuilder, ip_number};
use proptest::{collection::vec, prelude::*};

/// A segment with this much data, in IPv4 or IPv6.
fn segment(v6: bool, data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = if v6 {
        PacketBuilder::ipv6([1; 16], [2; 16], 64)
    } else {
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    };
    builder.tcp(1, 2, 3, 4).write(&mut packet, data).expect("memory takes all");
    packet
}

/// The packet's fragments, cut at these offsets in units of eight bytes.
fn fragments(packet: &[u8], cuts: &[usize], identification: u16) -> Vec<Vec<u8>> {
    let v6 = packet[0] >> 4 == 6;
    let data = &packet[if v6 { 40 } else { 20 }..];
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut * 8).filter(|cut| (1..data.len()).contains(cut)).collect();
    ends.push(data.len());
    ends.sort_unstable();
    ends.dedup();
    let mut begin = 0;
    let mut fragments = Vec::new();
    for end in ends {
        let offset = IpFragOffset::try_new((begin / 8) as u16).expect("a short packet");
        let more = end < data.len();
        let mut bytes = if v6 {
            let (mut ip, _) = Ipv6Header::from_slice(packet).expect("a header");
            ip.next_header = ip_number::IPV6_FRAGMENTATION_HEADER;
            ip.payload_length = (8 + end - begin) as u16;
            let fragment = Ipv6FragmentHeader::new(ip_number::TCP, offset, more, u32::from(identification));
            [ip.to_bytes().as_slice(), &fragment.to_bytes()].concat()
        } else {
            let (mut ip, _) = Ipv4Header::from_slice(packet).expect("a header");
            (ip.identification, ip.fragment_offset, ip.more_fragments) = (identification, offset, more);
            ip.dont_fragment = false;
            ip.total_len = (20 + end - begin) as u16;
            ip.to_bytes().to_vec()
        };
        bytes.extend(&data[begin..end]);
        fragments.push(bytes);
        begin = end;
    }
    fragments
}

fn packet(number: u64, bytes: &[u8]) -> Packet<'_> {
    Packet {
        number,
        time: Duration::from_millis(number),
        interface: 0,
        link: LinkType::RAW,
        direction: None,
        original_len: bytes.len() as u32,
        bytes,
    }
}

/// The number, length and bytes of each reassembled packet, as [`plain`] returns them.
fn reassembled(fragments: &mut Fragments, pieces: &[Vec<u8>]) -> Vec<(u64, u32, Vec<u8>)> {
    let mut seen = Vec::new();
    for (number, bytes) in pieces.iter().enumerate() {
        if let Some(packet) = fragments.reassemble(packet(number as u64, bytes)) {
            seen.push((packet.number, packet.original_len, plain(packet.bytes)));
        }
    }
    seen
}

/// The packet with identification, flags and checksum of its IPv4 header set to 0.
fn plain(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[4..8].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

proptest! {
    #[test]
    fn packet_is_reassembled_from_reordered_and_duplicated_fragments(
        v6 in any::<bool>(),
        data in vec(any::<u8>(), 1..3000),
        cuts in vec(0..400usize, 0..8),
        order in vec(any::<prop::sample::Index>(), 8),
        doubled in any::<prop::sample::Index>(),
    ) {
        let sent = segment(v6, &data);
        let mut pieces = fragments(&sent, &cuts, 7);
        for at in 1..pieces.len() {
            pieces.swap(at, order[at % 8].index(at + 1));
        }
        let double = doubled.index(pieces.len());
        let last = pieces.len() as u64;
        if pieces.len() > 1 {
            pieces.insert(double, pieces[double].clone());
        }
        let mut holder = Fragments::default();
        let seen = reassembled(&mut holder, &pieces);
        // The duplicated fragment may be the last one, and then begins another packet.
        let number = seen[0].0;
        prop_assert!(number == last || number + 1 == last);
        prop_assert_eq!(&seen, &[(number, sent.len() as u32, plain(&sent))]);
        prop_assert_eq!(holder.lost(), 0);
    }

    #[test]
    fn garbage_needs_bounded_memory(garbage in vec(vec(any::<u8>(), 0..100), 0..50)) {
        let mut holder = Fragments::default();
        for (number, mut bytes) in garbage.into_iter().enumerate() {
            if let Some(first) = bytes.first_mut() {
                *first = if number % 2 == 0 { 0x45 } else { 0x60 };
            }
            if number % 2 == 1 && bytes.len() > 6 {
                bytes[6] = 44;
            }
            let len = bytes.len();
            if let Some(whole) = holder.reassemble(packet(number as u64, &bytes)) {
                prop_assert!(whole.bytes.len() <= len + 50 * 100);
            }
        }
    }
}

#[test]
fn missing_fragment_loses_only_its_packet() {
    let (first, second) = (segment(false, &[1; 2000]), segment(false, &[2; 2000]));
    let mut pieces = fragments(&first, &[100, 200], 1);
    pieces.remove(1);
    pieces.extend(fragments(&second, &[100, 200], 2));
    pieces.push(segment(true, b"none"));
    let mut holder = Fragments::default();
    let seen = reassembled(&mut holder, &pieces);
    assert_eq!(seen.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(seen[0].2, plain(&second));
    assert_eq!(holder.lost(), 0);
    let later = fragments(&first, &[100], 3);
    let late = Packet { time: Duration::from_secs(61), ..packet(9, &later[0]) };
    assert_eq!(holder.reassemble(late), None);
    assert_eq!(holder.lost(), 1);
}

#[test]
fn overlapping_fragments_are_dropped() {
    let sent = segment(false, &[1; 2000]);
    let (one, other) = (fragments(&sent, &[100], 1), fragments(&sent, &[50], 1));
    let mut holder = Fragments::default();
    assert_eq!(reassembled(&mut holder, &[one[0].clone(), other[1].clone()]), []);
    assert_eq!(holder.lost(), 1);
}

#[test]
fn incomplete_packets_need_bounded_memory() {
    let sent = segment(false, &vec![1; 60_000]);
    let mut holder = Fragments::default();
    for identification in 0..500 {
        let piece = &fragments(&sent, &[7000], identification)[0];
        assert_eq!(holder.reassemble(packet(1, piece)), None);
    }
    assert!(holder.lost() >= 500 - (MAX_HELD / 56_000) as u64, "{}", holder.lost());
}

#[test]
fn truncated_fragments_give_a_truncated_packet() {
    let sent = segment(false, &[1; 2000]);
    let pieces = fragments(&sent, &[100], 1);
    let mut holder = Fragments::default();
    let cut = Packet { original_len: pieces[0].len() as u32, ..packet(1, &pieces[0][..60]) };
    assert_eq!(holder.reassemble(cut), None);
    let made = holder.reassemble(packet(2, &pieces[1])).expect("all fragments were seen");
    assert_eq!((made.original_len, plain(made.bytes)), (2040, plain(&sent)[..60].to_vec()));
}

#[test]
fn tunnel_in_fragments_is_reassembled_before_it_is_opened() {
    let data = vec![7; 1400];
    let inner = segment(false, &data);
    let mut outer = Vec::new();
    let builder = PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(50_000, 4789);
    let frame = [&[8, 0, 0, 0, 0, 0, 9, 0][..], &[2; 12], &[8, 0], &inner].concat();
    builder.write(&mut outer, &frame).expect("memory takes all");
    let mut reassembly = Fragments::default();
    let pieces = fragments(&outer, &[100], 9);
    assert_eq!(pieces.len(), 2);
    assert!(reassembly.reassemble(packet(1, &pieces[0])).is_none());
    let whole = reassembly.reassemble(packet(2, &pieces[1])).expect("the last fragment");
    let found = capture::tcp::Segment::of(&whole).expect("the segment inside");
    assert_eq!((found.data as usize, found.payload), (data.len(), &data[..]));
    // And the other way round: a tunnel that carries fragments.
    for piece in fragments(&inner, &[100], 9) {
        let mut outer = Vec::new();
        let frame = [&[8, 0, 0, 0, 0, 0, 9, 0][..], &[2; 12], &[8, 0], &piece].concat();
        let builder = PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(50_000, 4789);
        builder.write(&mut outer, &frame).expect("memory takes all");
        if let Some(whole) = reassembly.reassemble(packet(3, &outer)) {
            assert!(whole.network().is_some_and(|ip| ip[20..] == inner[20..]));
        }
    }
    assert_eq!(reassembly.lost(), 0);
}
