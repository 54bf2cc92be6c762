//! The upload that an odd number of segments made ten times slower, and a healthy one, from printed captures.

use std::time::Duration;

use capture::Format;
use explain::{Cause, Connection};
use units::Size;

const SLOW: &str = include_str!("traces/ie.snoop.txt");
const HEALTHY: &str = include_str!("traces/netscape.snoop.txt");

fn explain_trace(text: &'static str) -> Connection {
    let mut source = capture::read(text.as_bytes(), "printed trace", Some(Format::Snoop)).expect("a snoop trace");
    let (mut explanation, broken) = explain::explain(&mut *source);
    assert!(broken.is_none());
    explanation.connections.remove(0)
}

#[test]
fn slow_upload_waits_for_a_delayed_ack_in_each_chunk() {
    let connection = explain_trace(SLOW);
    assert_eq!((connection.mss, connection.chunk), (1160, Some(8217)));
    assert_eq!(connection.ends(), "host22:1742 → yangtze:443");
    let [transfer] = &connection.transfers[..] else { panic!("one upload") };
    assert_eq!(transfer.cause, Some(Cause::DelayedAck));
    let finding = &transfer.findings[0];
    assert_eq!((finding.cost, &finding.packets[..]), (Duration::from_micros(93_110), &[416][..]));
    assert!(finding.why.contains("93 ms to 97 ms") && finding.why.contains("7 segments of 1160 bytes and one of 97"));
}

#[test]
fn predicted_18_mb_take_four_minutes_and_less_than_one_with_the_fix() {
    let connection = explain_trace(SLOW);
    let predicted = |change: &str| {
        let change = change.parse().expect("a what-if");
        let predicted = connection.transfers[0].what_if(&change, Some(Size(18_000_000)));
        predicted.expect("a transfer with data").expect("a replica that agrees").duration.as_secs_f64()
    };
    let (slow, fast) = (predicted(""), predicted("deferred-ack=1ms"));
    assert!((240.0..258.0).contains(&slow), "{slow} s");
    assert!((35.0..45.0).contains(&fast), "{fast} s");
}

#[test]
fn other_browsers_upload_is_healthy() {
    let connection = explain_trace(HEALTHY);
    assert!(connection.transfers.iter().all(|transfer| transfer.findings.is_empty()));
    // Two round trips from the middle of a connection are not enough to infer its congestion window.
    let [transfer] = &connection.transfers[..] else { panic!("one upload") };
    assert_eq!(transfer.times[Cause::Propagation], transfer.times.sum());
}
