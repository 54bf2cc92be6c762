//! Properties of every cable, with random stages and random packets.

#[path = "../src/test_packets.rs"]
mod test_packets;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use link::{
    chain::{Chain, Output},
    lanes::Lanes,
    packet::Packet,
    spec::LinkSpec,
    stage::Direction::{self, Down, Up},
};
use proptest::{collection::vec, prelude::*, sample::select};
use test_packets::{Segment, answer_to, checksums_are_right, icmp_error, ping, tcp, tcp6, udp, with_checksums};
use units::Rate;

/// Both directions of a cable, run to exact times.
struct Cable {
    start: Instant,
    chains: [Chain; 2],
    back: [Vec<usize>; 2],
    delivered: Vec<(Direction, Duration, Packet)>,
}

fn other(direction: Direction) -> Direction {
    if direction == Up { Down } else { Up }
}

impl Cable {
    fn new(spec: &LinkSpec) -> Self {
        let Lanes { up, down } = spec.lanes().unwrap();
        let chains = [Chain::new(up.stages), Chain::new(down.stages)];
        Self { start: Instant::now(), chains, back: [up.back, down.back], delivered: Vec::new() }
    }

    /// Runs all events until then.
    fn run(&mut self, until: Duration) {
        loop {
            let wakes = [Up, Down].into_iter().filter_map(|way| Some((self.chains[way as usize].wake()?, way)));
            let Some((at, way)) = wakes.min_by_key(|(at, _)| *at).filter(|(at, _)| *at <= self.start + until) else {
                return;
            };
            let mut output = Output::default();
            self.chains[way as usize].run(at, &mut output);
            self.take(way, output);
        }
    }

    fn push(&mut self, way: Direction, bytes: Vec<u8>, at: Duration) {
        self.run(at);
        let mut output = Output::default();
        self.chains[way as usize].push(0, Packet::new(bytes), self.start + at, &mut output);
        self.take(way, output);
    }

    fn change(&mut self, spec: &LinkSpec, at: Duration) {
        self.run(at);
        let Lanes { up, down } = spec.lanes().unwrap();
        self.back = [up.back, down.back];
        let mut outputs = [Output::default(), Output::default()];
        for ((chain, stages), output) in self.chains.iter_mut().zip([up.stages, down.stages]).zip(&mut outputs) {
            chain.replace(stages, self.start + at, output);
        }
        let [up, down] = outputs;
        self.take(Up, up);
        self.take(Down, down);
    }

    fn take(&mut self, way: Direction, output: Output) {
        let start = self.start;
        self.delivered.extend(output.delivered.into_iter().map(|(at, packet)| (way, at - start, packet)));
        for (at, stage, packet) in output.back {
            let place = self.back[way as usize][stage];
            let mut output = Output::default();
            self.chains[other(way) as usize].push(place, packet, at, &mut output);
            self.take(other(way), output);
        }
    }

    /// Runs until there are no more events. Returns the delivered packets.
    fn finish(mut self) -> Vec<(Direction, Duration, Packet)> {
        for _ in 0..100_000 {
            let Some(at) = self.chains.iter().filter_map(Chain::wake).min() else { return self.delivered };
            self.run(at - self.start);
        }
        panic!("the cable does not become idle");
    }
}

#[derive(Debug, Clone)]
struct Sent {
    way: Direction,
    at: Duration,
    bytes: Vec<u8>,
}

/// These packets in both directions, a few hundred microseconds apart.
fn traffic(packets: impl Strategy<Value = (Direction, Vec<u8>)>) -> impl Strategy<Value = Vec<Sent>> {
    vec((packets, 0..600_000u64), 1..120).prop_map(|packets| {
        let mut at = Duration::ZERO;
        let sent = packets.into_iter().map(|((way, bytes), gap)| {
            at += Duration::from_nanos(gap);
            Sent { way, at, bytes }
        });
        sent.collect()
    })
}

fn way() -> impl Strategy<Value = Direction> + Clone {
    select(vec![Up, Down])
}

/// TCP segments of a few connections, with sequence numbers close to one another.
fn segments() -> impl Strategy<Value = (Direction, Vec<u8>)> {
    let options = vec(
        select(vec![
            vec![1],
            vec![2, 4, 4, 136],
            vec![3, 3, 7],
            vec![4, 2],
            vec![5, 10, 0, 0, 0, 1, 0, 0, 0, 9],
            vec![8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            vec![34, 10, 1, 2, 3, 4, 5, 6, 7, 8],
            vec![254, 4, 0xf9, 0x89],
            vec![34, 0],
            vec![0],
        ]),
        0..4,
    );
    let numbers = (1u16..5, 0u32..5000, proptest::option::of(0u32..5000), 0usize..1400, any::<u16>());
    (way(), numbers, 0u8..40, options, any::<bool>()).prop_map(|(way, numbers, flags, options, v6)| {
        let (port, seq, ack, payload, window) = numbers;
        let (syn, fin, rst) = (flags == 0 || flags > 36, flags == 1, flags == 2);
        let mut options = options.concat();
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 1);
        let payload = if flags % 2 == 0 { 0 } else { payload };
        let down = way == Down;
        let segment = Segment { down, port, seq, ack, syn, fin, rst, window, options, payload };
        (way, if v6 { tcp6(segment) } else { tcp(segment) })
    })
}

/// Complete packets of all kinds, with correct checksums.
fn whole() -> impl Strategy<Value = (Direction, Vec<u8>)> {
    let pings =
        (way(), any::<(bool, bool, u16)>()).prop_map(|(way, (v6, reply, id))| (way, ping(v6, way == Down, reply, id)));
    let datagrams = vec(any::<u8>(), 0..1400).prop_map(|payload| (Up, udp(&payload)));
    let errors = segments().prop_map(|(way, bytes)| (other(way), icmp_error(&bytes)));
    let unsummed = vec(any::<u8>(), 0..100).prop_map(|payload| {
        let mut bytes = udp(&payload);
        bytes[26..28].copy_from_slice(&[0, 0]);
        (Up, bytes)
    });
    // The response to a packet after NAT.
    let answers = segments().prop_filter_map("goes up", |(way, mut bytes)| {
        if way == Down || bytes[0] >> 4 == 6 {
            return None;
        }
        bytes[12..16].copy_from_slice(&[203, 0, 113, 1]);
        Some((Down, answer_to(&with_checksums(bytes))))
    });
    prop_oneof![6 => segments(), 1 => pings, 1 => datagrams, 1 => errors, 1 => unsummed, 1 => answers]
}

/// An IP header with a protocol, but without payload.
fn header_only(v6: bool, way: Direction, protocol: u8) -> Vec<u8> {
    let mut bytes = ping(v6, way == Down, false, 1);
    let (len, total_len, place) = if v6 { (40, 4, 6) } else { (20, 2, 9) };
    bytes.truncate(len);
    bytes[place] = protocol;
    bytes[total_len..total_len + 2].copy_from_slice(&[0, if v6 { 0 } else { 20 }]);
    bytes
}

/// Random bytes, some of which are packets.
fn garbage() -> impl Strategy<Value = (Direction, Vec<u8>)> {
    let noise = (way(), vec(any::<u8>(), 1..200));
    let damaged = (whole(), any::<(u16, u16, u8)>()).prop_map(|((way, mut bytes), (cut, place, byte))| {
        let place = usize::from(place) % bytes.len().min(80);
        bytes[place] ^= byte;
        bytes.truncate(usize::from(cut) % bytes.len() + 1);
        (way, bytes)
    });
    let whole_but = (whole(), any::<(u8, u8)>()).prop_map(|((way, mut bytes), (place, byte))| {
        let place = usize::from(place) % bytes.len().min(80);
        bytes[place] = byte;
        (way, bytes)
    });
    let versioned = (noise.clone(), select(vec![0x45u8, 0x4f, 0x60])).prop_map(|((way, mut bytes), version)| {
        bytes[0] = version;
        (way, bytes)
    });
    let empty = (way(), any::<(bool, u8)>()).prop_map(|(way, (v6, protocol))| (way, header_only(v6, way, protocol)));
    prop_oneof![noise, damaged, whole_but, versioned, empty]
}

/// Cables that neither lose nor change packets.
fn faithful(reorder: bool) -> impl Strategy<Value = LinkSpec> {
    let jitter = if reorder { "2ms normal reorder" } else { "2ms normal" };
    let lines = (
        select(vec!["", "rtt = '1ms'", "rtt = '18ms'", "rtt = '2ms/13ms'"]),
        select(vec![
            String::new(),
            "jitter = '300us'".into(),
            "jitter = '0ms/900us'".into(),
            format!("jitter = '{jitter}'"),
        ]),
        select(vec!["", "rate = '7mbit/100mbit'\nqueue = 'infinite'", "rate = '1gbit'\nqueue = '10000p'"]),
        if reorder { select(vec!["", "reorder = '10% 700us'"]) } else { select(vec![""]) },
        any::<u32>(),
    );
    lines.prop_map(|(rtt, jitter, rate, reorder, seed)| {
        toml::from_str(&format!("{rtt}\n{jitter}\n{rate}\n{reorder}\nseed = {seed}")).unwrap()
    })
}

/// All middleboxes, with various parameters.
const MIDDLEBOXES: &[&str] = &[
    "strip-option:kind=34",
    "strip-option:kind=254",
    "strip-tfo",
    "strip-sack",
    "strip-timestamps",
    "strip-wscale",
    "drop-unknown-options",
    "drop-unknown-options:known=34",
    "drop-syn-data",
    "hold-acks",
    "hold-acks:rule=packets",
    "hold-acks:at=client,timer=1ms",
    "reset:bytes=3KB",
    "reset:after=5ms",
    "reset:syn=2,at=client",
    "silent:after=5ms,for=2ms",
    "silent:bytes=9KB,way=down",
    "nat",
    "nat:renew=connection",
    "nat:renew=1ms,at=server",
];

/// Cables with any stages, and up to four middleboxes.
fn any_cable() -> impl Strategy<Value = LinkSpec> {
    let lines = (
        faithful(true),
        proptest::sample::subsequence(MIDDLEBOXES, 0..4),
        select(vec!["", "mtu = 576", "mtu = 1300", "mtu = '1000 black-hole'", "mtu = 9000"]),
        select(vec!["", "loss = '10%'", "loss = 'ge:p=5%,r=30%'", "loss = '20%/ge:p=5%,r=30%'", "duplicate = '10%'"]),
        select(vec![
            "",
            "rate = '3mbit'\nqueue = 'codel'",
            "rate = '3mbit'\nqueue = '3p'",
            "rate = '3mbit'\nqueue = '4KB'",
        ]),
    );
    lines.prop_map(|(faithful, middleboxes, mtu, loss, rate)| {
        let mut spec: LinkSpec = toml::from_str(&format!("{mtu}\n{loss}\n{rate}")).unwrap();
        spec.middlebox = middleboxes.iter().map(|text| text.parse().unwrap()).collect();
        (spec.rtt, spec.jitter, spec.reorder, spec.seed) =
            (faithful.rtt, faithful.jitter, faithful.reorder, faithful.seed);
        spec
    })
}

/// The output of a cable. It also runs at each of these times in between.
fn carry(spec: &LinkSpec, sent: &[Sent], moments: &[Duration]) -> Vec<(Direction, Duration, Packet)> {
    let mut cable = Cable::new(spec);
    let mut moments = moments.iter().peekable();
    for Sent { way, at, bytes } in sent {
        while let Some(moment) = moments.next_if(|moment| *moment < at) {
            cable.run(*moment);
        }
        cable.push(*way, bytes.clone(), *at);
    }
    cable.finish()
}

fn count<'a>(packets: impl Iterator<Item = (Direction, &'a [u8])>) -> BTreeMap<(Direction, &'a [u8]), usize> {
    let mut counts = BTreeMap::new();
    for packet in packets {
        *counts.entry(packet).or_default() += 1;
    }
    counts
}

fn of_delivered(delivered: &[(Direction, Duration, Packet)]) -> impl Iterator<Item = (Direction, &[u8])> {
    delivered.iter().map(|(way, _, packet)| (*way, &packet.bytes[..]))
}

fn of_sent(sent: &[Sent]) -> impl Iterator<Item = (Direction, &[u8])> {
    sent.iter().map(|sent| (sent.way, &sent.bytes[..]))
}

#[test]
fn packets_without_payload_pass_unharmed() {
    for middlebox in MIDDLEBOXES {
        let mut cable = Cable::new(&toml::from_str(&format!("mtu = 68\nmiddlebox = ['{middlebox}']")).unwrap());
        for (v6, protocol) in [false, true].into_iter().flat_map(|v6| (0..=255).map(move |protocol| (v6, protocol))) {
            for way in [Up, Down] {
                cable.push(way, header_only(v6, way, protocol), Duration::ZERO);
            }
        }
        cable.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_packet_is_lost_or_invented(spec in faithful(true), sent in traffic(whole())) {
        let delivered = carry(&spec, &sent, &[]);
        prop_assert_eq!(count(of_delivered(&delivered)), count(of_sent(&sent)));
    }

    #[test]
    fn packets_stay_in_order_and_are_never_early(spec in faithful(false), sent in traffic(whole())) {
        let delivered = carry(&spec, &sent, &[]);
        for way in [Up, Down] {
            let sent = sent.iter().filter(|sent| sent.way == way);
            let delivered = delivered.iter().filter(|(other, ..)| *other == way);
            let pairs: Vec<_> = sent.zip(delivered).collect();
            for (sent, (_, at, packet)) in &pairs {
                prop_assert_eq!(&sent.bytes, &packet.bytes);
                prop_assert!(*at >= sent.at + spec.rtt.of(way));
            }
            prop_assert!(pairs.is_sorted_by_key(|(_, (_, at, _))| at));
        }
    }

    #[test]
    fn loss_and_duplication_do_not_affect_other_packets(
        percent in 0.0..100.0f64,
        seed in any::<u32>(),
        sent in traffic(whole()),
    ) {
        let lossy = toml::from_str(&format!("rtt = '9ms'\nloss = '{percent}%'\nseed = {seed}")).unwrap();
        let doubling = toml::from_str(&format!("rtt = '9ms'\nduplicate = '{percent}%'\nseed = {seed}")).unwrap();
        let all = count(of_sent(&sent));
        let (lossy, doubling) = (carry(&lossy, &sent, &[]), carry(&doubling, &sent, &[]));
        prop_assert!(count(of_delivered(&lossy)).iter().all(|(packet, times)| *times <= all[packet]));
        let doubled = count(of_delivered(&doubling));
        prop_assert!(all.iter().all(|(packet, times)| (*times..=2 * times).contains(&doubled[packet])));
        prop_assert_eq!(doubled.len(), all.len());
    }

    #[test]
    fn same_input_and_seed_give_the_same_output(
        spec in any_cable(),
        sent in traffic(whole()),
        mut moments in vec((0..20_000_000u64).prop_map(Duration::from_nanos), 0..50),
    ) {
        moments.sort_unstable();
        prop_assert_eq!(carry(&spec, &sent, &[]), carry(&spec, &sent, &moments));
    }

    #[test]
    fn randomness_of_one_direction_is_independent_of_the_other(
        spec in faithful(true),
        loss in 0.0..50.0f64,
        sent in traffic(whole()),
    ) {
        let lost = toml::from_str::<LinkSpec>(&format!("loss = '{loss}%'\nduplicate = '5%'\ncorrupt = '5%'")).unwrap();
        let spec = LinkSpec { loss: lost.loss, duplicate: lost.duplicate, corrupt: lost.corrupt, ..spec };
        let only_up: Vec<_> = sent.iter().filter(|sent| sent.way == Up).cloned().collect();
        let mut both = carry(&spec, &sent, &[]);
        both.retain(|(way, ..)| *way == Up);
        prop_assert_eq!(both, carry(&spec, &only_up, &[]));
    }

    #[test]
    fn checksums_stay_correct(spec in any_cable(), sent in traffic(whole())) {
        prop_assert!(sent.iter().all(|sent| checksums_are_right(&sent.bytes)));
        for (_, _, packet) in carry(&spec, &sent, &[]) {
            prop_assert!(checksums_are_right(&packet.bytes), "{:?}", packet);
        }
    }

    #[test]
    fn malformed_packets_cause_no_panic(spec in any_cable(), sent in traffic(garbage())) {
        // `carry` checks that it becomes idle.
        carry(&spec, &sent, &[]);
    }

    #[test]
    fn changed_cable_becomes_idle(
        specs in vec(any_cable(), 2..5),
        sent in traffic(prop_oneof![whole(), garbage()]),
    ) {
        let mut cable = Cable::new(&specs[0]);
        for (n, Sent { way, at, bytes }) in sent.iter().enumerate() {
            if n % 10 == 9 {
                cable.change(&specs[n / 10 % specs.len()], *at);
            }
            cable.push(*way, bytes.clone(), *at);
        }
        cable.finish();
    }

    #[test]
    fn change_of_stages_loses_and_reorders_no_packet(
        specs in vec(faithful(false), 1..5),
        sent in traffic(whole()),
    ) {
        let spec = |n: usize| specs[n % specs.len()].clone();
        let mut cable = Cable::new(&spec(0));
        for (n, Sent { way, at, bytes }) in sent.iter().enumerate() {
            if n % 7 == 6 {
                cable.change(&spec(n / 7), *at);
            }
            cable.push(*way, bytes.clone(), *at);
        }
        let delivered = cable.finish();
        for way in [Up, Down] {
            let sent = of_sent(&sent).filter(|(other, _)| *other == way);
            prop_assert!(of_delivered(&delivered).filter(|(other, _)| *other == way).eq(sent));
        }
    }

    #[test]
    fn rate_is_exact_to_the_nanosecond(
        rate in 1_000u64..100_000_000_000,
        packets in vec((1usize..3000, 0u64..3_000_000), 1..60),
    ) {
        let rate = Rate::bits_per_second(rate);
        let toml = format!("rate = '{}bit'\nqueue = 'infinite'", rate.as_bits_per_second());
        let mut cable = Cable::new(&toml::from_str(&toml).unwrap());
        let rate = u128::from(rate.as_bits_per_second());
        // In units of 1/rate ns, in which every time is an integer.
        let (mut now, mut free, mut expected) = (0u128, 0u128, Vec::new());
        for (size, gap) in packets {
            now += u128::from(gap);
            cable.push(Up, vec![0; size], Duration::from_nanos(now as u64));
            free = free.max(now * rate) + size as u128 * 8 * 1_000_000_000;
            expected.push(free.div_ceil(rate));
        }
        let left: Vec<_> = cable.finish().iter().map(|(_, at, _)| at.as_nanos()).collect();
        prop_assert_eq!(left, expected);
    }
}
