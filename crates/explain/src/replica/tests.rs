//! Properties of replays for any model; and the replica of the upload in the printed traces, which a fix makes seven times
//! faster.

use std::time::{Duration, Instant};

use proptest::{collection::vec, option, prelude::*, sample::select};
use units::{Rate, Size};

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn seconds(model: &Model) -> f64 {
    replay(model).unwrap().duration.as_secs_f64()
}

/// Internet Explorer's upload in the printed trace: writes of 8217 bytes, each waits for the acknowledgement of the one
/// before; MSS 1160 without timestamps; 0.14 ms between segments, so 70 Mbit/s; 16.5 ms until the first acknowledgement of
/// a chunk; delayed ACKs 93 and 97 ms after the one before (a timer of 100 ms in a kernel with ticks of 10 ms); a window of
/// eight segments.
fn internet_explorer(bytes: u64) -> Model {
    let mut model = Model::new(Size(bytes), Duration::from_micros(16_500));
    (model.path.headers, model.path.rate) = (Size(40), Some(Rate::bits_per_second(70_000_000)));
    (model.writes.chunk, model.writes.in_flight) = (Some(Size(8217)), Some(1));
    model.sender.mss = Size(1160);
    model.sender.initial_window = 8; // in the middle of a transfer
    model.sender.congestion = Congestion::Reno;
    (model.sender.min_rto, model.sender.tail_loss_probe) = (ms(300), false);
    model.receiver.window = Some(Size(8 * 1160));
    model.receiver.acks = Acks { rule: AckRule::Segments(2), timer: ms(95), quick: 0, pushed_at_once: false };
    model
}

#[test]
fn captured_upload_waits_for_a_delayed_ack_in_each_chunk() {
    let [one, two] = [1, 2].map(|chunks| replay(&internet_explorer(8217 * chunks)).unwrap().duration);
    let chunk = two.saturating_sub(one);
    assert!((ms(110)..ms(115)).contains(&chunk), "{chunk:?}");
    let whole = replay(&internet_explorer(18_000_000)).unwrap();
    assert!((240.0..258.0).contains(&whole.duration.as_secs_f64()), "{whole:?}");
    assert_eq!(whole.deferred_acks, 18_000_000_u64.div_ceil(8217));
}

#[test]
fn fixes_make_the_captured_upload_seven_times_faster() {
    let observed = replay(&internet_explorer(8217 * 2)).unwrap().duration;
    let captured = Prediction::new(internet_explorer(8217 * 2), observed).unwrap().of_bytes(Size(18_000_000));
    let predicted = |text: &str| captured.with(&text.parse().unwrap()).unwrap().as_secs_f64();
    assert!((240.0..258.0).contains(&predicted("")));
    assert!((35.0..45.0).contains(&predicted("deferred-ack=1ms")), "{}", predicted("deferred-ack=1ms"));
    // Eight full segments are acknowledged at once; two chunks in flight let the second release the first.
    assert!((30.0..40.0).contains(&predicted("chunk=9280")), "{}", predicted("chunk=9280"));
    assert!(predicted("send-buffer=64KiB,receive-window=64KiB") < 15.0);
}

#[test]
fn captured_netscape_upload_is_healthy() {
    let mut model = internet_explorer(2_000_000);
    (model.path.rtt, model.sender.mss) = (ms(18), Size(1460));
    (model.writes.chunk, model.writes.in_flight) = (Some(Size(2072)), None);
    (model.sender.nagle, model.receiver.window) = (Nagle::Off, Some(Size(8760)));
    let deferred = seconds(&model);
    model.receiver.acks.timer = ms(1);
    assert!(deferred < 1.1 * seconds(&model) && deferred * 9.0 < 60.0, "{deferred} {}", seconds(&model));
}

#[test]
fn slow_start_takes_the_expected_round_trips() {
    let mut model = Model::new(Size(10 * 1448), ms(100));
    let took = |model: &Model| replay(model).unwrap().duration.as_millis();
    assert_eq!(took(&model), 100);
    // 10, 20, 40: the 70th segment is in the third round.
    model.bytes = Size(70 * 1448);
    assert_eq!(took(&model), 300);
    model.bytes = Size(71 * 1448);
    assert_eq!(took(&model), 400);
    model.receiver.acks.pushed_at_once = false;
    assert_eq!(took(&model), 440, "the 71st segment is alone, and its ACK deferred");
    model.until = Until::Delivered;
    assert_eq!(took(&model), 350);
    model.before = Before { trips: 3, time: ms(10), ..Before::default() };
    assert_eq!(took(&model), 510);
    model.until = Until::Answered(ms(20));
    assert_eq!(took(&model), 580);
}

#[test]
fn sender_is_limited_to_one_window_or_buffer_per_round_trip() {
    let mut model = Model::new(Size(50 * 14480), ms(50));
    model.receiver.acks.rule = AckRule::Packets(1);
    model.sender.initial_window = 20;
    let free = model.clone();
    model.receiver.window = Some(Size(14480));
    assert!((2.49..2.6).contains(&seconds(&model)), "{}", seconds(&model));
    let mut model = free.clone();
    model.writes.send_buffer = Some(Size(14480));
    assert!((2.49..2.6).contains(&seconds(&model)), "{}", seconds(&model));
    let mut model = free.clone();
    model.sender.largest_window = Some(Size(14480));
    assert!((2.49..2.6).contains(&seconds(&model)), "{}", seconds(&model));
    assert!(seconds(&free) < 0.4);
}

#[test]
fn sender_is_limited_to_its_pacing_rate() {
    for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Bbr] {
        let mut model = plain(1000 * 1448, 30, 100_000_000);
        model.sender.congestion = congestion;
        let free = seconds(&model);
        // A packet of 1500 bytes takes 1.5 ms; the first ten leave at once.
        model.sender.pacing = Some(Rate::bits_per_second(8_000_000));
        assert!((1.45..1.6).contains(&seconds(&model)), "{congestion:?}: {}", seconds(&model));
        let without = "no-pacing".parse::<WhatIf>().unwrap().apply(&model);
        assert!((seconds(&without) - free).abs() < 1e-9 && free < 0.5, "{congestion:?}: {free}");
    }
}

#[test]
fn nagle_holds_the_second_small_write_until_the_first_is_acknowledged() {
    let mut model = Model::new(Size(200), ms(40));
    model.writes.chunk = Some(Size(100));
    model.receiver.acks = Acks { rule: AckRule::Packets(2), timer: ms(200), quick: 0, pushed_at_once: false };
    for nagle in [Nagle::Any, Nagle::Small] {
        model.sender.nagle = nagle;
        model.sender.tail_loss_probe = false;
        assert_eq!(replay(&model).unwrap().delivered, ms(20 + 200 + 20 + 20), "{nagle:?}");
    }
    model.sender.nagle = Nagle::Off;
    assert_eq!(replay(&model).unwrap().delivered, ms(20));
}

#[test]
fn loss_takes_a_round_trip_and_tail_loss_a_timer() {
    let mut model = Model::new(Size(1_000_000), ms(50));
    let clean = replay(&model).unwrap();
    assert_eq!((clean.retransmissions, clean.timeouts, clean.tail_probes), (0, 0, 0));
    let lose = |model: &mut Model, at: u64, times| model.path.losses = vec![Loss { bytes: at..at + 1, times }];
    lose(&mut model, 20 * 1448, 1);
    let fast = replay(&model).unwrap();
    assert_eq!((fast.retransmissions, fast.timeouts), (1, 0));
    let last = (1_000_000 - 1) / 1448 * 1448;
    lose(&mut model, last, 1);
    let probed = replay(&model).unwrap();
    assert_eq!((probed.retransmissions, probed.tail_probes), (1, 1));
    assert!(probed.duration > clean.duration + ms(90));
    model.sender.tail_loss_probe = false;
    let timed_out = replay(&model).unwrap();
    assert_eq!((timed_out.retransmissions, timed_out.timeouts), (1, 1));
    lose(&mut model, last, 4);
    let backed_off = replay(&model).unwrap();
    assert_eq!(backed_off.timeouts, 4);
    assert!(backed_off.duration > timed_out.duration + ms(249 * (2 + 4 + 8)));
    model.sender.sack = false;
    lose(&mut model, 20 * 1448, 1);
    assert_eq!(replay(&model).unwrap().retransmissions, 1);
}

#[test]
fn pauses_and_stalls_add_to_the_duration() {
    let mut model = Model::new(Size(100_000), ms(20));
    let clean = replay(&model).unwrap().duration;
    model.writes.pauses = vec![Pause { at: 50_000, time: ms(300), since: Since::Sent }];
    assert!(replay(&model).unwrap().duration >= clean + ms(280));
    model.writes.pauses[0].since = Since::Acknowledged;
    assert!(replay(&model).unwrap().duration >= clean + ms(300));
    model.writes.pauses.clear();
    model.receiver.window = Some(Size(20_000));
    let narrow = replay(&model).unwrap().duration;
    model.receiver.stalls = vec![Stall { at: 30_000, time: ms(500) }];
    let stalled = replay(&model).unwrap().duration;
    assert!((narrow + ms(480)..narrow + ms(560)).contains(&stalled), "{narrow:?} {stalled:?}");
    model.receiver.stalls.clear();
    model.receiver.reads = Some(Rate::bits_per_second(400_000));
    assert!(replay(&model).unwrap().duration > ms(1200));
}

#[test]
fn scaled_transfer_has_losses_and_pauses_as_often_per_byte() {
    let mut model = Model::new(Size(100_000), ms(20));
    model.path.losses = vec![Loss { bytes: 30_000..31_448, times: 1 }];
    model.writes.pauses =
        vec![Pause { at: 0, time: ms(10), since: Since::Sent }, Pause { at: 60_000, time: ms(50), since: Since::Sent }];
    let larger = model.scaled(Size(1_000_000));
    assert_eq!((larger.path.losses.len(), larger.writes.pauses.len()), (10, 11));
    assert_eq!(larger.path.losses[9].bytes, 930_000..931_448);
    assert_eq!(replay(&larger).unwrap().retransmissions, 10);
    let smaller = model.scaled(Size(50_000));
    assert_eq!((smaller.path.losses.len(), smaller.writes.pauses.len()), (1, 1));
}

#[test]
fn prediction_is_declined_when_replica_differs() {
    let model = Model::new(Size(1_000_000), ms(50));
    let took = replay(&model).unwrap().duration;
    let prediction = Prediction::new(model.clone(), took.mul_f64(1.05)).unwrap();
    assert!((-0.048..-0.047).contains(&prediction.model_error()));
    assert_eq!(prediction.with(&WhatIf::default()), Ok(took));
    assert!(prediction.with(&"rtt=10ms".parse().unwrap()).unwrap() < took / 3);
    let declined = Prediction::new(model.clone(), took.mul_f64(1.2)).unwrap_err().to_string();
    assert!(declined.starts_with("no prediction: the transfer took"), "{declined}");
    assert!(Prediction::new(model, Duration::ZERO).is_err());
}

#[test]
fn values_out_of_range_are_named() {
    let result = |change: fn(&mut Model)| {
        let mut model = Model::new(Size(1_000_000), ms(50));
        change(&mut model);
        replay(&model).unwrap_err().to_string()
    };
    assert_eq!(result(|m| m.sender.mss = Size(0)), "cannot replay the transfer: the MSS is 0; it must be at least 1");
    assert!(
        result(|m| m.path.rate = Some(Rate::bits_per_second(1 << 60))).contains("the rate in bits per second is 11529")
    );
    assert!(result(|m| m.bytes = Size(u64::MAX)).contains("the number of bytes is"));
    assert!(result(|m| m.path.rtt = Duration::MAX).contains("the RTT is"));
    assert!(result(|m| m.writes.chunk = Some(Size(0))).contains("the chunk of a write is 0"));
    assert!(result(|m| m.sender.initial_window = 0).contains("the initial window"));
}

#[test]
fn large_transfer_replays_quickly() {
    for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Bbr] {
        let mut model = Model::new(Size(18_000_000), ms(20));
        (model.path.rate, model.path.queue) = (Some(Rate::bits_per_second(100_000_000)), Some(Size(250_000)));
        model.sender.congestion = congestion;
        let start = Instant::now();
        let replay = replay(&model).unwrap();
        println!("{congestion:?}: {:?} for {replay:?}", start.elapsed());
        // The link is busy nearly all the time with any congestion control.
        assert!((1.49..1.8).contains(&replay.duration.as_secs_f64()), "{congestion:?} {replay:?}");
    }
}

prop_compose! {
    fn paths()(
        rtt in 0u64..300, rate in option::of(100_000u64..1_000_000_000), queue in option::of(0u64..500_000),
        losses in vec((0u64..300_000, 1u64..5000, 1u32..4), 0..5),
    ) -> Path {
        let losses = losses.into_iter().map(|(at, length, times)| Loss { bytes: at..at + length, times }).collect();
        Path { rtt: ms(rtt), rate: rate.map(Rate::bits_per_second), unshared_rate: None, queue: queue.map(Size), headers: Size(52), losses }
    }
}

prop_compose! {
    fn all_writes()(
        chunk in option::of(1u64..100_000), in_flight in option::of(1u32..5), buffer in option::of(1u64..200_000),
        low in 0u64..300_000, pauses in vec((0u64..400_000, 0u64..500, any::<bool>()), 0..4),
    ) -> Writes {
        let since = |sent| if sent { Since::Sent } else { Since::Acknowledged };
        Writes {
            chunk: chunk.map(Size), in_flight, send_buffer: buffer.map(Size), low_water: Size(low),
            pauses: pauses.into_iter().map(|(at, time, sent)| Pause { at, time: ms(time), since: since(sent) }).collect(),
        }
    }
}

prop_compose! {
    fn senders()(
        mss in 1u64..3000, initial_window in 1u32..50,
        congestion in select(vec![Congestion::Reno, Congestion::Cubic, Congestion::Bbr]),
        nagle in select(vec![Nagle::Off, Nagle::Any, Nagle::Small]),
        pacing in option::of(10_000u64..1_000_000_000), threshold in option::of(1u64..100_000), largest in option::of(1u64..100_000), min_rto in 0u64..1000,
        flags in any::<[bool; 3]>(),
    ) -> Sender {
        Sender {
            mss: Size(mss), initial_window, congestion, nagle, min_rto: ms(min_rto),
            pacing: pacing.map(Rate::bits_per_second),
            slow_start_threshold: threshold.map(Size), largest_window: largest.map(Size),
            restart_after_idle: flags[0], sack: flags[1], tail_loss_probe: flags[2],
        }
    }
}

prop_compose! {
    fn receivers()(
        rule in select(vec![AckRule::Packets(1), AckRule::Packets(2), AckRule::Segments(2), AckRule::Segments(8),
                            AckRule::MoreThanSegment, AckRule::Bytes(Size(5000))]),
        timer in 0u64..500, quick in 0u32..20, pushed_at_once in any::<bool>(),
        window in option::of(1u64..200_000), largest in option::of(1u64..1_000_000),
        reads in option::of(10_000u64..1_000_000_000), stalls in vec((0u64..400_000, 0u64..500), 0..4),
    ) -> Receiver {
        Receiver {
            acks: Acks { rule, timer: ms(timer), quick, pushed_at_once },
            window: window.map(Size), largest_window: largest.map(Size), reads: reads.map(Rate::bits_per_second),
            stalls: stalls.into_iter().map(|(at, time)| Stall { at, time: ms(time) }).collect(),
        }
    }
}

prop_compose! {
    fn models()(
        bytes in 0u64..300_000, path in paths(), writes in all_writes(), sender in senders(), receiver in receivers(),
        until in select(vec![Until::Delivered, Until::Acknowledged, Until::Answered(ms(7))]), trips in 0u32..8,
    ) -> Model {
        let before = Before { trips, time: ms(3), ..Before::default() };
        Model { bytes: Size(bytes), before, until, path, writes, sender, receiver }
    }
}

/// A model that only the path and slow start limit: only there, less delay or data never takes longer.
fn plain(bytes: u64, rtt: u64, rate: u64) -> Model {
    let mut model = Model::new(Size(bytes), ms(rtt));
    model.path.rate = Some(Rate::bits_per_second(rate));
    model.sender.congestion = Congestion::Reno;
    model.receiver.acks.rule = AckRule::Packets(1);
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// For any model the replay ends, every byte arrives, and not earlier than RTT and rate allow.
    #[test]
    fn every_transfer_ends_and_is_complete(model in models()) {
        let result = replay(&model).unwrap();
        prop_assert_eq!(result, replay(&model).unwrap());
        let least = model.bytes.0.div_ceil(model.sender.mss.0);
        prop_assert!(result.packets - result.retransmissions >= least, "{:?}", result);
        let transmission = model.path.rate.map_or(0.0, |rate| model.bytes.0 as f64 * 8.0 / rate.as_bits_per_second() as f64);
        let propagation = model.path.rtt.as_secs_f64() / 2.0 * f64::from(model.before.trips + 1);
        if model.bytes.0 > 0 {
            prop_assert!(result.duration.as_secs_f64() + 1e-6 >= transmission + propagation, "{:?}", result);
        }
        prop_assert!(result.delivered <= result.duration);
    }

    #[test]
    fn path_with_longer_rtt_or_lower_rate_is_never_faster(
        bytes in 1u64..2_000_000, rtts in (0u64..200, 0u64..200), rates in (100_000u64..100_000_000, 100_000u64..100_000_000),
    ) {
        let (near, far) = (rtts.0.min(rtts.1), rtts.0.max(rtts.1));
        let (narrow, wide) = (rates.0.min(rates.1), rates.0.max(rates.1));
        let best = replay(&plain(bytes, near, wide)).unwrap().duration;
        prop_assert!(best <= replay(&plain(bytes, far, wide)).unwrap().duration);
        prop_assert!(best <= replay(&plain(bytes, near, narrow)).unwrap().duration);
        prop_assert!(best <= replay(&plain(bytes + 1448, near, wide)).unwrap().duration);
    }

    #[test]
    fn longer_delayed_ack_timer_is_never_faster(
        chunk in 1u64..50_000, timers in (0u64..300, 0u64..300),
    ) {
        let with = |timer| {
            let mut model = internet_explorer(100_000);
            (model.writes.chunk, model.receiver.acks.timer) = (Some(Size(chunk.max(100))), ms(timer));
            model.sender.min_rto = Duration::from_secs(1);
            replay(&model).unwrap().duration
        };
        prop_assert!(with(timers.0.min(timers.1)) <= with(timers.0.max(timers.1)));
    }
}
