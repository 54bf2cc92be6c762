//! Senders that pace, told from a window that acknowledgements refill, and from the path.

use explain::{
    Cause, Connection, Transfer,
    render::{PredictionRequest, text},
};

use crate::{
    connection_script::Captured,
    simulated_download::{Download, View, takes},
};

/// The initial window of ten segments, then slow start, up to a window.
fn window(view: View, most: u64) -> bool {
    view.sent - view.acked < (10 + view.acked).min(most)
}

/// A sender that sends two packets at a time at a rate, after an initial window that is not paced.
fn paced(rate: f64) -> impl FnMut(View) -> bool {
    let mut next = 0.0;
    move |view| {
        let may = window(view, 1000) && (view.sent < 10 || view.now as f64 >= next || view.sent % 2 == 1);
        if may && view.sent >= 10 && view.sent % 2 == 0 {
            next = (view.now as f64).max(next) + 2.0 * takes(rate);
        }
        may
    }
}

/// The downloads of the only connection of captures at the client and the server, with their connections.
fn explained(captures: [Captured; 2]) -> [(Connection, Transfer); 2] {
    captures.map(|captured| {
        let mut connections = captured.explained().connections;
        assert_eq!(connections.len(), 1);
        let connection = connections.remove(0);
        let transfer = connection.transfers[0].clone();
        (connection, transfer)
    })
}

/// The first line for the user.
fn answer(captured: Captured) -> String {
    let connections = explain::pair_captures([captured.explained()]);
    let layout = text::Layout { width: 1000, colour: false, top: 5 };
    let text = text::render(&connections, 9, &PredictionRequest::default(), &layout);
    text.lines().next().unwrap_or_default().to_owned()
}

fn share(transfer: &Transfer, cause: Cause) -> f64 {
    transfer.times[cause] as f64 / transfer.times.sum() as f64
}

#[track_caller]
fn assert_is_mostly(transfer: &Transfer, cause: Cause) {
    assert!(share(transfer, cause) > 0.6, "{:?}", transfer.times.ranked());
}

#[track_caller]
fn assert_is_not_paced(ends: &[(Connection, Transfer); 2]) {
    for (_, transfer) in ends {
        assert_eq!(transfer.times[Cause::Pacing], 0, "{:?}", transfer.times.ranked());
    }
}

#[test]
fn paced_sender_is_named_with_its_rate_at_both_ends() {
    // Acknowledgements come at any time between two packets, or in bunches.
    for (rtt, rate, ack_every) in
        [(30_000, 8.0, 2), (31_700, 8.0, 2), (40_000, 3.0, 2), (30_000, 8.0, 9), (25_000, 20.0, 4)]
    {
        let download = Download { rtt, ack_every, ..Download::default() };
        for (connection, transfer) in explained(download.run(paced(rate))) {
            assert_is_mostly(&transfer, Cause::Pacing);
            let finding = &transfer.findings[0];
            assert_eq!(finding.cause, Cause::Pacing);
            assert!(
                finding.why.contains(&format!("at {rate:.0}")) || finding.why.contains(&format!("at {rate:.1}")),
                "{}",
                finding.why
            );
            // Without it, the path's rate is the limit, and slow start before.
            let predicted = transfer.without(finding);
            assert_eq!(predicted.is_some(), connection.rate.is_some());
            let Some(predicted) = predicted.map(|predicted| predicted.duration) else { continue };
            let full = explained(download.run(|view| window(view, 1000))).map(|(_, transfer)| transfer.duration);
            let ratio = predicted.as_secs_f64() / full[0].as_secs_f64();
            assert!((0.8..1.25).contains(&ratio), "{predicted:?} instead of {full:?}");
        }
    }
}

#[test]
fn paced_sender_is_named_in_a_capture_that_begins_late() {
    let late = |captured: Captured| {
        let packets = captured.packets[captured.packets.len() / 3..].to_vec();
        let mut late = captured;
        late.packets = packets;
        late
    };
    let [_, server] = Download::default().run(paced(8.0)).map(late);
    let server = server.explained().connections.remove(0);
    assert_is_mostly(&server.transfers[0], Cause::Pacing);
    let full = Download { link: 10.0, segments: 3000, ..Download::default() };
    for [_, server] in [full.run(|view| window(view, 40)), full.run(bbr(30_000, 10.0))] {
        let server = late(server).explained().connections.remove(0);
        assert_eq!(server.transfers[0].times[Cause::Pacing], 0, "{:?}", server.transfers[0].times.ranked());
    }
}

#[test]
fn shaper_in_the_senders_host_is_seen_there_and_looks_like_a_bottleneck_elsewhere() {
    let download = Download { shaper: Some(8.0), ..Download::default() };
    let captures = download.run(|view| window(view, 200));
    let [at_client, at_server] = captures.clone().map(answer);
    assert!(at_client.contains("A shaper in the sender's host would look the same"), "{at_client}");
    assert!(at_server.contains("sender pacing"), "{at_server}");
    let [client, server] = explained(captures);
    assert_is_mostly(&server.1, Cause::Pacing);
    assert!(server.1.findings[0].why.contains("in a shaper"), "{}", server.1.findings[0].why);
    assert_is_mostly(&client.1, Cause::PathRate);
    let rate = client.0.rate.expect("a rate");
    assert!((7e6..9e6).contains(&rate), "{rate}");
}

#[test]
fn window_that_acknowledgements_refill_is_not_pacing() {
    for ack_every in [1, 2, 6] {
        let download = Download { ack_every, ..Download::default() };
        let ends = explained(download.run(|view| window(view, 20)));
        assert_is_not_paced(&ends);
        assert_is_mostly(&ends[1].1, Cause::SendBuffer);
    }
}

#[test]
fn full_path_is_not_pacing() {
    for (most, ack_every) in [(40, 2), (60, 2), (40, 8)] {
        let download = Download { link: 10.0, ack_every, ..Download::default() };
        let ends = explained(download.run(|view| window(view, most)));
        assert_is_not_paced(&ends);
        assert_is_mostly(&ends[0].1, Cause::PathRate);
        assert_is_mostly(&ends[1].1, Cause::PathRate);
    }
}

#[test]
fn pacing_of_a_window_is_not_the_limit() {
    // fq and CUBIC: 1.2 times the window per round trip.
    for ack_every in [2, 8] {
        let download = Download { ack_every, ..Download::default() };
        let (mut next, window_size) = (0.0, 25);
        let gap = 30_000.0 / window_size as f64 / 1.2;
        let ends = explained(download.run(|view| {
            let may = window(view, window_size) && view.now as f64 >= next;
            if may {
                next = view.now as f64 + gap;
            }
            may
        }));
        assert_is_not_paced(&ends);
    }
}

#[test]
fn program_that_writes_packet_by_packet_is_not_pacing() {
    let mut next = 0.0;
    let download = Download { is_pushed: true, ..Download::default() };
    let ends = explained(download.run(|view| {
        let may = view.now as f64 >= next;
        if may {
            next += takes(3.0);
        }
        may
    }));
    assert_is_not_paced(&ends);
}

/// BBR (draft-cardwell-iccrg-bbr-congestion-control): start-up paces at 2.89 times the delivery rate of the last round trip;
/// then eight phases of a round trip each, one a quarter faster, the next as much slower.
fn bbr(rtt: u64, link: f64) -> impl FnMut(View) -> bool {
    let (mut next, mut round, mut delivered) = (0.0, 0, vec![0]);
    // Ten segments in the first round trip.
    let mut estimate = 10.0 / rtt as f64;
    let mut full_since = None;
    move |view| {
        if view.now / rtt > round {
            round = view.now / rtt;
            delivered.push(view.acked);
            let last = delivered[delivered.len() - 1] - delivered[delivered.len() - 2];
            let measured = last as f64 / rtt as f64;
            if round > 2 && measured < estimate * 1.25 && full_since.is_none() {
                full_since = Some(round);
            }
            estimate = measured.max(estimate).min(1.0 / takes(link));
        }
        let gain = match full_since {
            None => 2.89,
            Some(since) if round == since => 0.35,
            Some(since) => [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0][((round - since) % 8) as usize],
        };
        let may = view.sent < 10 || view.now as f64 >= next;
        if may && view.sent >= 10 {
            next = (view.now as f64).max(next) + 1.0 / (gain * estimate);
        }
        may
    }
}

#[test]
fn start_up_of_bbr_is_no_path_rate() {
    let lengths = [(30_000, 70), (30_000, 200), (30_000, 350), (80_000, 200), (80_000, 700)];
    // HTTP/2 begins with small frames, and its responses do not fill segments.
    let http2: &[u64] = &[33, 13, 9, 1448, 1448, 1416, 1448, 1448, 1209, 1448];
    for (first, (rtt, segments)) in [&[][..], http2].into_iter().flat_map(|first| lengths.map(|length| (first, length)))
    {
        let download = Download { rtt, segments, first, ..Download::default() };
        for (connection, transfer) in explained(download.run(bbr(rtt, 100.0))) {
            assert!(connection.rate.is_none_or(|rate| rate > 80e6), "{segments}: {:?}", connection.rate);
            assert!(share(&transfer, Cause::PathRate) < 0.25, "{segments}: {:?}", transfer.times.ranked());
            assert_eq!(transfer.times[Cause::Pacing], 0);
        }
    }
}

#[test]
fn bbr_on_a_full_path_is_limited_by_the_path() {
    for link in [4.0, 10.0, 30.0] {
        let download = Download { link, segments: 4000, ..Download::default() };
        let ends = explained(download.run(bbr(30_000, link)));
        assert_is_not_paced(&ends);
        for (connection, transfer) in &ends {
            assert_is_mostly(transfer, Cause::PathRate);
            let rate = connection.rate.expect("a rate") / 1e6;
            assert!((link * 0.9..link * 1.1).contains(&rate), "{rate}");
        }
    }
}
