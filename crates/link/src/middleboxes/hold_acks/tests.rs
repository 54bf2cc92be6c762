use crate::{
    headers::Tcp,
    middleboxes::tests::Bench,
    stage::Direction::{Down, Up},
    test_packets::{Segment, segment, tcp},
};

const MSS: [u8; 4] = [2, 4, 4, 136]; // 1160, as in the printed trace

/// An upload from the client, seen from the sender: the sequence starts at 1.
struct Upload {
    bench: Bench,
    sent: u32,
}

impl Upload {
    fn new(middlebox: &str) -> Self {
        let mut upload = Self { bench: Bench::new(middlebox), sent: 1 };
        let syn = Segment { port: 1, syn: true, options: MSS.to_vec(), ..Segment::default() };
        assert!(upload.bench.passes(Up, 0, tcp(syn.clone())));
        assert!(upload.bench.passes(Down, 0, tcp(Segment { down: true, ack: Some(1), ..syn })));
        upload
    }

    fn data(&mut self, ms: u64, payload: usize) {
        let data = Segment { port: 1, seq: self.sent, ack: Some(1), payload, ..Segment::default() };
        assert!(self.bench.passes(Up, ms, tcp(data)));
        self.sent += payload as u32;
    }

    /// Whether an ACK passes at once.
    fn ack(&mut self, ms: u64, number: u32) -> bool {
        self.bench.passes(Down, ms, tcp(ack(number)))
    }

    /// The ACKs that come later, up to a time.
    fn late(&mut self, ms: u64) -> Vec<u32> {
        self.bench.run(ms);
        let late = self.bench.take_new();
        late.iter().map(|(_, packet)| Tcp::of(&packet.bytes).unwrap().acknowledgment_number()).collect()
    }
}

fn ack(number: u32) -> Segment {
    Segment { down: true, port: 1, seq: 1, ack: Some(number), window: 9280, ..Segment::default() }
}

/// Sends seven segments of 1160 bytes and one of 97, each acknowledged, and says which ACKs pass
/// at once.
fn chunk(upload: &mut Upload, ms: u64) -> Vec<u32> {
    let mut at_once = Vec::new();
    for payload in [1160, 1160, 1160, 1160, 1160, 1160, 1160, 97] {
        upload.data(ms, payload);
        if upload.ack(ms, upload.sent) {
            at_once.push(upload.sent);
        }
    }
    at_once
}

#[test]
fn mss_rule_delays_the_odd_segment_until_the_timer() {
    let mut upload = Upload::new("hold-acks:timer=100ms");
    assert_eq!(chunk(&mut upload, 1), [2321, 4641, 6961]);
    assert_eq!(upload.late(100), [0; 0]);
    assert_eq!(upload.late(101), [8218]);
    assert_eq!(chunk(&mut upload, 200).len(), 3);
    assert_eq!(upload.late(300), [16435]);
}

#[test]
fn packet_rule_does_not_delay_the_odd_segment() {
    let mut upload = Upload::new("hold-acks:rule=packets");
    assert_eq!(chunk(&mut upload, 1), [2321, 4641, 6961, 8218]);
    upload.data(2, 5);
    assert!(!upload.ack(2, upload.sent));
    assert_eq!((upload.late(201), upload.late(202)), (vec![], vec![8223]));
}

#[test]
fn timer_starts_with_the_first_held_ack_and_the_last_is_sent() {
    let mut upload = Upload::new("hold-acks:timer=50ms");
    upload.data(1, 100);
    assert!(!upload.ack(1, 101));
    upload.data(31, 100);
    assert!(!upload.ack(31, 201));
    assert_eq!(upload.late(51), [201]);
    assert_eq!(upload.late(500), [0; 0]);
}

#[test]
fn timer_starts_with_the_segment_not_its_ack() {
    for rule in ["mss", "packets"] {
        let mut upload = Upload::new(&format!("hold-acks:rule={rule},timer=100ms"));
        upload.data(1, 100);
        assert!(!upload.ack(41, upload.sent)); // as late as Linux sends it
        assert_eq!((upload.late(100), upload.late(101)), (vec![], vec![101]));
        upload.data(200, 100);
        assert!(upload.ack(300, upload.sent)); // overdue
        // Of two segments one is acknowledged; the timer of the other counts from its own.
        upload.data(400, 1160);
        upload.data(430, 100);
        upload.sent -= 100;
        assert!(!upload.ack(440, upload.sent));
        upload.sent += 100;
        assert_eq!(upload.late(500), [1361]);
        assert!(!upload.ack(501, upload.sent));
        assert_eq!((upload.late(529), upload.late(530)), (vec![], vec![1461]));
    }
}

#[test]
fn full_segment_is_smaller_if_both_ends_use_timestamps() {
    let with = [&MSS[..], &[8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1]].concat();
    for (options, at_once) in [(MSS.to_vec(), false), (with.clone(), true)] {
        let mut bench = Bench::new("hold-acks");
        let syn = Segment { port: 1, syn: true, options: with.clone(), ..Segment::default() };
        for _ in 0..300 {
            assert!(bench.passes(Up, 0, tcp(syn.clone()))); // again and again
            let both = Segment { down: true, ack: Some(1), options: options.clone(), ..syn.clone() };
            assert!(bench.passes(Down, 0, tcp(both)));
        }
        let data = Segment { port: 1, seq: 1, ack: Some(1), payload: 2296, ..Segment::default() };
        assert!(bench.passes(Up, 1, tcp(data)));
        assert_eq!(bench.passes(Down, 1, tcp(ack(2297))), at_once);
    }
}

#[test]
fn acks_that_must_be_immediate_are_not_held() {
    let mut upload = Upload::new("hold-acks");
    upload.data(1, 100);
    assert!(!upload.ack(1, 101));
    // An update of the window carries the held acknowledgment on, and takes its place.
    assert!(upload.bench.passes(Down, 2, tcp(Segment { window: 1, ..ack(101) })));
    assert!(upload.ack(2, 101)); // a duplicate
    upload.data(3, 100);
    assert!(!upload.ack(3, 201));
    // Data from the receiver; then an ACK with a SACK block, after a lost segment.
    assert!(upload.bench.passes(Down, 4, tcp(Segment { payload: 9, ..ack(201) })));
    let sack = [1, 1, 5, 10, 0, 0, 1, 200, 0, 0, 2, 0];
    assert!(upload.bench.passes(Down, 4, tcp(Segment { options: sack.to_vec(), ..ack(220) })));
    assert_eq!(upload.late(1000), [0; 0]);
}

#[test]
fn ack_of_a_retransmission_is_not_held() {
    let mut upload = Upload::new("hold-acks");
    upload.data(1, 100);
    assert!(!upload.ack(1, 101));
    upload.sent = 1;
    upload.data(2, 100); // again
    assert!(upload.ack(2, 101));
    upload.data(3, 50);
    assert!(!upload.ack(3, 151));
    upload.sent = 500; // a gap
    upload.data(4, 50);
    assert!(upload.ack(4, 151));
}

#[test]
fn fin_and_its_ack_are_not_held() {
    let mut upload = Upload::new("hold-acks");
    upload.data(1, 100);
    assert!(!upload.ack(1, 101));
    let fin = Segment { port: 1, seq: 101, ack: Some(1), fin: true, ..Segment::default() };
    assert!(upload.bench.passes(Up, 2, tcp(fin)));
    assert!(upload.ack(2, 102));
    assert_eq!(upload.late(1000), [0; 0]);
}

#[test]
fn reset_releases_the_held_ack() {
    let mut upload = Upload::new("hold-acks");
    upload.data(1, 100);
    assert!(!upload.ack(1, 101));
    let rst = Segment { port: 1, seq: 101, rst: true, ..Segment::default() };
    assert!(upload.bench.passes(Up, 2, tcp(rst)));
    assert_eq!(upload.late(2), [101]);
    assert_eq!(upload.late(1000), [0; 0]);
}

#[test]
fn at_client_holds_the_acks_of_a_download() {
    let mut bench = Bench::new("hold-acks:at=client,timer=10ms");
    assert!(bench.passes(Up, 0, tcp(Segment { seq: 5, ack: Some(50), ..segment(0) })));
    assert!(bench.passes(Down, 1, tcp(Segment { down: true, seq: 50, ack: Some(5), ..segment(500) })));
    assert!(!bench.passes(Up, 2, tcp(Segment { seq: 5, ack: Some(550), ..segment(0) })));
    bench.run(12);
    assert_eq!(bench.take_new().len(), 1);
}

#[test]
fn connections_are_independent_and_a_change_loses_no_ack() {
    let mut bench = Bench::new("hold-acks");
    for port in [1, 2] {
        let data = Segment { port, seq: 1, ..segment(100) };
        assert!(bench.passes(Down, 0, tcp(Segment { down: true, port, ack: Some(1), ..segment(0) })));
        assert!(bench.passes(Up, 1, tcp(data)));
        assert!(!bench.passes(Down, 1, tcp(Segment { down: true, port, ack: Some(101), ..segment(0) })));
    }
    bench.replace("hold-acks:timer=1s", 2);
    bench.run(101);
    assert_eq!(bench.take_new().len(), 2);
}
