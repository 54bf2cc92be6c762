//! Decisions on measurements, most of them taken from real samples on two processors.

use super::{Delays, Machine, Measured, mark};
use crate::results::Sample;

const ARTICLE: f64 = 0.018;
const LAN: f64 = 0.0005;

/// Milliseconds of a real sample: waits of client and server, its own processor time and that of others, and the
/// lateness of a round trip in microseconds.
fn machine([client, server, own, others]: [f64; 4], late_round_trip_us: f64) -> Machine {
    Machine {
        client_wait_s: Some(client / 1e3),
        server_wait_s: Some(server / 1e3),
        own_s: Some(own / 1e3),
        others_s: Some(others / 1e3),
        late_round_trip_us,
        ..Machine::default()
    }
}

fn sample(ms: f64, rtt_s: f64, link_round_trips: u64, requests: u64) -> Measured {
    Measured {
        seconds: ms / 1e3,
        rtt_s,
        link_round_trips: Some(link_round_trips).filter(|trips| *trips > 0),
        requests: Some(requests),
    }
}

#[test]
fn samples_are_disturbed_as_far_as_the_machine_prolonged_them() {
    let in_real_time = Machine { real_time: true, ..machine([6.4, 48.1, 52.4, 47.6], 36.0) };
    let cases = [
        ("quiet, round trips", sample(2543.0, ARTICLE, 128, 128), machine([0.2, 0.6, 301.0, 20.0], 49.0), false),
        ("quiet, in parallel", sample(101.0, ARTICLE, 5, 16), machine([0.3, 2.1, 85.0, 20.0], 50.0), false),
        ("quiet LAN, round trips", sample(171.0, LAN, 128, 128), machine([0.1, 0.1, 144.0, 20.0], 50.0), false),
        // Its threads wait for one another: 60 ms of work in 33 ms on two processors.
        ("quiet LAN, own threads", sample(33.0, LAN, 24, 16), machine([1.0, 56.6, 61.0, 9.0], 45.0), false),
        ("a build beside it", sample(2596.0, ARTICLE, 128, 128), machine([39.0, 63.0, 288.0, 4912.0], 45.0), false),
        ("3 spinners, curl", sample(1673.0, ARTICLE, 74, 16), machine([300.0, 120.0, 330.0, 3016.0], 31.0), true),
        ("3 spinners, LAN", sample(538.0, LAN, 83, 16), machine([250.0, 80.0, 280.0, 796.0], 47.0), true),
        // The server's threads waited for 0.9 s of 2 s, the client's for 1.5 s.
        ("not real-time", sample(5000.0, ARTICLE, 128, 128), machine([1500.0, 900.0, 290.0, 9700.0], 600.0), true),
        // Its server's threads wait for one another, and programs of lower priority get what is left.
        ("chrt -r 1", sample(44.4, LAN, 18, 34), in_real_time, false),
        ("own work only", sample(1000.0, ARTICLE, 10, 10), machine([500.0, 500.0, 2000.0, 15.0], 50.0), false),
        ("a LAN under a delay error of 2 ms", sample(400.0, LAN, 10, 10), machine([0.0; 4], 2000.0), true),
        ("the same error on a long link", sample(4000.0, ARTICLE, 20, 20), machine([0.0; 4], 2000.0), false),
        ("late packets on a short link", sample(4000.0, 0.006, 2, 2), machine([0.0; 4], 7000.0), true),
        ("late packets that add little", sample(4000.0, 0.006, 2, 2), machine([0.0; 4], 5000.0), false),
        ("late packets without delay", sample(10.0, 0.0, 0, 9), machine([0.0; 4], 2000.0), false),
        ("nothing known", sample(10.0, ARTICLE, 0, 9), Machine::default(), false),
    ];
    for (what, sample, machine, disturbed) in cases {
        let judged = machine.judged(sample, 2);
        assert_eq!(judged.disturbed, disturbed, "{what}: {judged:?}");
        assert!(judged.added_s <= sample.seconds && judged.added_s >= 0.0, "{what}: {judged:?}");
    }
}

#[test]
fn stolen_time_counts_beyond_the_kernels_steps() {
    let judged = |stolen_s| Machine { stolen_s, ..Machine::default() }.judged(sample(100.0, ARTICLE, 5, 5), 2);
    assert_eq!([0.01, 0.02, 0.04, 0.06].map(|stolen| judged(stolen).disturbed), [false, false, false, true]);
    // Two per cent of each of 16 processors are two per cent of the sample.
    let many = Machine { stolen_s: 1.6, ..Machine::default() }.judged(sample(5000.0, ARTICLE, 5, 5), 16);
    assert!(!many.disturbed && many.added_s <= 0.1);
    assert!(judged(9.0).added_s <= 0.1);
}

#[test]
fn throttled_time_counts_whole_unless_the_run_has_real_time_priority() {
    // Alone on the machine, with half a processor of a container's: the client waited, but for nobody's work.
    let throttled = Machine { throttled_s: 0.9, ..machine([900.0, 0.0, 900.0, 10.0], 50.0) };
    let judged = throttled.clone().judged(sample(2000.0, ARTICLE, 60, 60), 2);
    assert!(judged.disturbed && (0.9..1.0).contains(&judged.added_s), "{judged:?}");
    let little = Machine { throttled_s: 0.1, ..throttled.clone() };
    assert!(!little.judged(sample(2000.0, ARTICLE, 60, 60), 2).disturbed);
    let real_time = Machine { real_time: true, ..throttled.clone() };
    assert!(!real_time.judged(sample(2000.0, ARTICLE, 60, 60), 2).disturbed);
    let outside = throttled.clone().within(0.1);
    assert!(!outside.judged(sample(2000.0, ARTICLE, 60, 60), 2).disturbed);
    assert!(throttled.judged(sample(100.0, ARTICLE, 5, 5), 2).added_s <= 0.1);
}

#[test]
fn mark_names_the_cpu_limit_if_it_is_the_reason() {
    let cell = |throttled_s| {
        let machine = Machine { added_s: 1.2, throttled_s, disturbed: true, ..Machine::default() };
        mark(&[Sample { seconds: 2.5, machine: Some(machine), ..Sample::default() }], ARTICLE).unwrap()
    };
    assert!(cell(1.0).ends_with(
        "may have added 48 % of the time and the CPU limit of the cgroup (a container's, for example) throttled it for 40 %"
    ));
    assert!(!cell(0.1).contains("limit"));
}

#[test]
fn waits_at_the_same_time_count_once() {
    let machine = machine([30.0, 60.0, 0.0, 0.0], 0.0);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} and {b}");
    let parallel = machine.delays(sample(100.0, ARTICLE, 5, 15));
    near(parallel.client, 0.01);
    near(parallel.server, 0.02);
    // They cannot have waited for longer than the sample took.
    let Delays { client, server, emulator } = machine.delays(sample(45.0, ARTICLE, 5, 5));
    near(client, 0.015);
    near(server, 0.03);
    near(emulator, 0.0);
}

#[test]
fn thread_that_serves_many_requests_waits_for_all_of_them() {
    // One of the client's threads waited for 28 of the 30 ms, and the requests were three at a time.
    let one = Machine { client_longest_wait_s: Some(0.028), ..machine([30.0, 0.0, 0.0, 0.0], 0.0) };
    assert!((one.delays(sample(100.0, ARTICLE, 5, 15)).client - 0.028).abs() < 1e-9);
    let many = Machine { client_longest_wait_s: Some(0.003), ..one };
    assert!((many.delays(sample(100.0, ARTICLE, 5, 15)).client - 0.01).abs() < 1e-9);
}

#[test]
fn waits_outside_the_clock_do_not_count() {
    // A browser that starts for 3 s, and loads a page in 1 s.
    let whole = machine([800.0, 0.0, 3000.0, 3000.0], 0.0);
    let page = sample(1000.0, ARTICLE, 20, 20);
    assert!(whole.clone().judged(page, 2).disturbed);
    let within = whole.within(0.25);
    assert_eq!((within.client_wait_s, within.own_s), (Some(0.2), Some(0.75)));
    assert!(!within.judged(page, 2).disturbed);
}

#[test]
fn cell_is_marked_if_too_many_samples_are_disturbed() {
    let machine = |disturbed: bool| Machine {
        added_s: if disturbed { 1.2 } else { 0.0 },
        late_round_trip_us: 2000.0,
        disturbed,
        ..Machine::default()
    };
    let cell = |disturbed: u32, all: u32| -> Vec<Sample> {
        let sample = |n| Sample { seconds: 2.5, machine: Some(machine(n < disturbed)), ..Sample::default() };
        (0..all).map(sample).collect()
    };
    let marked = [(0, 3), (1, 3), (1, 4), (2, 4), (2, 10), (3, 10), (1, 1)];
    let expected = [false, true, false, true, false, true, true];
    assert_eq!(marked.map(|(disturbed, all)| mark(&cell(disturbed, all), ARTICLE).is_some()), expected);
    assert_eq!(mark(&cell(2, 3), ARTICLE).unwrap(), "in 2 of 3 samples the machine may have added 48 % of the time");
    assert_eq!(
        mark(&cell(1, 1), LAN).unwrap(),
        "in 1 of 1 sample the machine may have added 48 % of the time and packets were 2.0 ms late in a round trip of \
         500 µs"
    );
    let older = Sample { seconds: 1.0, ..Sample::default() };
    assert_eq!(mark(&[older], ARTICLE), None, "an earlier build did not measure it");
    assert_eq!(mark(&[], ARTICLE), None);
}
